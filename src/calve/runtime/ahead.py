"""The next batch, planned and read while the one before it is committed."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Generic, TypeVar

from calve import clock, gateway

log = logging.getLogger("calve")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Found = TypeVar("Found")

PATIENCE = 5.0
"""How many seconds a batch that is given up has to end; a service may keep it waiting, at nobody's cost."""


class Ahead(Generic[Found]):
    """What a thread of its own has begun; at most one thing at a time.

    An error there means that nothing was done ahead: the batch is run as if nobody had tried, and whoever
    runs it meets the error.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"calve-ahead-{uuid.uuid4().hex}"
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._running: Future[Found | None] | None = None

    def start(self, work: Callable[[], Found | None]) -> None:
        """Do `work` from now on."""
        assert self._running is None, "one is under way"
        self._running = self._pool.submit(gateway.beside(self._spark, clock.carried(work), self._tag))

    @property
    def is_done(self) -> bool:
        """Whether something was done that nobody has taken."""
        return self._running is not None and self._running.done()

    def take(self) -> Found | None:
        """What was begun, when that is done; None where there is nothing."""
        running, self._running = self._running, None
        try:
            return None if running is None else _ended(running)
        except Exception:
            log.debug("a batch could not be begun ahead", exc_info=True)
            return None

    def close(self) -> None:
        """Give up what was begun, so that a failure before it is shown at once."""
        limit = time.monotonic() + PATIENCE
        while self._running is not None and not self._running.done() and time.monotonic() < limit:
            # A job may be followed by another one.
            gateway.cancel(self._spark, self._tag)
            wait([self._running], 0.1)
        self._pool.shutdown(wait=False, cancel_futures=True)


@clock.timed("wait")
def _ended(running: Future[Found | None]) -> Found | None:
    return running.result()
