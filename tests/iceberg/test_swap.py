"""One attempt to commit."""

import json
import time

import pytest

from calve import gateway
from calve.errors import TryAgain

MINUTE = 60_000


def shift_clock(table, minutes):
    """Change the table as a writer does whose clock is ahead."""
    parser = gateway.jvm().org.apache.iceberg.TableMetadataParser
    operations = table.java.operations()
    base = operations.refresh()
    told = json.loads(parser.toJson(base))
    later = int(time.time() * 1000) + int(minutes * MINUTE)
    told["last-updated-ms"] = told["snapshots"][-1]["timestamp-ms"] = later
    told["snapshot-log"][-1]["timestamp-ms"] = later
    operations.commit(base, parser.fromJson(json.dumps(told)))


def test_a_table_that_is_ahead_of_the_clock_is_waited_for(lake):
    table = lake.table()
    lake.committer(table).fence("kafka:cluster", {"row": 0})
    shift_clock(table, 10)
    writer = lake.committer(table, retry_for=0.3)
    with pytest.raises(
        TryAgain, match=r"last commit is 10 minutes ahead of this machine's clock; .*retry_for"
    ):
        writer.fence("kafka:cluster", {"row": 0})


def test_a_clock_that_is_a_little_behind_does_not_matter(lake):
    table = lake.table()
    lake.committer(table).fence("kafka:cluster", {"row": 0})
    shift_clock(table, 0.5)
    assert lake.committer(table, retry_for=0.3).fence("kafka:cluster", {"row": 0}).epoch == 2
