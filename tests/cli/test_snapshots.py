import json

import polars as pl
import pytest

from calve.cli.snapshots import live_rows
from tests.test_readers import with_duckdb


@pytest.fixture
def look(calve, finished, kept):
    """`calve snapshots` in a project that has run."""
    return lambda *arguments: calve("snapshots", "orders", *arguments, "--config", str(finished))


def test_snapshots_are_listed_with_what_we_know_of_ours(look):
    value = json.loads(look("-o", "json").out)
    assert value["table"] == "shop.orders"
    assert value["metadata_file"].startswith(value["location"])
    assert [one["rows_added"] for one in value["snapshots"]] == [0, 10, 10, 10]
    assert [one["rows_total"] for one in value["snapshots"]] == [0, 10, 20, 30]
    assert {one["epoch"] for one in value["snapshots"]} == {1}
    assert {one["sink"] for one in value["snapshots"]} == {"orders"}
    assert len({one["commit"] for one in value["snapshots"]}) == 4
    assert value["snapshots"][0]["time"].endswith("Z")


def test_snapshots_of_others_have_no_epoch(calve, ran, ready, spark):
    from calve import declare
    from calve.runtime.session import branch_off

    ran()
    session = branch_off(spark, [declare.load(ready).pipeline("orders").sink.catalog])
    session.sql("DELETE FROM calve.shop.orders WHERE id > 20").collect()
    last = json.loads(calve("snapshots", "orders", "-o", "json").out)["snapshots"][-1]
    assert (last["operation"], last["epoch"], last["commit"]) == ("delete", None, None)
    assert last["rows_total"] == 20


def test_the_lines_for_other_readers_work_as_they_are(look, monkeypatch):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    lines = look().out.splitlines()
    polars_line = lines[-1].removeprefix("Polars  ")
    assert eval(polars_line, {"pl": pl}).height == 30
    duckdb_line = lines[-2].removeprefix("DuckDB  ")
    assert duckdb_line.startswith("SELECT * FROM iceberg_scan('")
    assert len(with_duckdb(duckdb_line.split("'")[1])) == 30


def test_the_metadata_file_is_shown_at_the_top(look):
    lines = look().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["table", "location", "metadata"]
    assert lines[2].endswith(".metadata.json")


@pytest.mark.parametrize(
    ("summary", "rows"),
    [
        ({"total-records": "30"}, 30),
        ({"total-records": "30", "total-position-deletes": "4", "total-equality-deletes": "0"}, 26),
        ({"total-records": "30", "total-equality-deletes": "1"}, None),
        ({}, None),
    ],
)
def test_rows_that_are_deleted_do_not_count(summary, rows):
    assert live_rows(summary) == rows
