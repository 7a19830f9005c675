"""Pipelines with transforms: what rows carry goes along, and an upsert follows a view of the source."""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any
from uuid import uuid4

import pytest

from calve.errors import ConfigurationError, DataRefused
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources.files import FilesSource
from calve.transforms.python import PythonTransform
from calve.transforms.sql import SqlTransform

UPSERT = {"commit_mode": "upsert", "key_fields": ["id"]}
COLUMNS = "op STRING, id BIGINT NOT NULL, status STRING NOT NULL, amount BIGINT"


class Feed:
    """A folder of files with changes, and a pipeline with transforms that takes one file in a batch."""

    def __init__(self, lake, folder, *transforms, schema: str | None = COLUMNS, operation="op", **keys):
        self.lake, self.folder = lake, folder
        self.source = {"path": str(folder), "max_files_per_batch": 1}
        self.source |= {"schema": schema} if schema else {}
        self.source |= {"operation": {"field": operation}} if operation else {}
        self.keys = {"batch_size": 1, "retry_for": 0, **keys}
        self.transforms = [SqlTransform(sql=one) if isinstance(one, str) else one for one in transforms]
        self.files = 0
        folder.mkdir()

    def put(self, *records: dict[str, Any]) -> None:
        self.files += 1
        path = self.folder / f"{self.files:03}.json"
        path.write_text("\n".join(json.dumps(one) for one in records))
        os.utime(path, (1_000_000 + self.files, 1_000_000 + self.files))

    def run(self):
        source = FilesSource.model_validate(self.source)
        assert source.flaws() == []
        place = {"catalog": self.lake.declaration, "namespace": "shop", "table": "t"}
        sink = IcebergSink.model_validate({**place, **self.keys})
        assert sink.flaws() == []
        report = Report("t")
        pipeline = ResolvedPipeline("t", source, sink, tuple(self.transforms), "t", True)
        Runner(pipeline, self.lake.spark, Stop(), report, once=True).run()
        return report.status

    def rows(self, *columns: str):
        found = self.lake.spark.table(self.lake.name("t").sql())
        return sorted(map(tuple, (found.select(*columns) if columns else found).collect()), key=repr)

    @property
    def table(self):
        return self.lake.catalog.load(self.lake.name("t"))


def change(op: str, id: int, status: str | None = None, amount: int | None = None) -> dict[str, Any]:
    told = {"op": op, "id": id, "status": status, "amount": amount}
    return {name: value for name, value in told.items() if value is not None}


FILTER = "SELECT * FROM input WHERE status <> 'returned'"


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_what_no_longer_passes_a_filter_is_deleted_and_a_delete_needs_its_key_alone(
    lake, tmp_path, in_one_batch
):
    feed = Feed(lake, tmp_path / "in", FILTER, **UPSERT)
    first = [change("i", id, "new") for id in (1, 2, 3)]
    then = [change("d", 1), change("u", 2, "returned"), change("u", 3, "paid"), change("i", 4, "returned")]
    for records in [first + then] if in_one_batch else [first, then]:
        feed.put(*records)
        feed.run()
    assert feed.rows("id", "status") == [(3, "paid")]
    assert not feed.table.metadata().schema().column("status").nullable


def test_upserts_behind_a_select_need_not_list_what_changes_carry(lake, tmp_path):
    sql = "SELECT id, upper(status) AS state FROM input"
    feed = Feed(lake, tmp_path / "in", sql, "SELECT state, id FROM input", **UPSERT)
    feed.put(change("i", 1, "new"), change("i", 2, "new"))
    feed.put(change("d", 1), change("u", 2, "paid"))
    feed.run()
    assert feed.rows("id", "state") == [(2, "PAID")]


def test_what_a_row_that_does_not_pass_cannot_be_made_of_is_not_made(lake, tmp_path):
    sql = "SELECT id, status, 100 / amount AS part FROM input WHERE amount <> 0"
    feed = Feed(lake, tmp_path / "in", sql, **UPSERT)
    feed.put(change("i", 1, "a", 5), change("i", 2, "b", 4))
    feed.put(change("u", 1, "a", 0), change("d", 2))
    feed.run()
    assert feed.rows("id") == []


