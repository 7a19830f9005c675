from dataclasses import dataclass, field, replace

import pytest

from calve import crash, position
from calve.crash import Crash, Fault
from calve.errors import (
    CalveError,
    ConfigurationError,
    DataRefused,
    Fenced,
    Moved,
    Outdated,
    StartRefused,
    Unavailable,
)
from calve.iceberg import swap
from calve.iceberg.stage import Staged
from calve.position import parse, property_name

SOURCE = "kafka:cluster"
START = {"row": 0}


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


@pytest.fixture
def table(lake):
    return lake.table()


def commit(lake, committer, ids, row):
    return committer.commit(lake.staged(committer.table, ids), {"row": row})


def mark_of(table, sink_id="orders", branch="main"):
    return parse(table.refresh().property(property_name(sink_id, branch)))


def test_rows_and_position_come_in_one_commit(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    before = len(table.refresh().snapshots())
    mark = commit(lake, writer, [1, 2], 2)
    snapshots = table.refresh().snapshots()
    assert lake.ids(table) == [1, 2]
    assert mark_of(table) == mark
    assert mark.position == {"row": 2}
    assert len(snapshots) == before + 1
    assert snapshots[-1].summary[position.SUMMARY_COMMIT] == mark.commit
    assert snapshots[-1].summary[position.SUMMARY_DIGEST] == mark.digest()


def test_the_fence_is_an_empty_snapshot_that_keeps_the_position(lake, table):
    first = lake.committer(table)
    first.fence(SOURCE, START)
    commit(lake, first, [1], 1)
    second = lake.committer(table).fence(SOURCE, START)
    assert second.position == {"row": 1}
    assert second.epoch == 2
    assert lake.ids(table) == [1]


def test_an_older_writer_is_refused_inside_its_own_commit(lake, table):
    old = lake.committer(table)
    old.fence(SOURCE, START)
    staged = lake.staged(old.table, [1])
    new = lake.committer(table)
    new.fence(SOURCE, START)
    with pytest.raises(Fenced, match="holds epoch 1 and the table has epoch 2") as caught:
        old.commit(staged, {"row": 1})
    assert caught.value.exit_code == 80
    commit(lake, new, [1], 1)
    assert lake.ids(table) == [1]


def test_a_fence_between_apply_and_swap_stops_the_older_writer(lake, table, monkeypatch):
    old = lake.committer(table)
    old.fence(SOURCE, START)
    staged = lake.staged(old.table, [1])

    def overtake(name):
        if name == "commit.applied":
            monkeypatch.undo()
            lake.committer(table).fence(SOURCE, START)

    monkeypatch.setattr(crash, "point", overtake)
    with pytest.raises(Fenced):
        old.commit(staged, {"row": 1})
    assert lake.ids(table) == []


def test_a_foreign_append_between_apply_and_swap_costs_a_second_attempt_and_nothing_else(
    lake, table, monkeypatch
):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    staged = lake.staged(writer.table, [1])

    def interfere(name):
        if name == "commit.applied":
            monkeypatch.undo()
            lake.rows([100]).writeTo(table.name.sql()).append()

    monkeypatch.setattr(crash, "point", interfere)
    writer.commit(staged, {"row": 1})
    assert lake.ids(table) == [1, 100]
    assert mark_of(table).position == {"row": 1}


def test_a_foreign_property_change_survives_our_commit(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    staged = lake.staged(writer.table, [1])
    lake.spark.sql(f"ALTER TABLE {table.name.sql()} SET TBLPROPERTIES ('team' = 'them')")
    writer.commit(staged, {"row": 1})
    assert table.refresh().property("team") == "them"


def test_a_commit_that_landed_unseen_is_not_repeated(lake, table, monkeypatch):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    staged = lake.staged(writer.table, [1])

    def lose_the_answer(name):
        if name == "commit.swapped":
            monkeypatch.undo()
            from calve.errors import Conflict

            raise Conflict("Cannot commit: a proxy answered 409 although the swap took place")

    monkeypatch.setattr(crash, "point", lose_the_answer)
    mark = writer.commit(staged, {"row": 1})
    assert lake.ids(table) == [1]
    assert mark_of(table) == mark


@pytest.mark.parametrize("point", ["commit.before", "commit.applied", "commit.swapped", "commit.confirmed"])
def test_a_crash_at_any_point_of_the_commit_leaves_rows_and_position_together(lake, table, point):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    staged = lake.staged(writer.table, [1])
    crash.load((Fault(point),))
    with pytest.raises(Crash):
        writer.commit(staged, {"row": 1})
    landed = mark_of(table).position == {"row": 1}
    assert lake.ids(table) == ([1] if landed else [])
    assert landed == (point in ("commit.swapped", "commit.confirmed"))


@pytest.mark.parametrize("point", ["start.before_fence", "fence.applied", "fence.swapped"])
def test_a_crash_in_the_fence_does_not_keep_the_next_start_out(lake, table, point):
    crash.load((Fault(point),))
    with pytest.raises(Crash):
        lake.committer(table).fence(SOURCE, START)
    crash.load(())
    writer = lake.committer(table)
    assert writer.fence(SOURCE, START).epoch == (2 if point == "fence.swapped" else 1)
    commit(lake, writer, [1], 1)
    assert lake.ids(table) == [1]


def test_the_mark_survives_compaction_and_expiry(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    for number in range(1, 4):
        commit(lake, writer, [number], number)
    name = f"'{table.name}'"
    lake.call("rewrite_data_files", table=name, options="map('rewrite-all', 'true')")
    lake.call("expire_snapshots", table=name, older_than="TIMESTAMP '2100-01-01'", retain_last="1")
    assert not any(position.SUMMARY_COMMIT in s.summary for s in table.refresh().snapshots())
    again = lake.committer(table)
    assert again.fence(SOURCE, START).position == {"row": 3}
    commit(lake, again, [4], 4)
    assert lake.ids(table) == [1, 2, 3, 4]


def test_a_writer_goes_on_when_the_table_is_compacted_and_expired_under_it(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    commit(lake, writer, [1], 1)
    name = f"'{table.name}'"
    lake.call("rewrite_data_files", table=name, options="map('rewrite-all', 'true')")
    lake.call("expire_snapshots", table=name, older_than="TIMESTAMP '2100-01-01'", retain_last="1")
    commit(lake, writer, [2], 2)
    assert lake.ids(table) == [1, 2]


def roll_back(lake, table):
    first = table.refresh().snapshots()[0].id
    lake.call("rollback_to_snapshot", table=f"'{table.name}'", snapshot_id=str(first))


def test_a_rolled_back_table_is_refused_at_the_start_with_the_command_that_decides(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    commit(lake, writer, [1], 1)
    roll_back(lake, table)
    with pytest.raises(StartRefused, match="was rolled back") as caught:
        lake.committer(table).fence(SOURCE, START)
    assert caught.value.command == "calve repair --accept-rollback"


def test_a_roll_back_under_a_running_writer_stops_it(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    commit(lake, writer, [1], 1)
    roll_back(lake, table)
    with pytest.raises(StartRefused, match="was rolled back"):
        commit(lake, writer, [2], 2)
    assert lake.ids(table) == []


def test_another_source_is_refused(lake, table):
    lake.committer(table).fence(SOURCE, START)
    with pytest.raises(StartRefused, match="from 'kafka:cluster' and the declaration names 'kafka:other'"):
        lake.committer(table).fence("kafka:other", START)


def test_a_renamed_pipeline_is_refused(lake, table):
    lake.committer(table).fence(SOURCE, START)
    with pytest.raises(StartRefused, match="sink 'orders' holds a position of the same source"):
        lake.committer(table, sink_id="renamed").fence(SOURCE, START)


def test_two_sinks_of_different_sources_share_a_table(lake, table):
    one, two = lake.committer(table), lake.committer(table, sink_id="returns")
    one.fence(SOURCE, START)
    two.fence("kafka:returns", START)
    commit(lake, one, [1], 1)
    commit(lake, two, [2], 5)
    commit(lake, one, [3], 3)
    assert lake.ids(table) == [1, 2, 3]
    assert mark_of(table, "returns").position == {"row": 5}


def test_a_branch_has_rows_and_a_mark_of_its_own(lake, table):
    main, audit = lake.committer(table), lake.committer(table, branch="audit")
    main.fence(SOURCE, START)
    commit(lake, main, [1], 1)
    audit.fence(SOURCE, START)
    commit(lake, audit, [2], 7)
    assert lake.ids(table) == [1]
    assert lake.ids(table, "audit") == [1, 2]
    assert mark_of(table).position == {"row": 1}
    assert mark_of(table, branch="audit").position == {"row": 7}


def test_a_mark_that_somebody_edited_is_refused(lake, table):
    lake.committer(table).fence(SOURCE, START)
    lake.spark.sql(f"ALTER TABLE {table.name.sql()} SET TBLPROPERTIES ('calve.sink.orders' = 'broken')")
    with pytest.raises(StartRefused, match="not a mark"):
        lake.committer(table).fence(SOURCE, START)


def test_a_mark_that_is_taken_away_fences_the_writer(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    lake.spark.sql(f"ALTER TABLE {table.name.sql()} UNSET TBLPROPERTIES ('calve.sink.orders')")
    with pytest.raises(Fenced, match="no mark at all; somebody removed it"):
        commit(lake, writer, [1], 1)
    with pytest.raises(StartRefused, match=r"it has commits of 'orders' and no table property"):
        lake.committer(table).fence(SOURCE, START)


def test_a_position_too_large_for_a_mark_is_refused(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    with pytest.raises(DataRefused, match="a mark holds 262144"):
        writer.commit(lake.staged(writer.table, [1]), {"seen": "x" * 300_000})
    assert lake.ids(table) == []


def test_a_decision_of_the_operator_is_a_new_epoch_with_its_reason(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    commit(lake, writer, [1], 1)
    roll_back(lake, table)
    shown = mark_of(table)
    decided = lake.committer(table).decide_start("kafka:other", {"row": 40}, "restart at 40", shown)
    assert (decided.epoch, decided.position, decided.source) == (2, {"row": 40}, "kafka:other")
    assert table.refresh().snapshots()[-1].summary["calve.reason"] == "restart at 40"
    again = lake.committer(table)
    assert again.fence("kafka:other", START).position == {"row": 40}


def test_a_dropped_and_recreated_table_is_not_written_by_the_old_writer(lake, table):
    writer = lake.committer(table, retry_for=1)
    writer.fence(SOURCE, START)
    staged = lake.staged(writer.table, [1])
    lake.catalog.drop(table.name)
    fresh = lake.table(table.name)
    with pytest.raises(CalveError, match=r"UUID|dropped and created again"):
        writer.commit(staged, {"row": 1})
    assert lake.ids(fresh) == []


def test_a_branch_that_was_dropped_is_called_that(lake, table):
    writer = lake.committer(table, branch="audit", retry_for=2)
    writer.fence(SOURCE, START)
    lake.spark.sql(f"ALTER TABLE {table.name.sql()} DROP BRANCH audit")
    for attempt in (
        lambda: commit(lake, writer, [1], 1),
        lambda: lake.committer(table, branch="audit").fence(SOURCE, START),
    ):
        with pytest.raises(StartRefused, match="branch 'audit' was dropped"):
            attempt()


@dataclass(frozen=True)
class Moving(Staged):
    """Rows whose first attempt is refused, and that cannot be staged again at once."""

    tries: list[str] = field(default_factory=list)

    def update(self, table):
        self.tries.append("attempt")
        if len(self.tries) == 1:
            raise Moved("Cannot commit: the table moved")
        return super().update(table)

    def renewed(self):
        self.tries.append("renewal")
        if len(self.tries) == 2:
            raise Unavailable("the store is away")
        return self


def test_a_store_that_is_away_when_a_batch_is_staged_again_is_waited_for(lake, table):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    made = lake.staged(writer.table, [1])
    staged = Moving(made.files, made.rows, made.bytes)
    assert writer.commit(staged, {"row": 1}).position == {"row": 1}
    assert staged.tries == ["attempt", "renewal", "renewal", "attempt"]
    assert lake.ids(table) == [1]


def test_rows_that_cannot_be_staged_again_are_not_committed_to_a_table_with_other_columns(lake, table):
    writer = lake.committer(table, retry_for=2)
    writer.fence(SOURCE, START)
    staged = lake.staged(writer.table, [1])
    lake.spark.sql(f"ALTER TABLE {table.name.sql()} DROP COLUMN name")
    with pytest.raises(Outdated) as caught:
        writer.commit(staged, {"row": 1})
    assert caught.value.exit_code == 75
    assert lake.ids(table) == []


def write_back(table, text):
    """What a tool does that writes table properties as it read them before our last commits."""
    table.java.updateProperties().set(property_name("orders"), text).commit()


def test_an_older_mark_that_a_tool_wrote_back_is_refused(lake, table):
    first = lake.committer(table)
    first.fence(SOURCE, START)
    commit(lake, first, [1], 1)
    older = table.refresh().property(property_name("orders"))
    second = lake.committer(table)
    second.fence(SOURCE, START)
    commit(lake, second, [2], 2)
    table.refresh()
    write_back(table, older)
    with pytest.raises(StartRefused, match="it differs from what the last commit of 'orders' wrote"):
        lake.committer(table).fence(SOURCE, START)
    # The writer whose mark it is was overtaken long ago.
    with pytest.raises(StartRefused, match=r"that table property 'calve\.sink\.orders' does not tell of"):
        commit(lake, first, [2], 2)
    assert lake.ids(table) == [1, 2]
    decided = lake.committer(table).decide_start(SOURCE, {"row": 2}, "restarted", parse(older))
    assert decided.epoch == 3


def test_a_commit_that_landed_without_its_mark_is_not_attempted_again(lake, table, monkeypatch):
    writer = lake.committer(table)
    writer.fence(SOURCE, START)
    real = swap._swap

    def drop_the_mark(table, base, snapshot, change, mark):
        real(table, base, snapshot, replace(change, property="other"), mark)

    monkeypatch.setattr(swap, "_swap", drop_the_mark)
    with pytest.raises(StartRefused) as caught:
        commit(lake, writer, [1], 1)
    assert caught.value.command == """calve repair --restart-from '{"row":1}'"""
    assert lake.ids(table) == [1]


def test_a_mark_of_a_newer_version_is_refused_and_not_repaired(lake, table):
    lake.committer(table).fence(SOURCE, START)
    text = table.refresh().property(property_name("orders"))
    write_back(table, text.replace('"version":1', '"version":9'))
    with pytest.raises(ConfigurationError, match="a newer version of Calve wrote the mark"):
        lake.committer(table).fence(SOURCE, START)
    with pytest.raises(ConfigurationError, match="a newer version"):
        lake.committer(table).decide_start(SOURCE, START, "restarted", None)
