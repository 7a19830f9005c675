"""Our commit, cut in phases, and what others do to the table in between: every pair."""

from __future__ import annotations

import pytest

from calve import crash
from calve.errors import CalveError, Fenced, StartRefused

pytestmark = pytest.mark.spark

SOURCE = "kafka:cluster"
PHASES = ("commit.before", "commit.applied", "commit.swapped")


def second_writer(lake, table):
    other = lake.committer(table)
    mark = other.fence(SOURCE, {"row": 0})
    if mark.position == {"row": 1}:
        other.commit(lake.staged(other.table, [2]), {"row": 2})


def compaction(lake, table):
    lake.call("rewrite_data_files", table=f"'{table.name}'", options="map('rewrite-all', 'true')")


def expiry(lake, table):
    now = "TIMESTAMP '2100-01-01'"
    lake.call("expire_snapshots", table=f"'{table.name}'", older_than=now, retain_last="1")


def orphan_removal(lake, table):
    lake.call("remove_orphan_files", table=f"'{table.name}'")


def schema_change(lake, table):
    lake.spark.sql(f"ALTER TABLE {table.name.sql()} ADD COLUMN extra STRING")


def foreign_append(lake, table):
    lake.rows([100]).writeTo(table.name.sql()).append()


def roll_back(lake, table):
    first = table.refresh().snapshots()[0].id
    lake.call("rollback_to_snapshot", table=f"'{table.name}'", snapshot_id=str(first))


def recreation(lake, table):
    lake.catalog.drop(table.name)
    lake.table(table.name)


GOES_ON = (compaction, expiry, orphan_removal, schema_change, foreign_append)
STOPS = {second_writer: Fenced, roll_back: StartRefused, recreation: CalveError}


@pytest.fixture
def cut(lake, monkeypatch):
    """A table with one commit, and a second commit that meets `other` at `phase`."""
    table = lake.table()
    writer = lake.committer(table, retry_for=2)
    writer.fence(SOURCE, {"row": 0})
    writer.commit(lake.staged(writer.table, [1]), {"row": 1})
    staged = lake.staged(writer.table, [2])

    def run(phase, other):
        def interfere(name):
            if name == phase:
                monkeypatch.undo()
                other(lake, table)

        monkeypatch.setattr(crash, "point", interfere)
        return writer.commit(staged, {"row": 2})

    return table, run


@pytest.mark.parametrize("other", GOES_ON, ids=lambda one: one.__name__)
@pytest.mark.parametrize("phase", PHASES)
def test_what_does_not_concern_us_costs_an_attempt_at_the_most(lake, cut, phase, other):
    table, run = cut
    assert run(phase, other).position == {"row": 2}
    assert [number for number in lake.ids(table) if number < 100] == [1, 2]
    assert lake.committer(table).fence(SOURCE, {"row": 0}).position == {"row": 2}


@pytest.mark.parametrize("other", STOPS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("phase", ["commit.before", "commit.applied"])
def test_what_takes_the_table_from_us_stops_the_commit(lake, cut, phase, other):
    table, run = cut
    with pytest.raises(STOPS[other]):
        run(phase, other)
    expected = {second_writer: [1, 2], roll_back: [], recreation: []}[other]
    assert lake.ids(lake.catalog.load(table.name)) == expected


def test_a_second_writer_that_comes_after_our_swap_begins_behind_it(lake, cut):
    table, run = cut
    with pytest.raises(Fenced):
        run("commit.swapped", second_writer)
    assert lake.ids(table) == [1, 2]
    assert lake.committer(table).fence(SOURCE, {"row": 0}).position == {"row": 2}


def test_a_branch_that_is_moved_under_our_commit_stops_it(lake, monkeypatch):
    table, branch = lake.table(), "audit"
    writer = lake.committer(table, branch=branch, retry_for=2)
    writer.fence(SOURCE, {"row": 0})
    first = table.refresh().head(branch).snapshotId()
    writer.commit(lake.staged(writer.table, [1]), {"row": 1})

    def interfere(name):
        if name == "commit.applied":
            monkeypatch.undo()
            lake.spark.sql(f"ALTER TABLE {table.name.sql()} REPLACE BRANCH {branch} AS OF VERSION {first}")

    monkeypatch.setattr(crash, "point", interfere)
    with pytest.raises(StartRefused):
        writer.commit(lake.staged(writer.table, [2]), {"row": 2})
    assert lake.ids(table, branch) == []
