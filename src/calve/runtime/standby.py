"""Two processes of one pipeline, of which one waits until the other shows no more life."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from calve import gateway, position
from calve.errors import CalveError
from calve.iceberg import swap
from calve.iceberg.catalog import Catalog
from calve.iceberg.name import TableName
from calve.patience import Abandoned, Patience
from calve.position import Mark
from calve.runtime.stop import Stop
from calve.sink import heartbeat
from calve.sink.declaration import IcebergSink
from calve.sink.heartbeat import BEATS, Heartbeat, Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("calve")

SECONDS = 60.0
"""After how many seconds without a sign of life a standby takes over, unless it is told otherwise."""

_LOOKS = 20
"""How often a standby looks at the table in that time."""


class Standby:
    """One pipeline of a process that was started with `--standby`."""

    def __init__(
        self, spark: SparkSession, sink: IcebergSink, sink_id: str, stop: Stop, seconds: float = SECONDS
    ) -> None:
        self.seconds = seconds
        self._spark = spark
        self._sink = sink
        self._stop = stop
        self._mark = position.property_name(sink_id, sink.branch)
        self._property = heartbeat.property_name(sink_id, sink.branch)

    def wait(self, name: TableName, patience: Patience) -> None:
        """Return when nobody runs the pipeline; raises Abandoned where the end is asked for before."""
        watch, catalog = Watch(self.seconds), self._catalog()
        while not watch.is_over(*patience.keep_trying(lambda: self._look(catalog, name)), time.monotonic()):
            # Several of them do not look, and take over, at the same moment.
            if self._stop.wait(self.seconds / _LOOKS * random.uniform(0.5, 1.5)):
                raise Abandoned("the end was asked for while another process ran the pipeline")

    @contextmanager
    def beating(self, name: TableName, holds: Callable[[], Mark | None]) -> Iterator[None]:
        """Inside, show life for the epoch that `holds` tells; behind it, say that it has ended."""
        ended = threading.Event()
        work = gateway.beside(self._spark, lambda: self._beat(name, holds, ended))
        thread = threading.Thread(target=work, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(5)

    def _catalog(self) -> Catalog:
        declared = self._sink.catalog
        return Catalog(self._spark, declared.spark_name(), declared.description())

    def _look(self, catalog: Catalog, name: TableName) -> tuple[Mark | None, Heartbeat | None]:
        if not catalog.has_table(name):
            return None, None
        base = catalog.load(name).metadata()
        try:
            return base.mark(self._mark), heartbeat.parse(base.property(self._property))
        except ValueError:
            # The start that follows says what is wrong with the mark.
            return None, None

    def _beat(self, name: TableName, holds: Callable[[], Mark | None], ended: threading.Event) -> None:
        number, last, is_over = 0, "", False
        while not is_over:
            is_over = ended.wait(self.seconds / BEATS)
            held, number = holds(), number + 1
            # A commit since the last look is a sign of life as well.
            if held is not None and (is_over or held.commit == last):
                self._try_to_write(name, Heartbeat(held.epoch, held.writer, number, self.seconds, is_over))
            last = held.commit if held is not None else ""

    def _try_to_write(self, name: TableName, beat: Heartbeat) -> None:
        try:
            self._write(name, beat)
        except Exception:
            # The next one may come through; without the last one a standby waits a little longer.
            log.debug("a heartbeat of %s was not written", name, exc_info=True)

    def _write(self, name: TableName, beat: Heartbeat) -> None:
        table = self._catalog().load(name)
        base = table.metadata()
        current: Mark | None = None
        with suppress(ValueError):
            current = base.mark(self._mark)
        if current is None or not beat.is_of(current):
            raise CalveError(f"another process runs the pipeline of table '{name}'")
        swap.set_property(table, base, self._property, beat.dump())