def test_a_key_is_made_of_the_key_of_a_delete(lake, tmp_path):
    sql = "SELECT concat('k', CAST(id AS STRING)) AS key, status FROM input WHERE amount > 1"
    feed = Feed(lake, tmp_path / "in", sql, commit_mode="upsert", key_fields=["key"])
    feed.put(*(change("i", id, "new", 2) for id in (1, 2, 3)))
    feed.put(change("d", 1), change("u", 2, "new", 1))
    feed.run()
    assert feed.rows("key") == [("k3",)]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (
            "SELECT id, x AS status FROM input LATERAL VIEW explode(array(status)) t AS x",
            "several rows of one",
        ),
        ("SELECT id, status FROM input UNION ALL SELECT -id, status FROM input", "several rows of one"),
        (
            "SELECT coalesce(amount, id) AS id, status FROM input",
            "make the key column 'id' of columns that a",
        ),
        ("SELECT id, id FROM input", "a column 'id' twice"),
        ("SELECT id, status AS ID FROM input", "a column 'ID' beside 'id'"),
        ("SELECT id, INTERVAL 1 DAY AS i FROM input", "Iceberg has no intervals"),
    ],
)
def test_statements_whose_meaning_an_upsert_cannot_keep_are_refused_before_there_is_a_table(
    lake, tmp_path, sql, why
):
    feed = Feed(lake, tmp_path / "in", sql, **UPSERT)
    feed.put(change("i", 1, "new"))
    with pytest.raises(ConfigurationError, match=why) as caught:
        feed.run()
    assert "\n" not in str(caught.value)
    assert not lake.catalog.has_table(lake.name("t"))


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT id, id FROM input", "a column 'id' twice"),
        ("SELECT id, status AS ID FROM input", "a column 'ID' beside 'id'"),
        ("SELECT id, INTERVAL 1 DAY AS i FROM input", "Iceberg has no intervals"),
    ],
)
def test_columns_that_no_table_can_have_are_refused_before_there_is_one(lake, tmp_path, sql, why):
    feed = Feed(lake, tmp_path / "in", sql, operation=None)
    feed.put(change("i", 1, "new"))
    with pytest.raises(ConfigurationError, match=why) as caught:
        feed.run()
    assert "\n" not in str(caught.value)
    assert not lake.catalog.has_table(lake.name("t"))


def test_a_statement_that_names_the_columns_of_changes_says_which_changes_it_makes(lake, tmp_path):
    sql = (
        "SELECT id, status, if(amount < 0, 'd', _calve_op) AS _calve_op, _calve_order, _calve_ts, "
        "_calve_unknown FROM input WHERE status <> 'other table'"
    )
    feed = Feed(lake, tmp_path / "in", sql, **UPSERT)
    feed.put(change("i", 1, "new"), change("i", 2, "new"))
    feed.put(change("i", 1, "other table"), change("u", 2, "new", -1))
    feed.run()
    assert feed.rows("id") == [(1,)]


def test_an_append_only_filters_and_leaves_deletes_out(lake, tmp_path):
    sql = "SELECT id, x FROM input LATERAL VIEW explode(array(id, id)) t AS x WHERE status <> 'returned'"
    feed = Feed(lake, tmp_path / "in", sql)
    feed.put(change("i", 1, "new"), change("i", 2, "returned"), change("d", 3, "new"))
    assert feed.run().dropped == 2
    assert feed.rows() == [(1, 1), (1, 1)]


@pytest.mark.parametrize("sql", ["SELECT * FROM input WHERE id IS NULL", "SELECT * FROM input WHERE false"])
def test_a_batch_of_which_a_transform_leaves_nothing_ends_and_its_bad_records_are_letters(
    lake, tmp_path, sql
):
    feed = Feed(lake, tmp_path / "in", sql, schema="id BIGINT NOT NULL, a INT", operation=None)
    feed.put({"id": 1, "a": 2}, {"id": "x"})
    status = feed.run()
    assert (status.rows, status.dead_letters) == (0, 1)
    assert feed.rows() == []


def test_sql_that_fails_on_a_row_is_refused_data(lake, tmp_path):
    for number, sql in enumerate(("SELECT 10 / a AS b FROM input", "SELECT CAST(s AS INT) AS b FROM input")):
        feed = Feed(lake, tmp_path / str(number), sql, schema="a INT, s STRING", operation=None)
        feed.put({"a": 0, "s": "x"})
        with pytest.raises(DataRefused) as caught:
            feed.run()
        assert caught.value.exit_code == 65
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "DATE'0001-01-01' - INTERVAL 1 DAY",
        "TIMESTAMP'9999-12-31 23:59:59Z' + INTERVAL 1 DAY",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59' + INTERVAL 1 DAY",
    ],
)
def test_days_and_times_that_others_cannot_read_are_refused(lake, tmp_path, value):
    feed = Feed(
        lake, tmp_path / "in", f"SELECT id, {value} AS at FROM input", operation=None, schema="id INT"
    )
    feed.put({"id": 1})
    with pytest.raises(DataRefused, match=r"column 'at': .* is not in the years 1 to 9999"):
        feed.run()


