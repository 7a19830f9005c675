"""What protects exactly-once, as data: how a test switches it off, and which check must notice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from calve import position
from calve.errors import CalveError, Conflict, Unavailable
from calve.iceberg import evolve as iceberg_evolve
from calve.iceberg import failures, swap
from calve.iceberg.stage import Staged
from calve.iceberg.swap import Change, Proposal
from calve.iceberg.table import Metadata, Table
from calve.position import Decision, Lineage, Mark
from calve.runtime.runner import Runner
from calve.sink import batch, collected, commit, evolve, prepare
from calve.sink.commit import Committer
from calve.sink.delta import Delta
from calve.sink.writer import Writer
from calve.sources import kafka_position
from calve.verify import Invariant
from tests.faults.model import truth

Switch = Callable[[pytest.MonkeyPatch], None]
Propose = Callable[[Metadata], Proposal]


@dataclass(frozen=True)
class Protection:
    """One protection.

    `off` switches it off in the production code, from a test only. `tiers` must notice that, by one of the
    invariants of `breaks`. `draws` narrows the model's search to what the protection is there for.
    """

    name: str
    tiers: tuple[str, ...]
    breaks: tuple[str, ...]
    off: Switch | None = None
    draws: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return self.name


def _judge_before_apply(patch: pytest.MonkeyPatch) -> None:
    real = swap.attempt

    def attempt(table: Table, change: Change, propose: Propose, place: str) -> Mark:
        judged = propose(table.metadata())
        return real(table, change, lambda base: judged, place)

    patch.setattr(commit, "attempt", attempt)


def _swap_on_whatever_is_there(patch: pytest.MonkeyPatch) -> None:
    real = swap._swap

    def swap_blindly(table: Table, base: Metadata, snapshot: Any, change: Change, mark: Mark) -> None:
        real(table, table.refresh(), snapshot, change, mark)

    patch.setattr(swap, "_swap", swap_blindly)


def _ignore_a_mark_that_changed_under_apply(patch: pytest.MonkeyPatch) -> None:
    def attempt(table: Table, change: Change, propose: Propose, place: str) -> Mark:
        snapshot = swap._update(table, change, propose(table.metadata()).mark).apply()
        proposal = propose(table.metadata())
        if not proposal.landed:
            swap.crash.point(f"{place}.applied")
            swap._swap(table, table.metadata(), snapshot, change, proposal.mark)
            swap.crash.point(f"{place}.swapped")
        return proposal.mark

    patch.setattr(commit, "attempt", attempt)


def _decide(is_ours: Callable[[Mark | None, Mark], bool]) -> Switch:
    """Take more marks for our own than exactly ours."""

    def off(patch: pytest.MonkeyPatch) -> None:
        real = position.decide

        def decide(current: Mark | None, held: Mark, commit: str, ancestors: Any, name: str) -> Decision:
            landed = current is not None and current.commit == commit
            taken = held if not landed and is_ours(current, held) else current
            # A writer that takes another's mark for its own does not look for its own commits either.
            return real(taken, held, commit, _nameless(ancestors), name)

        patch.setattr(position, "decide", decide)

    return off


def _same_epoch(current: Mark | None, held: Mark) -> bool:
    return current is not None and current.epoch == held.epoch


def _any_mark(current: Mark | None, held: Mark) -> bool:
    return current is not None


def _missing(current: Mark | None, held: Mark) -> bool:
    return current is None


def _keep_the_epoch(patch: pytest.MonkeyPatch) -> None:
    real = position.next_epoch

    def next_epoch(current: Mark | None, **names: Any) -> Mark:
        mark = real(current, **names)
        return replace(mark, epoch=current.epoch) if current else mark

    patch.setattr(position, "next_epoch", next_epoch)


def _begin_at_the_start(patch: pytest.MonkeyPatch) -> None:
    real = position.next_epoch

    def next_epoch(current: Mark | None, **names: Any) -> Mark:
        return replace(real(current, **names), position=names["start"])

    patch.setattr(position, "next_epoch", next_epoch)


def _set_the_mark_afterwards(patch: pytest.MonkeyPatch) -> None:
    def swap_twice(table: Table, base: Metadata, snapshot: Any, change: Change, mark: Mark) -> None:
        build = swap.gateway.jvm().org.apache.iceberg.TableMetadata.buildFrom
        operations = table.java.operations()
        operations.commit(base.java, build(base.java).setBranchSnapshot(snapshot, change.branch).build())
        now = table.refresh().java
        operations.commit(now, build(now).setProperties({change.property: mark.dump()}).build())

    patch.setattr(swap, "_swap", swap_twice)


class _Again(Exception):
    """The batch is to be done again."""


def _trust(is_proof: Callable[[CalveError], bool]) -> Switch:
    """Take a failure for a proof that nothing was written, and do the batch again on the mark found then."""

    def off(patch: pytest.MonkeyPatch) -> None:
        look, once = Committer._until_certain, Committer.commit

        def until_certain(self: Committer, change: Change, propose: Propose, place: str, *more: Any) -> Mark:
            if place == "commit":
                with _proof(is_proof):
                    return commit.attempt(self.table, change, propose, place)
            return look(self, change, propose, place, *more)

        def again(self: Committer, staged: Any, to: Any, *more: Any) -> Mark:
            with suppress(_Again):
                return once(self, staged, to, *more)
            found = self._mark(self.reload())
            if found is not None and self.held is not None and found.writer == self.held.writer:
                self.held = found
            return again(self, staged, to, *more)

        patch.setattr(Committer, "_until_certain", until_certain)
        patch.setattr(Committer, "commit", again)

    return off


@contextmanager
def _proof(is_proof: Callable[[CalveError], bool]) -> Iterator[None]:
    """Raise _Again for a failure that proves nothing was written; let others be looked at."""
    try:
        yield
    except CalveError as error:
        if is_proof(error):
            raise _Again from error


def _is_conflict(error: CalveError) -> bool:
    return isinstance(error, Conflict)


def _is_unknown(error: CalveError) -> bool:
    return isinstance(error, Unavailable) and not isinstance(error, Conflict)


def _name_each_attempt_anew(patch: pytest.MonkeyPatch) -> None:
    """Forget a commit's id when an attempt fails."""
    names: dict[int, str] = {}
    numbers, real, look = count(1), swap.attempt, Committer._until_certain

    def renew(change: Change) -> None:
        names[id(change)] = f"attempt{next(numbers)}"

    def attempt(table: Table, change: Change, propose: Propose, place: str) -> Mark:
        try:
            return real(table, change, propose, place)
        except CalveError:
            renew(change)
            raise

    def until_certain(self: Committer, change: Change, propose: Propose, place: str, *more: Any) -> Mark:
        renew(change)

        def renamed(base: Metadata) -> Proposal:
            current = self._mark(base, sound=False)
            if current is not None and current.commit == names[id(change)]:
                return Proposal(current, landed=True)
            return Proposal(replace(propose(base).mark, commit=names[id(change)]))

        return look(self, change, renamed, place, *more)

    patch.setattr(commit, "attempt", attempt)
    patch.setattr(Committer, "_until_certain", until_certain)


