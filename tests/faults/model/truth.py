"""What the table must hold, known from what really reached the catalog, and the invariants on it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from calve.position import SUMMARY_COMMIT, SUMMARY_DIGEST, SUMMARY_EPOCH, SUMMARY_SINK, Mark, parse
from calve.sink.commit import REASON
from tests.faults.model.catalog import Catalog, Row, Snapshot, Swap, Version

NO_LOSS = "no row is lost"
NO_DUPLICATE = "no row is there twice"
TOGETHER = "rows and the mark behind them come together"
EPOCH_GROWS = "the epoch only grows along the branch"
POSITION_GROWS = "the position never goes back along the branch"
ONE_SOURCE = "only an operator changes the source"
PROPERTY_IS_SUMMARY = "the mark agrees with the newest commit of the sink"
ADDED_ONCE = "no file is added by two snapshots"
SILENT = "a fenced writer never commits again"
NOTHING_REMOVED = "a writer removes nothing"
ACKNOWLEDGED = "every acknowledged commit is in the table"
FENCED_BY_OTHERS = "only another writer fences a writer"

INVARIANTS = (
    *(NO_LOSS, NO_DUPLICATE, TOGETHER, EPOCH_GROWS, POSITION_GROWS, ONE_SOURCE, PROPERTY_IS_SUMMARY),
    *(ADDED_ONCE, SILENT, NOTHING_REMOVED, ACKNOWLEDGED, FENCED_BY_OTHERS),
)


class InvariantBroken(AssertionError):
    """An invariant does not hold."""

    def __init__(self, name: str, found: object = "") -> None:
        assert name in INVARIANTS
        self.name = name
        super().__init__(f"{name}: {found}")


def is_kept(number: int) -> bool:
    """Whether the pipeline keeps this row of its source; some it filters out."""
    return number % 5 != 3


def rows(source: str, after: int, to: int) -> tuple[Row, ...]:
    """The rows that a batch from `after` to `to` writes."""
    return tuple((source, number) for number in range(after, to) if is_kept(number))


@dataclass(frozen=True)
class Standing:
    """What must be true of a snapshot: of the sink's newest mark in it and of the rows it must show."""

    mark: Mark | None = None
    expected: Counter[Row] = field(default_factory=Counter)
    past: frozenset[str] = frozenset()
    commits: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    @property
    def row(self) -> int | None:
        return None if self.mark is None else self.mark.position["row"]


NOTHING = Standing()


