"""Writers, an operator and foreigners around one table; the writers are the production code."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from types import SimpleNamespace

import pytest

from calve import crash, gateway, position
from calve.crash import Crash
from calve.errors import CalveError, Fenced
from calve.iceberg import java
from calve.iceberg.name import TableName
from calve.iceberg.stage import Staged
from calve.iceberg.table import Metadata, Table
from calve.patience import Patience
from calve.position import Lineage, Mark, is_orphaned, lineage
from calve.sink import commit
from calve.sink.commit import Committer
from tests.faults.model.catalog import Catalog, File, JavaTable, Snapshot, Version, following, jvm
from tests.faults.model.truth import ACKNOWLEDGED, FENCED_BY_OTHERS, Truth, rows

NAME = TableName("lake", ("shop",), "orders")
SINK = "orders"
START = {"row": 0}
RETRY_FOR = 20.0
SLEEP = "sleep"
PLACES = (
    *("start.before_fence", "fence.applied", "fence.swapped"),
    *("commit.before", "commit.applied", "commit.swapped", "commit.confirmed", SLEEP),
)
"""Where something may happen to a writer amidst its work: the crash points, and between attempts."""

DEEDS = (
    *("crash", "start other", "commit other", "append", "compact", "expire", "roll back", "replace"),
    *(
        "edit",
        "remove mark",
        "break mark",
        "move mark",
        "put mark back",
        "recreate",
        "restore",
        "go dark",
        "go stale",
        "arrive",
    ),
)

Event = tuple[str, str, int]
"""A place, the deed that is done when a writer gets there, and a number that chooses how."""


@dataclass
class Process:
    """One life of a writer: what the loop of a pipeline keeps between batches."""

    committer: Committer
    source: str
    moves: int
    after: int = 0
    to: int = 0
    staged: Staged | None = None

    @property
    def writer(self) -> str:
        return str(self.committer._writer)


class World:
    """One table, up to three processes that write the same sink, and everybody else."""

    def __init__(self, style: str = "rest", branch: str = "main", keeps_properties: bool = True) -> None:
        self.branch = branch
        self.property = position.property_name(SINK, branch)
        self.catalog = Catalog(style, keeps_properties)
        self.truth = Truth(self.catalog, self.property.removeprefix(position.PREFIX), self.property, branch)
        self.catalog.applied = self.truth.own
        self.processes: list[Process | None] = [None, None, None]
        self.fired: Counter[str] = Counter()
        self.moves = 0
        self._events: list[Event] = []
        self._acting = 0
        self._now = 0.0
        self._files = count(1)
        self._patch = pytest.MonkeyPatch()
        self._connect()

    def _connect(self) -> None:
        """Put the model where production meets Java, names and crashes."""
        names = count(1)
        self._patch.setattr(gateway, "jvm", jvm)
        self._patch.setattr(java, "string_map", dict)
        self._patch.setattr(java, "strings", dict)
        self._patch.setattr(crash, "point", self._reached)
        self._patch.setattr(commit, "uuid", SimpleNamespace(uuid4=lambda: f"id{next(names)}"))

    def close(self) -> None:
        self._patch.undo()

    def check(self) -> None:
        self.truth.check()

    # The writers

    def start(
        self, number: int, source: str = "s", answers: Iterable[str] = (), events: Iterable[Event] = ()
    ) -> None:
        """Start a process in a slot; one that runs there has died."""
        self.processes[number] = None

        def work() -> None:
            process = Process(self.committer(), source, self.moves)
            process.committer.seen(source)
            mark = process.committer.fence(source, START)
            self._acknowledge(mark, process)
            process.after = process.to = mark.position["row"]
            self.processes[number] = process

        self._run(number, work, answers, events)

    def prepare(self, number: int, size: int) -> None:
        """Plan and stage a batch."""
        process = self.processes[number]
        if process and process.staged is None:
            process.to = process.after + size
            held = rows(process.source, process.after, process.to)
            if held:
                process.staged = Staged((File(f"file{next(self._files)}", held),), len(held), 1)
            else:
                process.after = process.to

    def commit(self, number: int, answers: Iterable[str] = (), events: Iterable[Event] = ()) -> None:
        """Commit what a process has staged."""
        process = self.processes[number]
        if process is None or process.staged is None:
            return

        def work() -> None:
            mark = process.committer.commit(process.staged, {"row": process.to})
            self._acknowledge(mark, process)
            process.after, process.staged = process.to, None

        self._run(number, work, answers, events)

    def batch(
        self, number: int, size: int = 2, answers: Iterable[str] = (), events: Iterable[Event] = ()
    ) -> None:
        """Plan, stage and commit a batch, in a process that is started if none runs."""
        self._see_to(number, is_decided=size > 2, restart=size > 3)
        self.prepare(number, size)
        self.commit(number, answers, events)

    def _see_to(self, number: int, is_decided: bool, restart: bool) -> None:
        """Start a process that does not run; if that is refused, the operator may decide at once."""
        if self.processes[number] is None:
            self.start(number)
        if self.processes[number] is None and is_decided:
            self.repair(restart)
            self.start(number)

    def stop(self, number: int) -> None:
        self.processes[number] = None

    def start_renamed(self) -> None:
        """Start the pipeline under another name; a sink that was renamed must not read its source anew."""
        mark = self.mark()
        if mark is None or self._head() is None:
            return

        def work() -> None:
            committer = self.committer("renamed")
            committer.fence(mark.source, START)
            committer.commit(Staged((File("renamed", rows(mark.source, 0, 3)),), 3, 1), {"row": 3})

        self._attempt(work)

    def committer(self, sink_id: str = SINK) -> Committer:
        patience = Patience(RETRY_FOR, sleep=self._sleep, clock=lambda: self._now)
        table = patience.keep_trying(lambda: Table(NAME, JavaTable(self.catalog)))
        return Committer(table, sink_id, self.branch, patience)

    def _run(
        self, number: int, work: Callable[[], None], answers: Iterable[str], events: Iterable[Event]
    ) -> None:
        """Let a process work; whatever ends its work ends the process."""
        before = self.processes[number], self._events, self._acting, self.catalog.answers
        self._events, self._acting, self.catalog.answers = list(events), number, deque(answers)
        try:
            if not self._attempt(work):
                self.processes[number] = None
        finally:
            _, self._events, self._acting, self.catalog.answers = before

    def _attempt(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except Crash:
            self.fired["crash"] += 1
        except CalveError as error:
            self.fired[type(error).__name__] += 1
            if isinstance(error, Fenced):
                self._check_fenced()
        else:
            return True
        return False

    def _acknowledge(self, mark: Mark, process: Process) -> None:
        if not self.catalog.keeps_properties:
            self.truth.fail(ACKNOWLEDGED, "a mark that the catalog did not keep")
        if self.moves == process.moves or mark.commit in self.truth.standing().commits:
            self.truth.acknowledge(mark.commit)

    def _check_fenced(self) -> None:
        """A writer was fenced: somebody else must have done that."""
        process = self.processes[self._acting]
        if process is None or process.moves != self.moves:
            return
        mark = self.mark()
        if mark is not None and mark.writer == process.writer:
            self.truth.fail(FENCED_BY_OTHERS, mark)

    def _sleep(self, seconds: float) -> None:
        self._now += seconds
        self._reached(SLEEP)

    def _reached(self, place: str) -> None:
        due = [event for event in self._events if event[0] == place]
        for event in due[:1]:
            self._events.remove(event)
            self.fired[place] += 1
            self.do(event[1], event[2])

    # Everybody else

    def do(self, deed: str, number: int = 0) -> None:
        """Do one deed of `DEEDS`."""
        self.fired[deed] += 1
        if deed == "crash":
            raise Crash("planned")
        getattr(self, "_" + deed.replace(" ", "_"))(number)

    def mark(self, version: Version | None = None) -> Mark | None:
        """The mark in the table; None also if it is no mark any more."""
        with suppress(ValueError):
            return Metadata(version or self.catalog.current).mark(self.property)
        return None

    def _head(self) -> Snapshot | None:
        return self.catalog.current.head(self.branch)

    def _other(self, number: int) -> int:
        return (self._acting + 1 + number % 2) % 3

    def _start_other(self, number: int) -> None:
        self.start(self._other(number))

    def _commit_other(self, number: int) -> None:
        self.batch(self._other(number), 1 + number)

    def _become(self, version: Version, is_hiding: bool = False) -> bool:
        """Somebody changed the metadata; not if that would hide that rows or the mark are gone."""
        if not is_hiding and self._hides(version):
            return False
        self.catalog.become(version)
        return True

    def _hides(self, version: Version) -> bool:
        """Whether rows or the mark are gone and no retained snapshot tells of it.

        docs/exactly-once.md tells operators not to do this, and test_limits.py pins what it would cost.
        """
        held = self.truth.standing(version).mark
        ancestors = list(Metadata(version).ancestors(self.branch))
        mark = self.mark(version)
        if mark is None:
            return held is not None and not is_orphaned(self.property, ancestors)
        is_behind = held != mark
        return is_behind and lineage(mark, ancestors, self.property) in (Lineage.FOUND, Lineage.EXPIRED)

    def _append(self, number: int = 0) -> None:
        version = self.catalog.current
        branch = "main" if number == 1 else self.branch
        snapshot = following(self.catalog, version, branch, (File(f"foreign{next(self._files)}"),))
        self._follow(snapshot, branch)

    def _compact(self, number: int = 0) -> None:
        head = self._head()
        if head is None or not head.live:
            return
        merged = File(f"compacted{next(self._files)}", tuple(row for f in head.live for row in f.rows))
        snapshot = following(self.catalog, self.catalog.current, self.branch, (merged,), is_rewrite=True)
        self._follow(snapshot, self.branch)

    def _follow(self, snapshot: Snapshot, branch: str) -> None:
        self.truth.foreign(snapshot)
        self._become(self.catalog.current.with_snapshot(snapshot, branch))

    def _expire(self, number: int = 0, is_hiding: bool = False) -> None:
        """Expire all snapshots but the newest ones of each branch."""
        version = self.catalog.current
        kept = {s.id: s for branch in version.refs for s in version.chain(branch)[: 1 + number % 4]}
        self._become(replace(version, retained=kept), is_hiding)

    def _roll_back(self, number: int = 0) -> None:
        """Set the branch back by one snapshot or more."""
        chain = self.catalog.current.chain(self.branch)[1:]
        if chain:
            self.set_branch({self.branch: chain[min(number, len(chain) - 1)].id})

    def _replace(self, number: int = 0) -> None:
        """Replace the table by an empty one with the same UUID, as REPLACE TABLE does."""
        if self._head() is not None:
            self.set_branch({})

    def set_branch(self, moved: dict[str, int], is_hiding: bool = False) -> None:
        """Let branches begin at other snapshots; without any, the table is empty."""
        refs = {name: head for name, head in self.catalog.current.refs.items() if moved} | moved
        if self._become(replace(self.catalog.current, refs=refs), is_hiding):
            self.moves += 1
            self.truth.branch_moved()

    def _edit(self, number: int = 0) -> None:
        self._become(self.catalog.current.with_values({"team": str(number)}))

    def _remove_mark(self, number: int = 0, is_hiding: bool = False) -> None:
        version = self.catalog.current
        values = {key: text for key, text in version.values.items() if key != self.property}
        if self.property in version.values and self._become(replace(version, values=values), is_hiding):
            self._disturbed()

    def _break_mark(self, number: int = 0) -> None:
        if self.mark() is not None and self._become(
            self.catalog.current.with_values({self.property: "seven"})
        ):
            self._disturbed()

    def _move_mark(self, number: int = 0) -> None:
        """Somebody edits the position of the mark by hand."""
        mark = self.mark()
        if mark is None:
            return
        moved = mark.moved(position={"row": mark.position["row"] + 3}, commit=mark.commit, above=mark.above)
        if self._become(self.catalog.current.with_values({self.property: moved.dump()})):
            self._disturbed()

    def _put_mark_back(self, number: int = 0) -> None:
        """Some tool writes back the properties that it read before our last commits."""
        told = [text for one in self.catalog.past if (text := one.values.get(self.property))]
        if told and self._become(self.catalog.current.with_values({self.property: told[number % len(told)]})):
            self._disturbed()

    def _disturbed(self) -> None:
        self.moves += 1
        self.truth.is_excused = True

    def _recreate(self, number: int = 0) -> None:
        self.catalog.recreate()
        self.moves += 1
        self.truth.branch_moved()

    def _restore(self, number: int = 0) -> None:
        """Bring the whole table back from a backup, metadata included."""
        past = [version for version in self.catalog.past if version.table == self.catalog.current.table]
        if past and self._become(past[number % len(past)]):
            self.moves += 1
            self.truth.branch_moved()

    def _go_dark(self, number: int = 0) -> None:
        """Let the next loads fail, sometimes for longer than a writer waits."""
        self.catalog.dark = 40 if number == 7 else 1 + number

    def _go_stale(self, number: int = 0) -> None:
        """Let the next loads see an older table."""
        past = self.catalog.past
        if past and past[0].table == self.catalog.current.table:
            self.catalog.stale.extend([past[number % len(past)]] * (1 + number % 2))

    def _arrive(self, number: int = 0) -> None:
        """Let an attempt that was under way reach the catalog."""
        if self.catalog.late:
            self.catalog.arrive(self.catalog.late.pop(number % len(self.catalog.late)))

    # The operator

    def repair(
        self, restart: bool = False, answers: Iterable[str] = (), events: Iterable[Event] = ()
    ) -> None:
        """Decide a start that is refused: go on behind the mark, or begin where the branch really stands."""
        mark, standing = self.mark(), self.truth.standing()
        trouble = self._lineage(mark) if mark else None
        if standing.mark is None if mark is None else trouble in (Lineage.FOUND, Lineage.EXPIRED):
            return
        restart = restart or trouble is not Lineage.ROLLED_BACK
        to = (standing.row or 0) if restart else mark.position["row"]
        known = standing.mark if restart else mark
        source = known.source if known else "s"
        reason = "restarted" if restart else "accepted a rollback"

        def work() -> None:
            self.committer().decide_start(source, {"row": to}, reason, mark)

        before = self._events, self.catalog.answers
        self._events, self.catalog.answers = list(events), deque(answers)
        self.fired[reason] += self._attempt(work)
        self._events, self.catalog.answers = before

    def accept_source(self, source: str) -> None:
        """Go on behind the mark with another source."""
        mark = self.mark()
        if mark is None or mark.source == source or self._lineage(mark) is not Lineage.FOUND:
            return
        self._attempt(
            lambda: self.committer().decide_start(source, mark.position, "accepted another source", mark)
        )

    def _lineage(self, mark: Mark) -> Lineage:
        return lineage(mark, Metadata(self.catalog.current).ancestors(self.branch), self.property)
