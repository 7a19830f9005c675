"""Spark's daemon of Python workers, which has imported what they need: each is forked with all of it.

Spark starts it by `spark.python.daemon.module`, where the Python of the workers has Calve.
"""

from __future__ import annotations

import gc

from pyspark import daemon

import calve.decode.reading
import calve.iceberg.parquet  # noqa: F401
from calve.decode.worker import settle


def main() -> None:
    """Serve workers until Spark ends."""
    settle()
    # What is there now is never garbage: no worker looks at it, and so no page of it is copied.
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
