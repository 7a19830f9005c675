"""The commit protocol: fence, decide on every base, swap, and look again after any failure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from calve import crash, position
from calve.errors import CalveError, Moved, Outdated
from calve.iceberg import manifests
from calve.iceberg.stage import NOTHING, Staged
from calve.iceberg.swap import Change, Proposal, attempt, flush_metadata
from calve.iceberg.table import Metadata, Table
from calve.patience import Patience
from calve.position import Ancestor, Decision, Lineage, Mark, NewerMark, Position, Trail
from calve.sink import refusals

Propose = Callable[[Metadata], Proposal]
Renew = Callable[[Staged], Staged]
"""Stages again what another commit has made useless."""

REASON = "calve.reason"


class Committer:
    """One writer of one branch of one table, and the mark it holds."""

    def __init__(
        self,
        table: Table,
        sink_id: str,
        branch: str,
        patience: Patience,
        snapshot_properties: Mapping[str, str] | None = None,
        declared: Collection[str] = (),
        main: int | None = None,
        overlaps: Callable[[Position], bool] = lambda position: True,
    ) -> None:
        """`main` is the epoch of the table of the rows where `table` is kept beside that one, and `overlaps`
        tells whether the position of another sink is about something that this one reads."""
        self.table = table
        self.sink_id = sink_id
        self.branch = branch
        self.held: Mark | None = None
        self._writer = str(uuid.uuid4())
        self.uuid = table.metadata().uuid
        self._patience = patience
        self._trail = Trail()
        self._property = position.property_name(sink_id, branch)
        self._snapshot_properties = dict(snapshot_properties or {})
        self._declared = {sink_id, *declared}
        self._main = main
        self._overlaps = overlaps
        self.notes: dict[str, str] = {}
        """What the summary of the next commit says besides."""

    def seen(self, source: str, base: Metadata | None = None) -> Mark | None:
        """The mark of the table, if there is one and a start from `source` may build on it."""
        base = base or self.table.metadata()
        mark = self._mark(base)
        if mark is None:
            self._check_no_mark(base, source)
            return None
        if mark.source != source:
            raise refusals.other_source(self.table.name, self.sink_id, mark, source)
        if not base.has_branch(self.branch):
            raise refusals.branch_dropped(self.table.name, self.sink_id, self.branch)
        found = position.lineage(mark, self._walk(base, mark), self._property)
        if found is Lineage.ROLLED_BACK:
            raise refusals.rolled_back(self.table.name, self.sink_id, self.branch)
        if found is Lineage.EDITED:
            raise refusals.edited(self.table.name, self.sink_id)
        return mark

    def fence(self, source: str, start: Position, accept: Callable[[Mark], Mark] = lambda mark: mark) -> Mark:
        """Take the next epoch, so that no older writer can commit any more.

        The position stays where the table's mark has it; `start` is used where the table has none. `accept`
        judges the mark of the very base that is swapped, and may move its position.
        """
        crash.point("start.before_fence")

        def seen(base: Metadata) -> Mark | None:
            mark = self.seen(source, base)
            if mark is not None and position.is_of_later_epoch(mark, self._main):
                raise refusals.of_later_epoch(self.table.name, self.sink_id, mark, self._main)
            return mark and accept(mark)

        return self._take_epoch(source, start, seen, {})

    def decide_start(self, source: str, to: Position, reason: str, shown: Mark | None) -> Mark:
        """Take the next epoch at `to`: what an operator has decided who was shown the mark `shown`."""

        def moved(base: Metadata) -> Mark | None:
            mark = self._mark(base, sound=False)
            if mark != shown:
                raise refusals.changed(self.table.name, self.sink_id)
            return mark and mark.moved(position=to, commit=mark.commit, above=mark.above)

        return self._take_epoch(source, to, moved, {REASON: reason})

    def commit(self, staged: Staged, to: Position, renewed: Renew = lambda staged: staged) -> Mark:
        """Commit `staged` and the position behind it; returns when both are in the table.

        What was staged again, because the table is another one now, goes through `renewed` first.
        """
        held, commit = self.held, str(uuid.uuid4())
        assert held is not None, "commit before fence"
        first: list[int] = []

        def propose(base: Metadata) -> Proposal:
            self._check_fresh(base)
            current = self._mark(base)
            first.append(base.last_sequence)
            decision = position.decide(current, held, commit, self._walk(base, held), self._property)
            if decision is Decision.COMMITTED and current is not None:
                return self._landed(current, base)
            if decision is Decision.UNMARKED or self._is_unmarked(base, current, commit, min(first)):
                raise refusals.unmarked(self.table.name, self.sink_id, self._property, to)
            if decision is Decision.ROLLED_BACK:
                raise refusals.rolled_back(self.table.name, self.sink_id, self.branch)
            if decision is Decision.FENCED:
                raise refusals.fenced(self.table.name, self.sink_id, held, current)
            return Proposal(held.moved(position=to, commit=commit, above=base.last_sequence))

        crash.point("commit.before")
        self.held = self._until_certain(self._change(staged, self.notes), propose, "commit", renewed)
        self.notes = {}
        crash.point("commit.confirmed")
        return self.held

    def _is_unmarked(self, base: Metadata, current: Mark | None, commit: str, above: int) -> bool:
        """Whether an attempt landed without its mark; a base that nothing was added to needs no look."""
        assert self.held is not None, "commit before fence"
        if base.last_sequence <= above:
            return False
        return position.is_unmarked(current, self.held, commit, above, base.ancestors(self.branch))

    def check_still_held(self) -> None:
        """Load the table again, and refuse to go on where another writer has taken over."""
        self.check_held(self.reload())

    def check_held(self, base: Metadata) -> None:
        """Refuse to go on where another writer has taken over."""
        self._check_fresh(base)
        current = self._mark(base)
        if self.held is None or current != self.held:
            raise refusals.fenced(self.table.name, self.sink_id, self.held, current)

    def _take_epoch(
        self, source: str, start: Position, seen: Callable[[Metadata], Mark | None], reason: Mapping[str, str]
    ) -> Mark:
        # A table that is brought back from a backup meanwhile has lower sequence numbers again.
        commit, bases = str(uuid.uuid4()), [self.table.metadata().last_sequence]

        def propose(base: Metadata) -> Proposal:
            current = self._mark(base, sound=not reason)
            if current is not None and current.commit == commit:
                return self._landed(current, base)
            if position.has_commit(commit, min(bases), base.ancestors(self.branch)):
                raise self._overtaken(current)
            bases.append(base.last_sequence)
            names = {"writer": self._writer, "source": source, "commit": commit}
            is_trusted = current is not None and not reason
            ancestors = () if is_trusted else base.ancestors(self.branch)
            past = position.last_epoch(self._property, ancestors)
            above = base.last_sequence
            taken = seen(base)
            mark = position.next_epoch(taken, start=start, above=above, past=past, main=self._main, **names)
            return Proposal(mark)

        self.held = self._until_certain(self._change(None, reason), propose, "fence")
        return self.held

    def _landed(self, mark: Mark, base: Metadata) -> Proposal:
        """Our commit is in the table; the mark beside it must still be the one that it wrote."""
        if position.lineage(mark, base.ancestors(self.branch), self._property) is Lineage.EDITED:
            raise refusals.edited(self.table.name, self.sink_id)
        return Proposal(mark, landed=True)

    def _overtaken(self, current: Mark | None) -> CalveError:
        """Our epoch is in the table and its mark is not: somebody has replaced it, or the catalog lost it."""
        if current is None:
            return refusals.dropped(self.table.name, self._property)
        return refusals.fenced(self.table.name, self.sink_id, self.held, current)

    def _walk(self, base: Metadata, mark: Mark) -> Iterator[Ancestor]:
        """The way back to the commit of `mark`; between two attempts others may have added thousands."""
        return self._trail.back_to(mark, base.ancestors(self.branch, self._trail.begins(mark)))

    def _until_certain(
        self, change: Change, propose: Propose, place: str, renewed: Renew = lambda staged: staged
    ) -> Mark:
        """Attempt until the table itself says that the commit is in it, or that it never will be.

        No answer is taken for a proof, neither a conflict (the attempt may have landed) nor a success (a
        proxy may have answered it). So each attempt is followed by a look at the table.
        """
        self._check_size(propose(self.table.metadata()).mark)
        while True:
            failure: CalveError = refusals.not_shown(self.table.name)
            try:
                attempt(self.table, change, propose, place)
            except CalveError as error:
                failure = error
            is_renewed = self._patience.renew(failure)
            base = self.reload()
            proposal = propose(base)
            if proposal.landed:
                self._settle(base, proposal.mark)
                self._patience.recovered()
                return proposal.mark
            failure = self._outdated(change.staged, base) or failure
            if not is_renewed:
                self._patience.wait(failure)
            if isinstance(failure, Moved):
                change = replace(change, staged=renewed(self._renewed(change.staged, failure)))

    def _outdated(self, staged: Staged, base: Metadata) -> Outdated | None:
        """Whatever an attempt failed with, files that were made for another table are the cause."""
        try:
            staged.check(base, str(self.table.name))
        except Outdated as error:
            return error
        return None

    def _renewed(self, staged: Staged, failure: CalveError) -> Staged:
        """The same rows for the table as it is now; services that went away are waited for."""
        is_outdated = isinstance(failure, Outdated)
        if is_outdated and staged.anew is None:
            raise failure
        while True:
            try:
                return staged.anew() if is_outdated and staged.anew else staged.renewed()
            except CalveError as error:
                self._patience.wait(error)
                self.reload()

    def _settle(self, base: Metadata, mark: Mark) -> None:
        """Have the metadata of a commit that is in the table on disk, and its unused manifests deleted."""
        self._patience.keep_trying(lambda: flush_metadata(self.table, base))
        head = base.head(self.branch)
        if head is not None and head.summary().get(position.SUMMARY_COMMIT) == mark.commit:
            manifests.remove_intermediate(self.table.java.io(), head)

    def reload(self) -> Metadata:
        """The table as it is now; a service that went away is waited for."""
        while True:
            try:
                base = self.table.refresh()
                self._check_fresh(base)
            except CalveError as error:
                self._patience.wait(error)
            else:
                return base

    def _check_fresh(self, base: Metadata) -> None:
        """Refuse another table of the same name, and metadata that is older than what we have seen."""
        if base.uuid != self.uuid:
            raise refusals.recreated(self.table.name)
        if self.held is not None and not base.has_branch(self.branch):
            raise refusals.branch_dropped(self.table.name, self.sink_id, self.branch)
        if self.held is not None and position.is_stale(self.held, base.last_sequence):
            raise refusals.stale(self.table.name)

    def _change(self, staged: Staged | None, reason: Mapping[str, str] | None = None) -> Change:
        summary = {**self._snapshot_properties, **(reason or {})}
        return Change(self.branch, self._property, staged or NOTHING, summary)

    def _mark(self, base: Metadata, sound: bool = True) -> Mark | None:
        try:
            return base.mark(self._property)
        except NewerMark as error:
            raise refusals.newer(self.table.name, self.sink_id, error.version) from error
        except ValueError as error:
            if not sound:
                return None
            raise refusals.unreadable(self.table.name, self.sink_id, str(error)) from error

    def _check_size(self, mark: Mark) -> None:
        size = len(mark.dump().encode())
        if size > position.MARK_LIMIT:
            raise refusals.too_large(self.table.name, size)

    def _check_no_mark(self, base: Metadata, source: str) -> None:
        if position.is_orphaned(self._property, base.ancestors(self.branch)):
            raise refusals.mark_gone(self.table.name, self.sink_id, self._property)
        others = position.others(base.properties(), source, self.branch, self._declared, self._overlaps)
        if others:
            raise refusals.renamed(self.table.name, self.sink_id, others[0])