class Truth:
    """The ground truth beside the catalog. It remembers what expiry has taken from the table."""

    def __init__(self, catalog: Catalog, sink: str, property_name: str, branch: str) -> None:
        self.broken: InvariantBroken | None = None
        self.acknowledged: set[str] = set()
        self.is_excused = False
        self._catalog = catalog
        self._sink = sink
        self._property = property_name
        self._branch = branch
        self._standings: dict[int, Standing] = {}

    def standing(self, version: Version | None = None) -> Standing:
        """What must be true of the branch's head."""
        head = (version or self._catalog.current).head(self._branch)
        return NOTHING if head is None else self._standings[head.id]

    def foreign(self, snapshot: Snapshot) -> None:
        """Somebody else committed `snapshot`; nothing of ours has changed by it."""
        self._standings[snapshot.id] = self._before(snapshot)

    def own(self, swap: Swap) -> None:
        """A swap of a writer was applied."""
        if swap.snapshot is not None:
            self._add(swap.snapshot)
        if self._property in swap.values:
            self._move(parse(swap.values[self._property]))
        if self._property in swap.dropped and self._catalog.keeps_properties:
            # The rows are there; that nothing tells of them is the catalog's doing.
            self._move(parse(swap.dropped[self._property]))
            self.is_excused = True

    def branch_moved(self) -> None:
        """An operator moved the branch: what that took away is gone by intent."""
        self.is_excused = True
        self.acknowledged &= self.standing().commits

    def acknowledge(self, commit: str) -> None:
        self.acknowledged.add(commit)

    def fail(self, name: str, found: object) -> None:
        self.broken = self.broken or InvariantBroken(name, found)

    def _before(self, snapshot: Snapshot) -> Standing:
        return NOTHING if snapshot.parent is None else self._standings[snapshot.parent]

    def _add(self, snapshot: Snapshot) -> None:
        before = self._before(snapshot)
        names = {file.name for file in snapshot.added}
        if names & before.files:
            self.fail(ADDED_ONCE, sorted(names & before.files))
        parent = self._catalog.current.retained.get(snapshot.parent or 0)
        if parent is not None and not set(parent.live) <= set(snapshot.live):
            self.fail(NOTHING_REMOVED, snapshot)
        commits = before.commits | {snapshot.said[SUMMARY_COMMIT]}
        self._standings[snapshot.id] = replace(before, commits=commits, files=before.files | names)

    def _move(self, mark: Mark) -> None:
        """The mark moved; judge the step from the one before it on the branch."""
        head = self._catalog.current.head(self._branch)
        assert head is not None
        before = self._standings[head.id]
        is_decided = REASON in head.said
        self._judge(before, mark, is_decided)
        self._judge_epoch(before.mark, mark)
        expected = Counter(live_rows(head)) if is_decided else before.expected + Counter(_due(before, mark))
        past = before.past
        if before.mark and before.mark.writer != mark.writer:
            past = past | {before.mark.writer}
        self._standings[head.id] = replace(before, mark=mark, expected=expected, past=past)
        self.is_excused = False

    def _judge(self, before: Standing, mark: Mark, is_decided: bool) -> None:
        old = before.mark
        if mark.writer in before.past:
            self.fail(SILENT, mark)
        if old is None:
            if not is_decided and mark.position["row"] != 0:
                self.fail(NO_LOSS, f"the first mark begins at {mark.position}")
            return
        if mark.source != old.source and not is_decided:
            self.fail(ONE_SOURCE, (old, mark))
        if mark.position["row"] < old.position["row"]:
            self.fail(POSITION_GROWS, (old, mark))

    def _judge_epoch(self, old: Mark | None, mark: Mark) -> None:
        if old and (mark.epoch < old.epoch or (mark.epoch == old.epoch and mark.writer != old.writer)):
            self.fail(EPOCH_GROWS, (old, mark))

    def check(self) -> None:
        """Raise InvariantBroken unless every invariant holds now."""
        if self.broken:
            raise self.broken
        head = self._catalog.current.head(self._branch)
        if head is None:
            return
        self._check_rows(head)
        if not self.is_excused and self._catalog.keeps_properties:
            self._check_property()
        missing = self.acknowledged - self._standings[head.id].commits
        if missing:
            raise InvariantBroken(ACKNOWLEDGED, sorted(missing))

    def _check_rows(self, head: Snapshot) -> None:
        found, standing = Counter(live_rows(head)), self._standings[head.id]
        if found == standing.expected:
            return
        extra, missing = found - standing.expected, standing.expected - found
        if missing:
            raise InvariantBroken(NO_LOSS, sorted(missing))
        if any(found[row] > 1 for row in extra):
            raise InvariantBroken(NO_DUPLICATE, sorted(extra))
        raise InvariantBroken(TOGETHER, f"{sorted(extra)} beyond {standing.mark}")

    def _check_property(self) -> None:
        version = self._catalog.current
        own = (s for s in version.chain(self._branch) if s.said.get(SUMMARY_SINK) == self._sink)
        newest = next(own, None)
        if newest is None:
            return
        text = version.values.get(self._property)
        mark = parse(text) if text else None
        said = {key: newest.said[key] for key in (SUMMARY_EPOCH, SUMMARY_COMMIT, SUMMARY_DIGEST)}
        if mark is None or said.items() - mark.summary(self._property).items():
            raise InvariantBroken(PROPERTY_IS_SUMMARY, (said, mark))


def live_rows(snapshot: Snapshot) -> list[Row]:
    return [row for file in snapshot.live for row in file.rows]


def _due(before: Standing, mark: Mark) -> tuple[Row, ...]:
    """The rows that a commit of `mark` must bring: all between the mark before it and itself."""
    after = mark.position["row"] if before.row is None else before.row
    return rows(mark.source, after, mark.position["row"])
