"""`calve changes` and `calve diff`: what is between two snapshots."""

import json

import pytest


@pytest.fixture
def look(calve, finished, kept):
    """A verb in a project that has run: a fence and three snapshots of ten rows each."""
    return lambda *arguments: calve(*arguments, "--config", str(finished))


@pytest.fixture
def ids(look):
    told = json.loads(look("snapshots", "orders", "-o", "json").out)["snapshots"]
    return [str(one["id"]) for one in told]


def test_by_default_the_newest_snapshot_tells_its_changes(look, ids):
    rows = [json.loads(line) for line in look("changes", "orders", "-o", "json", "-n", "50").out.splitlines()]
    assert sorted(row["id"] for row in rows) == list(range(21, 31))
    assert {row["_change_type"] for row in rows} == {"insert"}
    assert {str(row["_commit_snapshot_id"]) for row in rows} == {ids[-1]}


def test_changes_between_two_snapshots_in_columns(look, ids):
    ended = look("changes", "orders", "--from", ids[0], "--to", ids[2], "--column", "id", "--where", "id > 5")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["id", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
    assert sorted(int(line.split()[0]) for line in lines[1:]) == list(range(6, 21))


def test_that_there_are_more_changes_is_a_message(look, ids):
    ended = look("changes", "orders", "--from", ids[0], "-n", "2")
    assert ended.err == "These are 2 changes of more; --limit shows others\n"


def test_the_other_way_round_there_is_no_way(look, ids):
    ended = look("changes", "orders", "--from", ids[2], "--to", ids[1])
    assert ended.code == 64
    assert ended.err.startswith("Cannot tell what changed in table 'shop.orders' from snapshot")


def test_a_difference_has_columns_files_and_rows(look, ids):
    value = json.loads(look("diff", "orders", ids[1], ids[3], "-o", "json", "-n", "3").out)
    assert (value["table"], str(value["from"]), str(value["to"])) == ("shop.orders", ids[1], ids[3])
    assert value["columns"] == []
    assert value["rows"] == {"inserted": 20, "updated": 0, "deleted": 0}
    assert value["files"]["added"]
    assert (value["files"]["removed"], value["files"]["changed"]) == ([], [])
    assert len(value["changes"]) == 3


def test_a_difference_goes_both_ways(look, ids):
    value = json.loads(look("diff", "orders", ids[3], ids[1], "-o", "json").out)
    assert value["rows"] == {"inserted": 0, "updated": 0, "deleted": 20}
    assert value["files"]["removed"]


def test_a_difference_as_text(look, ids):
    ended = look("diff", "orders", ids[2], "main", "-n", "1")
    lines = ended.out.splitlines()
    assert lines[0] == f"shop.orders: from {ids[2]} to {ids[3]}"
    assert lines[1].split() == ["columns", "the", "same"]
    assert lines[3].split(maxsplit=1) == ["rows", "10 inserted, 0 updated, 0 deleted"]
    assert lines[5].split() == ["id", "note", "amount", "at", "_change_type"]
    assert ended.err == "These are 1 rows of more; --limit shows others\n"


def test_nothing_differs_from_itself(look, ids):
    ended = look("diff", "orders", ids[2], ids[2])
    assert ended.out.splitlines() == [f"shop.orders: from {ids[2]} to {ids[2]}", "  nothing differs"]


def test_changed_columns_and_updated_rows_are_told(calve, ran, ready, spark):
    from calve import declare
    from calve.runtime.session import branch_off

    ran()
    before = json.loads(calve("snapshots", "orders", "-o", "json").out)["snapshots"][-1]["id"]
    session = branch_off(spark, [declare.load(ready).pipeline("orders").sink.catalog])
    session.sql("ALTER TABLE calve.shop.orders ADD COLUMN extra STRING").collect()
    session.sql("UPDATE calve.shop.orders SET note = 'new' WHERE id = 1").collect()
    value = json.loads(calve("diff", "orders", str(before), "main", "--key", "id", "-o", "json").out)
    assert [one["change"] for one in value["columns"]] == ["add_column"]
    assert value["rows"] == {"inserted": 0, "updated": 1, "deleted": 0}
    assert {row["_change_type"] for row in value["changes"]} == {"update_before", "update_after"}


@pytest.mark.parametrize(
    "verb", [("changes", "orders", "--to"), ("diff", "orders", "main"), ("read", "orders", "--as-of")]
)
@pytest.mark.parametrize(
    ("at", "message"),
    [
        (
            "7",
            "Cannot read table 'shop.orders' at snapshot 7: it has no such snapshot, or it was expired; the ",
        ),
        (
            "2999-01-01",
            "Cannot read table 'shop.orders' at 2999-01-01 00:00:00.000 UTC: that is in the future",
        ),
        (
            "2000-01-01",
            "Cannot read table 'shop.orders' at 2000-01-01 00:00:00.000 UTC: its history begins at ",
        ),
        ("mian", "Cannot read table 'shop.orders' at 'mian': it is no snapshot's id, "),
    ],
)
def test_states_that_are_not_there_are_refused_with_64(look, verb, at, message):
    ended = look(*verb, at)
    assert (ended.code, ended.out) == (64, "")
    assert ended.err.startswith(message)
    assert ended.err.count("\n") == 1
