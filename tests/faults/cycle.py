"""A pipeline of three batches into a table of its own behind the faulty catalog, and what became of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from pyiceberg.table import Table

from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources.datagen import DatagenSource
from calve.sources.source import Source
from calve.testing.catalog import FaultyCatalog
from calve.testing.faults import CatalogFault
from calve.verify import Finding
from calve.verify.report import Wanted, report
from calve.verify.rows import as_expected
from tests.faults.kinds import APPEND, BATCH, Kind
from tests.lake import Lake

ROWS = 30


class Cycle:
    """One table and the runs that write to it."""

    def __init__(self, lake: Lake, faulty: FaultyCatalog, catalog: Any, kind: Kind = APPEND) -> None:
        self.lake, self.faulty, self.catalog, self.kind = lake, faulty, catalog, kind
        self.namespace = f"n{uuid.uuid4().hex[:10]}"

    def pipeline(self, source: Source) -> ResolvedPipeline:
        keys = {"namespace": self.namespace, "table": "t", "batch_size": 1, "max_batch_size": BATCH}
        sink = IcebergSink.model_validate(
            {"catalog": self.lake.declaration, "retry_for": "60s", **keys, **self.kind.keys}
        )
        return ResolvedPipeline("t", source, sink, self.kind.transforms(), "t", True)

    def run(
        self,
        *plan: CatalogFault,
        rows: int = ROWS,
        source: Source | None = None,
        stop: Stop | None = None,
        once: bool = False,
    ) -> None:
        """Run to the end; every fault of `plan` must fire, also if the run fails."""
        self.faulty.load(plan)
        pipeline = self.pipeline(source or DatagenSource(rows=rows))
        try:
            Runner(pipeline, self.lake.spark, stop or Stop(), Report("t"), once).run()
        finally:
            assert self.faulty.unfired == (), "a planned fault did not fire"

    def table(self) -> Table:
        return self.catalog.load_table(f"{self.namespace}.t")

    def findings(self, expected: Iterable[Any]) -> list[Finding]:
        """Everything that speaks against the table; rows that cannot be read are told by their files."""
        table = self.table()
        found = report(table, Wanted(files=True)).findings
        with suppress(FileNotFoundError):
            found += as_expected(self.kind.rows(table), expected, f"columns {', '.join(self.kind.columns)}")
        return found

    def check(self, rows: int = ROWS) -> None:
        """Every row once, every file there, and no commit applied twice."""
        assert self.findings(self.kind.expected(rows)) == []
        commits = self.faulty.ledger.commits(f"{self.namespace}.t")
        ids = [commit.commit_id for commit in commits if commit.commit_id]
        assert len(ids) == len(set(ids)), "a commit was applied twice"
