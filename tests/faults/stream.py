"""A source that is filled as a test goes, and the project that reads it."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.table import Table

from calve.verify.report import Wanted, report
from calve.verify.rows import as_expected
from tests.faults import evidence
from tests.faults.kinds import APPEND, Kind
from tests.faults.process import LIMIT, Calve, ended, wait_for

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker
    from tests.servers.rest import RestCatalog

DECLARATION = """
version: "1.0"
sources:
  feed: {source}
sinks:
  lake:
    connector: iceberg
    config:
      {catalog}
      namespace: {namespace}
      table: events
      batch_size: {batch}
      max_batch_size: {batch}
      flush_interval_secs: 1
      retry_for: 2m
      {keys}
      # Every mark of the history is looked at in the end.
      table_properties: {{write.metadata.previous-versions-max: "1000"}}
spark:
  master: "local[1]"
  driver_memory: 1g
  config: {{spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}}
pipelines:
  events: {{source: feed, sink: lake, transforms: {transforms}}}
"""
COLUMNS = "id BIGINT NOT NULL, name STRING"


class Stream(ABC):
    """Rows numbered from 1, and the pipeline that takes them into a table."""

    def __init__(
        self,
        folder: Path,
        source: dict[str, Any],
        rest: RestCatalog | None,
        batch: int,
        kind: Kind = APPEND,
    ) -> None:
        self.produced, self.kind = 0, kind
        namespace = f"n{uuid.uuid4().hex[:8]}"
        catalog = f"catalog: {{type: rest, rest: {{uri: '{rest.uri}'}}}}" if rest else ""
        declaration = DECLARATION.format(
            source=json.dumps(source),
            catalog=catalog,
            namespace=namespace,
            batch=batch,
            keys="\n      ".join(f"{name}: {json.dumps(value)}" for name, value in kind.keys.items()),
            transforms=json.dumps([{"sql": kind.sql}] if kind.sql else []),
        )
        self.calve = Calve(folder, declaration, is_measured=False)
        self.catalog = evidence.rest(rest.uri) if rest else evidence.embedded(folder)
        self.table = f"{namespace}.events"

    def produce(self, count: int, abort: bool = False) -> None:
        """Add the next `count` rows; with `abort` also some that must not be read."""
        if abort:
            self.drop([_row(-number) for number in range(count)])
        self.put([_row(self.produced + number) for number in range(1, count + 1)])
        self.produced += count

    @abstractmethod
    def put(self, rows: list[str]) -> None:
        """Add rows that count."""

    @abstractmethod
    def drop(self, rows: list[str]) -> None:
        """Add rows that do not count."""

    def produce_until(self, condition: Callable[[], Any], what: str, pause: float = 0.2) -> Any:
        """Add a few rows at a time until `condition` is true; its answer."""
        limit = time.monotonic() + LIMIT
        while not (answer := condition()):
            assert time.monotonic() < limit, f"waited in vain for {what}"
            self.produce(5)
            time.sleep(pause)
        return answer

    def load(self) -> Table | None:
        return evidence.load(self.catalog, self.table)

    def wait_until_read(self, process: subprocess.Popen[str]) -> None:
        """Wait until `process` has written every row that was produced."""
        wait_for(lambda: self._has_all() or process.poll() is not None, "the rows")
        assert process.poll() is None, ended(process)

    def _has_all(self) -> bool:
        table = self.load()
        return table is not None and evidence.total(table) >= self.produced

    def epoch(self) -> int:
        """The epoch of the mark; 0 where there is none."""
        table = self.load()
        marks = evidence.marks(table, "events") if table else []
        return marks[-1]["epoch"] if marks else 0

    def check(self, orphans: int | None = None) -> None:
        """Everything that the suite promises of the table."""
        table = self.load()
        assert table is not None
        found = report(table, Wanted(files=True, orphans=orphans)).findings
        found += as_expected(self.kind.rows(table), self.kind.expected(self.produced), "the rows")
        assert not found, "\n".join(map(str, found))


class Topic(Stream):
    """A topic of three partitions, filled in transactions."""

    def __init__(
        self,
        kafka: KafkaBroker,
        folder: Path,
        rest: RestCatalog | None = None,
        batch: int = 40,
        kind: Kind = APPEND,
    ) -> None:
        self.kafka, self.topic = kafka, f"events-{uuid.uuid4().hex[:8]}"
        # Changes of one key are in one partition.
        kafka.create_topic(self.topic, 3 if kind is APPEND else 1)
        config = {
            "bootstrap_servers": kafka.bootstrap,
            "topics": [self.topic],
            "format": "json",
            "schema": COLUMNS,
        }
        super().__init__(folder, {"connector": "kafka", "config": config}, rest, batch, kind)

    def put(self, rows: list[str]) -> None:
        self.kafka.produce_in_transaction(self.topic, rows, commit=True)

    def drop(self, rows: list[str]) -> None:
        self.kafka.produce_in_transaction(self.topic, rows, commit=False)


class Inbox(Stream):
    """A folder that files of ten rows are put into; a batch takes two of them."""

    def __init__(self, folder: Path, rest: RestCatalog | None = None, batch: int = 40) -> None:
        self.inbox, self.files = folder / "inbox", 0
        self.inbox.mkdir(parents=True)
        config = {"path": str(self.inbox), "format": "json", "schema": COLUMNS, "max_files_per_batch": 2}
        super().__init__(folder, {"connector": "files", "config": config}, rest, batch)

    def put(self, rows: list[str]) -> None:
        for at in range(0, len(rows), 10):
            unfinished = self._write(rows[at : at + 10])
            unfinished.rename(unfinished.with_suffix(".json"))

    def drop(self, rows: list[str]) -> None:
        self._write(rows)

    def _write(self, rows: list[str]) -> Path:
        self.files += 1
        path = self.inbox / f"{self.files:06}.part"
        path.write_text("".join(row + "\n" for row in rows))
        return path


def _row(number: int) -> str:
    return json.dumps({"id": number, "name": f"n{number}"})