def _believe_a_success(patch: pytest.MonkeyPatch) -> None:
    """Do not look whether the table has what its catalog says it took."""
    look = Committer._until_certain

    def until_certain(self: Committer, change: Change, propose: Propose, place: str, *more: Any) -> Mark:
        with suppress(CalveError):
            return commit.attempt(self.table, change, propose, place)
        return look(self, change, propose, place, *more)

    patch.setattr(Committer, "_until_certain", until_certain)


def _believe_every_lineage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(position, "lineage", lambda mark, ancestors, name: Lineage.FOUND)


def _believe_a_branch_without_the_commit(patch: pytest.MonkeyPatch) -> None:
    real = position.lineage

    def lineage(mark: Mark, ancestors: Any, name: str) -> Lineage:
        return real(
            replace(mark, above=-1), [*_nameless(ancestors), position.Ancestor(0, continues=True)], name
        )

    patch.setattr(position, "lineage", lineage)


def _believe_an_edited_mark(patch: pytest.MonkeyPatch) -> None:
    real = position.lineage

    def lineage(mark: Mark, ancestors: Any, name: str) -> Lineage:
        found = real(mark, ancestors, name)
        return Lineage.FOUND if found is Lineage.EDITED else found

    patch.setattr(position, "lineage", lineage)


