"""Real processes, killed while they change the schema of their table."""

from __future__ import annotations

import json
import sqlite3

import pytest
from pyiceberg.table import StaticTable

from calve import crash
from tests.faults.process import Calve

pytestmark = pytest.mark.spark

DECLARATION = """
version: "1.0"
sources:
  files: {{connector: files, config: {{path: inbox, schema: "id BIGINT NOT NULL{columns}"}}}}
sinks:
  lake: {{connector: iceberg, config: {{namespace: shop, table: t, batch_size: 1}}}}
pipelines:
  t: {{source: files, sink: lake}}
spark: {{master: "local[2]", driver_memory: 1g}}
"""


def killed(folder, times):
    """Each life brings a file with a column more and is killed around its schema commit."""
    calve = Calve(folder, DECLARATION.format(columns=""), is_measured=False)
    try:
        life(calve, 0)
        for number in range(1, times + 1):
            point = crash.SCHEMA_POINTS[-number % len(crash.SCHEMA_POINTS)]
            life(calve, number, point)
            names, rows = seen(folder)
            assert len(calve.fired()) == number
            # Rows of a life that was killed come with the next one, all at once; the columns may be ahead.
            assert rows == [{"id": 0}]
            made = number if point == "schema.swapped" else len(names) - 1
            assert names == ["id", *(f"c{one}" for one in range(1, made + 1))]
        life(calve, times + 1)
    finally:
        calve.end()
    names, rows = seen(folder)
    assert names == ["id", *(f"c{one}" for one in range(1, times + 2))]
    assert rows == [record(number) for number in range(times + 2)]


def record(number):
    return {"id": number, **({f"c{number}": number} if number else {})}


def life(calve, number, point=None):
    (calve.folder / "inbox").mkdir(exist_ok=True)
    (calve.folder / "inbox" / f"{number:03}.json").write_text(json.dumps(record(number)))
    columns = "".join(f", c{one} INT" for one in range(1, number + 1))
    (calve.folder / "calve.yaml").write_text(DECLARATION.format(columns=columns))
    fault = {"point": point, "action": "kill"} if point else None
    code, said = calve.run("run", "--once", fault=fault)
    assert code == (-9 if point else 0), said


def seen(folder):
    """The columns, and the rows without what is NULL, as another reader has them."""
    with sqlite3.connect(folder / "warehouse" / "catalog.db") as connection:
        (location,) = connection.execute("SELECT metadata_location FROM iceberg_tables").fetchone()
    found = StaticTable.from_metadata(location).scan().to_arrow()
    rows = [{key: value for key, value in row.items() if value is not None} for row in found.to_pylist()]
    return found.column_names, sorted(rows, key=lambda row: row["id"])


def test_a_kill_around_the_schema_commit_leaves_no_half_state(tmp_path):
    killed(tmp_path, 3)


@pytest.mark.full
def test_twenty_kills_around_the_schema_commit_leave_no_half_state(tmp_path):
    killed(tmp_path, 20)
