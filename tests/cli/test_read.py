import json
from decimal import Decimal

import pytest


@pytest.fixture
def look(calve, finished, kept):
    """`calve read` in a project that has run."""
    return lambda *arguments: calve("read", *arguments, "--config", str(finished))


def test_rows_are_shown_under_their_columns(look):
    ended = look("orders", "--limit", "40")
    lines = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert lines[0].split() == ["id", "note", "amount", "at"]
    assert sorted(int(line.split()[0]) for line in lines[1:]) == list(range(1, 31))
    assert any(line.split()[1] == "NULL" for line in lines[1:])


def test_that_there_are_more_is_a_message(look):
    ended = look("shop.orders", "-n", "2")
    assert len(ended.out.splitlines()) == 3
    assert ended.err == "These are 2 rows of more; --limit shows others\n"


def test_json_is_a_line_a_row_with_exact_values(look):
    rows = [
        json.loads(line, parse_float=Decimal)
        for line in look("orders", "-n", "50", "-o", "json").out.splitlines()
    ]
    assert len(rows) == 30
    first = next(row for row in rows if row["id"] == 1)
    assert first["at"] == "2026-01-01T00:00:00.000000Z"
    assert all(row["amount"].as_tuple().exponent == -2 for row in rows)
    assert any(row["note"] is None for row in rows)


def test_the_branch_that_the_sink_writes_to_is_read(calve, ran, ready):
    ready.write_text(ready.read_text().replace("table: orders,", "table: orders, branch: audit,"))
    ran()
    assert len(calve("read", "orders", "-n", "50", "-o", "json").out.splitlines()) == 30
    assert calve("read", "orders", "--branch", "main", "-o", "json").out == ""
    ended = calve("read", "orders", "--branch", "audti")
    assert ended.code == 64
    assert ended.err.endswith("there is audit, main; did you mean 'audit'?\n")


def test_a_table_that_does_not_exist_is_refused_before_spark_starts(calve, project):
    ended = calve("read", "orders")
    assert ended.code == 64
    assert (
        ended.err
        == "Cannot find table 'shop.orders': it does not exist; 'calve run' creates the tables of sinks\n"
    )
    assert not (project.parent / "warehouse").exists()


def test_another_table_of_the_catalog_that_does_not_exist_is_refused(look):
    assert look("shop.other").code == 64


def test_an_unknown_table_gets_a_suggestion(calve, project):
    ended = calve("read", "orderz")
    assert ended.code == 64
    assert ended.err == "Cannot find table 'orderz': there is shop.orders\n"


@pytest.mark.parametrize("limit", ["0", "many"])
def test_a_limit_is_a_positive_number(calve, project, limit):
    assert calve("read", "orders", "--limit", limit).code == 64


@pytest.fixture
def snapshots(calve, finished, kept):
    told = calve("snapshots", "orders", "-o", "json", "--config", str(finished)).out
    return json.loads(told)["snapshots"]


def test_an_earlier_state_is_read_by_id_and_by_time(look, snapshots):
    second = snapshots[2]
    for at in (str(second["id"]), second["time"], second["time"].replace("T", " ").replace("Z", "+00:00")):
        rows = look("orders", "-n", "50", "-o", "json", "--as-of", at).out.splitlines()
        assert sorted(json.loads(row)["id"] for row in rows) == list(range(1, 21))


def test_rows_and_columns_can_be_chosen(look):
    lines = look("orders", "--where", "id BETWEEN 5 AND 6", "--column", "id", "-o", "json").out.splitlines()
    assert sorted(lines) == ['{"id":5}', '{"id":6}']


def test_a_tag_is_read_and_shown_among_the_snapshots(calve, ran, ready, spark):
    from calve import declare
    from calve.runtime.session import branch_off

    ran()
    first = json.loads(calve("snapshots", "orders", "-o", "json").out)["snapshots"][1]
    session = branch_off(spark, [declare.load(ready).pipeline("orders").sink.catalog])
    session.sql(f"ALTER TABLE calve.shop.orders CREATE TAG v1 AS OF VERSION {first['id']}").collect()
    assert len(calve("read", "orders", "-n", "50", "-o", "json", "--as-of", "v1").out.splitlines()) == 10
    told = json.loads(calve("snapshots", "orders", "-o", "json").out)["snapshots"]
    assert [one["refs"] for one in told] == [[], ["v1"], [], ["main"]]


def test_columns_are_those_of_now_unless_an_earlier_state_is_asked_for(calve, ran, ready, spark):
    from calve import declare
    from calve.runtime.session import branch_off

    ran()
    session = branch_off(spark, [declare.load(ready).pipeline("orders").sink.catalog])
    session.sql("ALTER TABLE calve.shop.orders RENAME COLUMN note TO remark").collect()
    last = json.loads(calve("snapshots", "orders", "-o", "json").out)["snapshots"][-1]["id"]
    for at, name in (((), "remark"), (("--as-of", str(last)), "note")):
        [row] = calve("read", "orders", "--where", "id = 1", "-o", "json", *at).out.splitlines()
        assert name in json.loads(row)


def test_a_predicate_that_cannot_be_read_is_refused(look):
    ended = look("orders", "--where", "nobody = 1")
    assert ended.code == 78
    assert ended.err.startswith("Cannot read table 'shop.orders': ")
