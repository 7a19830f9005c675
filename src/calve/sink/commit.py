"""The commit protocol: fence, decide on every base, swap, and look again after any failure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping

from calve import crash, position
from calve.errors import CalveError, ConfigurationError, DataRefused, Fenced, StartRefused
from calve.iceberg.stage import Staged
from calve.iceberg.swap import Change, Proposal, attempt
from calve.iceberg.table import Metadata, Table
from calve.patience import Patience
from calve.position import Decision, Lineage, Mark, Position

Propose = Callable[[Metadata], Proposal]

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
    ) -> None:
        self.table = table
        self.sink_id = sink_id
        self.branch = branch
        self.held: Mark | None = None
        self._writer = str(uuid.uuid4())
        self._patience = patience
        self._property = position.property_name(sink_id, branch)
        self._snapshot_properties = dict(snapshot_properties or {})
        self._declared = {sink_id, *declared}

    def seen(self, source: str, base: Metadata | None = None) -> Mark | None:
        """The mark of the table, if there is one and a start from `source` may build on it."""
        base = base or self.table.metadata()
        mark = self._mark(base)
        if mark is None:
            self._check_no_other(base, source)
            return None
        self._check_source(mark, source)
        if position.lineage(mark, base.ancestors(self.branch)) is Lineage.ROLLED_BACK:
            raise self._rolled_back()
        return mark

    def fence(self, source: str, start: Position) -> Mark:
        """Take the next epoch, so that no older writer can commit any more.

        The position stays where the table's mark has it; `start` is used where the table has none.
        """
        crash.point("start.before_fence")
        return self._take_epoch(source, start, lambda base: self.seen(source, base), {})

    def decide_start(self, source: str, to: Position, reason: str) -> Mark:
        """Take the next epoch at `to`, wherever the table's mark stands: what an operator has decided."""

        def moved(base: Metadata) -> Mark | None:
            mark = self._mark(base, sound=False)
            return mark and mark.moved(position=to, commit=mark.commit, above=mark.above)

        return self._take_epoch(source, to, moved, {REASON: reason})

    def commit(self, staged: Staged, to: Position) -> Mark:
        """Commit `staged` and the position behind it; returns when both are in the table."""
        held, commit = self.held, str(uuid.uuid4())
        assert held is not None, "commit before fence"

        def propose(base: Metadata) -> Proposal:
            current = self._mark(base)
            decision = position.decide(current, held, commit, base.ancestors(self.branch))
            if decision is Decision.COMMITTED and current is not None:
                return Proposal(current, landed=True)
            if decision is not Decision.COMMIT:
                raise self._refusal(decision, current)
            return Proposal(held.moved(position=to, commit=commit, above=base.last_sequence))

        crash.point("commit.before")
        self.held = self._until_certain(self._change(staged), propose, "commit")
        crash.point("commit.confirmed")
        return self.held

    def _take_epoch(
        self, source: str, start: Position, seen: Callable[[Metadata], Mark | None], reason: Mapping[str, str]
    ) -> Mark:
        commit = str(uuid.uuid4())

        def propose(base: Metadata) -> Proposal:
            current = self._mark(base, sound=not reason)
            if current is not None and current.commit == commit:
                return Proposal(current, landed=True)
            names = {"writer": self._writer, "source": source, "commit": commit}
            return Proposal(position.next_epoch(seen(base), start=start, above=base.last_sequence, **names))

        self.held = self._until_certain(self._change(None, reason), propose, "fence")
        self._read_back(self.held)
        return self.held

    def _until_certain(self, change: Change, propose: Propose, place: str) -> Mark:
        """Attempt until the table itself says that the commit is in it, or that it never will be.

        No failure is taken for a proof that nothing was written, not even a conflict: an attempt may have
        landed and been answered wrongly. So each failure is followed by a look at the table.
        """
        self._check_size(propose(self.table.metadata()).mark)
        while True:
            try:
                mark = attempt(self.table, change, propose, place)
            except CalveError as error:
                proposal = propose(self._reload())
                if not proposal.landed:
                    self._wait_or_raise(error)
                    continue
                mark = proposal.mark
            self._patience.recovered()
            return mark

    def _reload(self) -> Metadata:
        while True:
            try:
                return self.table.refresh()
            except CalveError as error:
                self._wait_or_raise(error)

    def _wait_or_raise(self, error: CalveError) -> None:
        if not error.retryable:
            raise error
        self._patience.wait(error)

    def _change(self, staged: Staged | None, reason: Mapping[str, str] | None = None) -> Change:
        summary = {**self._snapshot_properties, **(reason or {})}
        return Change(self.sink_id, self.branch, self._property, staged.files if staged else (), summary)

    def _mark(self, base: Metadata, sound: bool = True) -> Mark | None:
        try:
            return base.mark(self._property)
        except ValueError as error:
            if not sound:
                return None
            raise StartRefused(
                f"Cannot use the mark of '{self.sink_id}' in table '{self.table.name}': {error}",
                command=self._repair("--restart-from earliest"),
            ) from error

    def _read_back(self, mark: Mark) -> None:
        current = self._mark(self._reload())
        if current is None:
            raise ConfigurationError(
                f"Cannot write to table '{self.table.name}': its catalog does not keep table property "
                f"'{self._property}'; use a catalog that keeps table properties"
            )
        if current != mark:
            raise self._refusal(Decision.FENCED, current)

    def _check_size(self, mark: Mark) -> None:
        size = len(mark.dump().encode())
        if size > position.MARK_LIMIT:
            raise DataRefused(
                f"Cannot commit to table '{self.table.name}': the position takes {size} bytes and a mark holds "
                f"{position.MARK_LIMIT}; read fewer topics or files with one pipeline, or lower 'max_file_age'"
            )

    def _check_source(self, mark: Mark, source: str) -> None:
        if mark.source != source:
            raise StartRefused(
                f"Cannot continue table '{self.table.name}': it was written from '{mark.source}' and the "
                f"declaration names '{source}'",
                command=self._repair("--restart-from earliest"),
            )

    def _check_no_other(self, base: Metadata, source: str) -> None:
        others = position.others(base.properties(), source, self.branch, self._declared)
        if others:
            raise StartRefused(
                f"Cannot start '{self.sink_id}' on table '{self.table.name}': sink '{others[0]}' holds a position of the same "
                f"source and is not declared, as after renaming a pipeline; set 'sink_id: {others[0]}' to continue it",
                command=self._repair("--restart-from earliest"),
            )

    def _rolled_back(self) -> StartRefused:
        return StartRefused(
            f"Cannot continue table '{self.table.name}': branch '{self.branch}' was rolled back behind the last commit of "
            f"'{self.sink_id}', so rows that its mark counts as written are gone",
            command=self._repair("--accept-rollback"),
        )

    def _refusal(self, decision: Decision, current: Mark | None) -> CalveError:
        if decision is Decision.ROLLED_BACK:
            return self._rolled_back()
        now = f"epoch {current.epoch} of writer {current.writer}" if current else "no mark at all"
        held = self.held.epoch if self.held else 0
        return Fenced(
            f"Cannot commit to table '{self.table.name}': sink '{self.sink_id}' holds epoch {held} and the table has "
            f"{now}; another process runs this pipeline, stop one of them",
            table=str(self.table.name),
            sink_id=self.sink_id,
        )

    def _repair(self, decision: str) -> str:
        return f"calve repair --pipeline {self.sink_id} {decision} --yes"