def _nameless(ancestors: Any) -> Iterator[position.Ancestor]:
    """`ancestors`, of which nobody can tell whose commits they are."""
    return (replace(one, sink=None) for one in ancestors)


def _believe_an_older_mark(patch: pytest.MonkeyPatch) -> None:
    """Walk past newer commits of the sink to the one that the mark names, and attempt what is there again."""
    real = position.lineage

    def lineage(mark: Mark, ancestors: Any, name: str) -> Lineage:
        return real(mark, _nameless(ancestors), name)

    patch.setattr(position, "lineage", lineage)
    patch.setattr(position, "is_unmarked", lambda *arguments: False)


def _take_an_epoch_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(position, "has_commit", lambda *arguments: False)


def _count_epochs_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(position, "last_epoch", lambda *arguments: 0)


def _take_any_source(patch: pytest.MonkeyPatch) -> None:
    real = Committer.seen

    def seen(self: Committer, source: str, base: Metadata | None = None) -> Mark | None:
        mark = self._mark(base or self.table.metadata())
        return real(self, mark.source if mark else source, base)

    patch.setattr(Committer, "seen", seen)


def _rename_freely(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(position, "others", lambda *arguments: [])


def _miss_no_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(position, "is_orphaned", lambda *arguments: False)


def _believe_old_metadata(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(position, "is_stale", lambda *arguments: False)


_QUIET = ("append", "compact", "edit")
_RIVALS = ("start other", "commit other", "start other")

IN_THE_MODEL = (
    Protection(
        "decide on the swapped base",
        ("model", "interleaved"),
        (truth.SILENT, truth.NO_DUPLICATE, truth.EPOCH_GROWS, truth.POSITION_GROWS),
        _judge_before_apply,
        {"deeds": _RIVALS, "amidst": _RIVALS, "repairs": False},
    ),
    Protection(
        "swap the base that was judged",
        ("model", "interleaved"),
        (truth.ACKNOWLEDGED, truth.NO_LOSS),
        _swap_on_whatever_is_there,
        {"deeds": _RIVALS, "amidst": _RIVALS, "repairs": False},
    ),
    Protection(
        "attempt again when the mark changed under apply",
        ("model", "interleaved"),
        (truth.PROPERTY_IS_SUMMARY,),
        _ignore_a_mark_that_changed_under_apply,
        {"deeds": _RIVALS, "amidst": _RIVALS, "repairs": False},
    ),
    Protection(
        "compare the mark",
        ("model", "warm", "interleaved"),
        (truth.SILENT, truth.NO_DUPLICATE, truth.EPOCH_GROWS, truth.POSITION_GROWS),
        _decide(_any_mark),
        {"deeds": _RIVALS, "amidst": _RIVALS, "repairs": False},
    ),
    Protection(
        "compare the writer, not only the epoch",
        ("model",),
        (truth.SILENT, truth.EPOCH_GROWS, truth.NO_DUPLICATE, truth.POSITION_GROWS, truth.NO_LOSS),
        _decide(_same_epoch),
        {
            "deeds": ("restore", "append", *_RIVALS),
            "amidst": ("restore", *_RIVALS),
            "repairs": False,
        },
    ),
    Protection(
        "a mark that is missing is not ours",
        ("model", "warm"),
        (truth.NO_LOSS, truth.EPOCH_GROWS, truth.SILENT),
        _decide(_missing),
        {"deeds": ("recreate", "remove mark", "append", "expire"), "styles": ("rest",)},
    ),
    Protection(
        "take a new epoch",
        ("model", "warm", "interleaved"),
        (truth.EPOCH_GROWS,),
        _keep_the_epoch,
        {"deeds": _RIVALS, "repairs": False},
    ),
    Protection(
        "begin at the mark",
        ("model", "warm", "cold"),
        (truth.POSITION_GROWS, truth.NO_DUPLICATE),
        _begin_at_the_start,
        {"deeds": _RIVALS, "repairs": False},
    ),
    Protection(
        "mark in the same commit",
        ("model", "warm", "cold"),
        (truth.PROPERTY_IS_SUMMARY, truth.TOGETHER, truth.NO_DUPLICATE, truth.ADDED_ONCE),
        _set_the_mark_afterwards,
        {"deeds": _QUIET, "repairs": False},
    ),
    Protection(
        "look after a conflict",
        ("model", "warm"),
        (truth.NO_DUPLICATE, truth.ADDED_ONCE),
        _trust(_is_conflict),
        {"deeds": _QUIET, "answers": ("fine", "conflict landed"), "repairs": False},
    ),
    Protection(
        "look after an unknown end",
        ("model", "warm"),
        (truth.NO_DUPLICATE, truth.ADDED_ONCE),
        _trust(_is_unknown),
        {"deeds": _QUIET, "answers": ("fine", "lost", "late 1"), "repairs": False},
    ),
    Protection(
        "one commit id for all attempts of a batch",
        ("model", "warm"),
        (truth.FENCED_BY_OTHERS,),
        _name_each_attempt_anew,
        {"deeds": _QUIET, "amidst": _QUIET, "answers": ("fine", "lost"), "repairs": False},
    ),
    Protection(
        "check for a roll-back",
        ("model", "warm", "interleaved"),
        (truth.NO_LOSS,),
        _believe_every_lineage,
        {"deeds": ("roll back", "append"), "amidst": ("roll back", "append")},
    ),
    Protection(
        "tell a roll-back from expiry",
        ("model", "warm"),
        (truth.NO_LOSS,),
        _believe_a_branch_without_the_commit,
        {"deeds": ("roll back", "append"), "amidst": ("roll back", "append")},
    ),
    Protection(
        "source identity",
        ("model", "warm", "cold"),
        (truth.ONE_SOURCE, truth.NO_LOSS),
        _take_any_source,
        {"deeds": _QUIET, "sources": "st", "repairs": False},
    ),
    Protection(
        "notice a renamed sink",
        ("model", "warm"),
        (truth.NO_DUPLICATE, truth.TOGETHER),
        _rename_freely,
        {"deeds": _QUIET},
    ),
    Protection(
        "notice that the mark is gone",
        ("model", "warm"),
        (truth.POSITION_GROWS, truth.NO_DUPLICATE, truth.EPOCH_GROWS),
        _miss_no_mark,
        {"deeds": ("remove mark", "append"), "repairs": False},
    ),
    Protection(
        "look after a success",
        ("model", "warm"),
        (truth.ACKNOWLEDGED,),
        _believe_a_success,
        {"deeds": _QUIET, "answers": ("fine", "phantom"), "repairs": False},
    ),
    Protection(
        "read the mark back",
        ("model", "warm"),
        (truth.ACKNOWLEDGED,),
        _believe_a_success,
        {"deeds": _QUIET, "keeps_properties": (False,), "repairs": False},
    ),
    Protection(
        "notice an edited mark",
        ("model", "warm"),
        (truth.NO_LOSS,),
        _believe_an_edited_mark,
        {"deeds": ("move mark", "append"), "amidst": ("append",), "repairs": False},
    ),
    Protection(
        "notice that an older mark was put back",
        ("model",),
        (truth.NO_DUPLICATE, truth.POSITION_GROWS, truth.EPOCH_GROWS, truth.SILENT),
        _believe_an_older_mark,
        {"deeds": ("put mark back", "append"), "amidst": ("append",), "repairs": False},
    ),
    Protection(
        "do not attempt again what landed without its mark",
        ("model",),
        (truth.NO_DUPLICATE, truth.ADDED_ONCE),
        _believe_an_older_mark,
        {"deeds": _QUIET, "amidst": _QUIET, "answers": ("fine", "unmarked"), "repairs": False},
    ),
    Protection(
        "notice that an epoch taken unseen was overtaken",
        ("model", "warm"),
        (truth.SILENT, truth.POSITION_GROWS),
        _take_an_epoch_twice,
        {"deeds": _RIVALS, "amidst": ("go dark", *_RIVALS), "answers": ("lost", "fine"), "repairs": False},
    ),
    Protection(
        "number epochs after those of the branch",
        ("model", "warm"),
        (truth.EPOCH_GROWS,),
        _count_epochs_anew,
        {"deeds": ("remove mark", "break mark", "append")},
    ),
    Protection(
        "tell old metadata from a fence",
        ("model", "warm"),
        (truth.FENCED_BY_OTHERS,),
        _believe_old_metadata,
        {"deeds": _QUIET, "amidst": ("go stale", "append"), "repairs": False},
    ),
)


def _delete_what_an_attempt_brought(patch: pytest.MonkeyPatch) -> None:
    """Clean up after an attempt that was answered with an error."""
    real = swap.attempt

    def attempt(table: Table, change: Change, propose: Propose, place: str) -> Mark:
        try:
            return real(table, change, propose, place)
        except CalveError:
            for file in change.staged.files:
                table.java.io().deleteFile(file.location())
            raise

    patch.setattr(commit, "attempt", attempt)


def _let_the_library_retry(patch: pytest.MonkeyPatch) -> None:
    """Commit with a transaction of Iceberg's, which attempts again by itself.

    Where the first attempt landed, its second one sets the branch back to that, whatever came after it.
    """

    def attempt(table: Table, change: Change, propose: Propose, place: str) -> Mark:
        proposal = propose(table.refresh())
        with swap.translated(f"commit to table '{table.name}'"):
            transaction = table.java.newTransaction()
            swap._update(Table(table.name, transaction), change, proposal.mark).commit()
            transaction.updateProperties().set(change.property, proposal.mark.dump()).commit()
            transaction.commitTransaction()
        return proposal.mark

    patch.setattr(commit, "attempt", attempt)


def _believe_the_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(prepare, "check_count", lambda *arguments: None)


def _read_on_whatever_is_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kafka_position, "refuse_loss", lambda *arguments: None)


def _acknowledge_what_is_staged(patch: pytest.MonkeyPatch) -> None:
    real = Runner._stage

    def stage(self: Runner, to: Writer, after: Any, waiting: Any) -> Any:
        staged = real(self, to, after, waiting)
        self._acknowledge(waiting.to)
        return staged

    patch.setattr(Runner, "_stage", stage)


def _abandon_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Runner, "_is_abandoned", lambda self: self._stop.is_requested())


