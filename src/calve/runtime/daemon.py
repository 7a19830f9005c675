"""Spark's daemon of Python workers, which has imported what they need: each is forked with all of it.

Spark starts it by `spark.python.daemon.module`, where the Python of the workers has Calve.
"""

from __future__ import annotations

import gc
import signal
from types import SimpleNamespace
from typing import Any

from pyspark import daemon

import calve.decode.reading
import calve.iceberg.parquet  # noqa: F401
from calve.decode.worker import settle

_STOPS = (signal.SIGTERM, signal.SIGINT)


def main() -> None:
    """Serve workers until Spark ends."""
    settle()
    _ignore_stops()
    # What is there now is never garbage: no worker looks at it, and so no page of it is copied.
    gc.freeze()
    daemon.manager()


def _ignore_stops() -> None:
    """Have the daemon and its workers outlive a SIGTERM or SIGINT that is sent to every process of a service.

    Spark ends the daemon by closing its standard input as well, and the daemon its workers by SIGHUP.
    """
    for number in _STOPS:
        signal.signal(number, signal.SIG_IGN)

    def handle(number: int, handler: Any) -> Any:
        return signal.getsignal(number) if number in _STOPS else signal.signal(number, handler)

    setattr(daemon, "signal", SimpleNamespace(**{**vars(signal), "signal": handle}))  # noqa: B010


if __name__ == "__main__":
    main()
