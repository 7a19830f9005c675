"""The next batch, planned and read while the one before it is committed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, TypeVar

from calve import clock, gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Found = TypeVar("Found")


class Ahead(Generic[Found]):
    """What a thread of its own has begun; at most one thing at a time.

    An error there means that nothing was done ahead: the batch is run as if nobody had tried, and whoever
    runs it meets the error.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._running: Future[Found | None] | None = None

    def start(self, work: Callable[[], Found | None]) -> None:
        """Do `work` from now on."""
        assert self._running is None, "one is under way"
        self._running = self._pool.submit(gateway.beside(self._spark, clock.carried(work)))

    @property
    def is_busy(self) -> bool:
        """Whether something was started that nobody has taken."""
        return self._running is not None

    def take(self) -> Found | None:
        """What was begun, when that is done; None where there is nothing."""
        running, self._running = self._running, None
        try:
            return None if running is None else _ended(running)
        except Exception:
            return None

    def close(self) -> None:
        """Wait until nothing runs any more."""
        self._pool.shutdown(cancel_futures=True)


@clock.timed("wait")
def _ended(running: Future[Found | None]) -> Found | None:
    return running.result()