def _take_every_error_for_a_bug(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(failures, "_KINDS", ())


def _believe_an_old_look_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delta, "_validated", lambda self, update: update)


ELSEWHERE = (
    Protection(
        "the writer deletes no file",
        ("warm",),
        (Invariant.FILE_EXISTS,),
        _delete_what_an_attempt_brought,
    ),
    Protection(
        "no retry by the library",
        ("warm",),
        (Invariant.NO_LOSS,),
        _let_the_library_retry,
    ),
    Protection("independent row count", ("warm",), (Invariant.NO_LOSS,), _believe_the_files),
    Protection(
        "the source still has the position", ("warm",), (Invariant.NO_LOSS,), _read_on_whatever_is_there
    ),
    Protection(
        "acknowledge only after the commit", ("warm",), (Invariant.NO_LOSS,), _acknowledge_what_is_staged
    ),
    Protection("the batch in flight outlives a stop", ("warm",), (Invariant.NO_LOSS,), _abandon_at_once),
    Protection("Java's errors are told apart", ("warm",), (Invariant.NO_LOSS,), _take_every_error_for_a_bug),
    Protection(
        "look up again when files moved", ("warm",), (Invariant.NO_STRANGER,), _believe_an_old_look_up
    ),
)
"""Protections that the model cannot see: it has no storage, no Java, no rows being decoded and no process."""