def test_columns_may_have_the_names_that_tables_of_changes_use(lake, tmp_path):
    names = ("_op", "_ts", "_order", "_unknown", "_seq", "_stream")
    row = {"id": 1, **dict.fromkeys(names, "d")}
    schema = "id BIGINT, " + ", ".join(f"{name} STRING" for name in names)
    for number, (transforms, keys) in enumerate(
        [
            ((), {}),
            (("SELECT * FROM input",), {}),
            ((), UPSERT),
            (("SELECT * FROM input WHERE id > 0",), UPSERT),
        ]
    ):
        for declared in (schema, None):
            folder = tmp_path / f"{number}{declared is None}"
            feed = Feed(lake, folder, *transforms, schema=declared, operation=None, table=folder.name, **keys)
            feed.put(row)
            assert feed.run().rows == 1
            [found] = lake.spark.table(lake.name(folder.name).sql()).collect()
            assert found.asDict() == row


def test_a_table_that_keeps_changes_cannot_have_a_column_of_their_names(lake, tmp_path):
    feed = Feed(lake, tmp_path / "in", "SELECT id, status AS _seq FROM input", change_columns=True)
    feed.put(change("i", 1, "new"))
    with pytest.raises(ConfigurationError, match="column '_seq': with 'change_columns: true' the table has"):
        feed.run()
    assert not lake.catalog.has_table(lake.name("t"))


def test_names_that_rows_carry_are_refused_in_data(lake, tmp_path):
    feed = Feed(lake, tmp_path / "in", schema=None, operation=None)
    feed.put({"id": 1, "_calve_op": "d"})
    with pytest.raises(ConfigurationError, match="names that begin with '_calve_' are reserved"):
        feed.run()
    assert not lake.catalog.has_table(lake.name("t"))


CODE = """
import sys
from pyspark.sql import functions as f

def paid(rows):
    return rows.where("status <> 'returned'").withColumn("status", f.upper("status"))

def counted(rows):
    return rows.groupBy("id").count()

def in_pandas(rows):
    return rows.mapInPandas(lambda parts: parts, rows.schema)
"""


@pytest.fixture
def module(tmp_path):
    name = f"mine_{uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(CODE)
    yield lambda function: PythonTransform.model_validate(
        {"python": f"{name}:{function}"}, context={"directory": str(tmp_path)}
    )
    sys.path[:] = [path for path in sys.path if path != str(tmp_path)]


def test_a_function_is_a_view_too_and_code_that_no_plan_shows_passes_changes_on(lake, tmp_path, module):
    feed = Feed(lake, tmp_path / "in", module("in_pandas"), module("paid"), **UPSERT)
    feed.put(*(change("i", id, "new") for id in (1, 2, 3)))
    feed.put(change("d", 1), change("u", 2, "returned"), change("u", 3, "paid"))
    feed.run()
    assert feed.rows("id", "status") == [(3, "PAID")]


VIEWS = {
    FILTER: lambda row: {**row} if row["status"] != "returned" else None,
    "SELECT id + 1 AS id, amount, status FROM input WHERE amount > 2": lambda row: (
        {**row, "id": row["id"] + 1} if row["amount"] is not None and row["amount"] > 2 else None
    ),
    "SELECT id, q.n AS amount, q.status FROM (SELECT id, 12 div amount AS n, status FROM input "
    "WHERE amount <> 0) AS q WHERE q.n < 6": lambda row: (
        {**row, "amount": 12 // row["amount"]} if row["amount"] and 12 // row["amount"] < 6 else None
    ),
}


@pytest.mark.parametrize("sql", VIEWS)
def test_the_table_behind_transforms_is_a_view_of_the_source(lake, tmp_path, sql):
    """The law, for random logs of changes."""
    for seed in range(3):
        draw = random.Random(seed)
        feed = Feed(lake, tmp_path / f"{seed}", sql, table=f"v{seed}", **UPSERT)
        source: dict[int, dict[str, Any]] = {}
        for _ in range(4):
            log = []
            for _ in range(draw.randint(1, 12)):
                id = draw.randrange(6)
                if id in source and draw.random() < 0.3:
                    del source[id]
                    log.append(change("d", id))
                else:
                    row = change(
                        "u", id, draw.choice(["new", "paid", "returned"]), draw.choice([None, 0, 2, 4])
                    )
                    log.append(row)
                    source[id] = {"amount": None, **row}
            feed.put(*log)
            feed.run()
            made = (VIEWS[sql](row) for row in source.values())
            expected = sorted((one["id"], one["status"], one["amount"]) for one in made if one is not None)
            found = lake.spark.table(lake.name(f"v{seed}").sql()).select("id", "status", "amount").collect()
            assert sorted(map(tuple, found)) == expected, (seed, log)