def _leave_no_tombstones(patch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as f

    patch.setattr(batch, "needs_tombstone", lambda order_by: f.lit(False))


def _leave_tombstones_of_deletes_only(patch: pytest.MonkeyPatch) -> None:
    real = batch.needs_tombstone
    patch.setattr(batch, "needs_tombstone", lambda order_by: ~batch.is_kept() & real(order_by))


def _accept_every_change_of_a_batch(patch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as f

    patch.setattr(batch, "accepted", lambda frame, keys, name: frame.withColumn(batch.NEWEST, f.col(name)))


def _believe_the_log_before_the_place(patch: pytest.MonkeyPatch) -> None:
    real = collected._parts
    patch.setattr(collected, "_parts", lambda order: {**real(order), "at": real(order)["seq"]})


def _keep_what_a_delete_took_out(patch: pytest.MonkeyPatch) -> None:
    real = batch.folded

    def folded(frame: Any, keys: Any, values: Any) -> Any:
        return real(frame.where(batch.is_kept()), keys, values)

    patch.setattr(batch, "folded", folded)


ORDER = (
    Protection("the greatest order of a key outlives its row", (), ("orders",), _leave_no_tombstones),
    Protection(
        "the greatest order of a key outlives a row without one",
        (),
        ("orders",),
        _leave_tombstones_of_deletes_only,
    ),
    Protection(
        "an older change of the same batch is passed over", (), ("orders",), _accept_every_change_of_a_batch
    ),
    Protection("within a partition the offset decides", (), ("upserts",), _believe_the_log_before_the_place),
    Protection(
        "a delete in the batch counts where columns are unknown",
        (),
        ("unknown columns",),
        _keep_what_a_delete_took_out,
    ),
)
"""What makes the table independent of where batches end; `breaks` names the logs of `test_cuts` for it."""


def _take_any_shape(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Staged, "check", lambda *arguments: None)


def _begin_with_what_is_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Writer, "renew", lambda self: None)


def _compare_the_branch_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(swap, "_pin", lambda *arguments: None)


def _stop_where_history_expired(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(failures, "_EXPIRED", re.compile("(?!)"))


def _add_what_was_renamed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evolve, "_refuse_renamed", lambda *arguments: None)


def _change_the_schema_beside_the_branch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(iceberg_evolve, "_move", lambda *arguments: None)


ROWS_OR_REFUSAL = "right rows, or the documented refusal"

IN_PAIRS = tuple(
    Protection(name, ("interleaved",), (ROWS_OR_REFUSAL,), off)
    for name, off in {
        "a batch knows what it was staged for": _take_any_shape,
        "the table is loaded again when a batch begins": _begin_with_what_is_known,
        "a REST catalog compares schema and spec": _compare_the_branch_alone,
        "look up again when snapshots expired": _stop_where_history_expired,
        "a renamed column is not added again": _add_what_was_renamed,
        "a schema change moves the branch": _change_the_schema_beside_the_branch,
    }.items()
)
"""Protections against what other processes do to the table, which take a pipeline and a second engine."""

PROTECTIONS = IN_THE_MODEL + ELSEWHERE + IN_PAIRS
