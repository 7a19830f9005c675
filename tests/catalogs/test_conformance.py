"""What every catalog and store must do for a pipeline, tried in all of them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from calve import crash
from calve.crash import Crash, Fault
from calve.errors import Fenced
from calve.iceberg import swap
from calve.runtime.check import check_sink
from calve.sources.datagen import DatagenSource
from calve.testing.catalog import FaultyCatalog
from calve.testing.faults import CatalogFault
from tests.catalogs.lab import Lab
from tests.faults.kinds import BATCH, KINDS
from tests.script import Batch, ScriptSource

pytestmark = pytest.mark.spark

FIELDS = {
    "id": "sequence",
    "region": {"type": "choice", "values": ["eu", "us"]},
    "ordered": {"type": "timestamp", "start": "2026-01-01T22:00:00", "step": "1h"},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "none": {},
    "identity": {"partitioning": "identity", "partition_fields": ["region"]},
    "bucket": {"partitioning": "bucket", "partition_fields": ["id"], "num_buckets": 2},
    "time": {"partitioning": "time", "partition_fields": ["ordered"], "time_granularity": "day"},
    "fields": {"partition_by": ["month(ordered)", "truncate(1, region)", "bucket(2, id)"]},
}


def first_and_full(*values: Any) -> list[Any]:
    """Parameters of a test of which `make test` tries the first in every place, and `make test-all` all."""
    return [values[0], *(pytest.param(value, marks=pytest.mark.full) for value in values[1:])]


def upto(number: int) -> list[int]:
    return list(range(1, number + 1))


def numbers(rows: int) -> DatagenSource:
    """The rows 1, 2, 3 …"""
    return DatagenSource(rows=rows, fields=FIELDS)


def in_batches(lab: Lab, **keys: Any) -> Any:
    return lab.sink(batch_size=1, max_batch_size=BATCH, **keys)


def test_a_namespace_and_a_table_of_every_partition_strategy_are_created(lab: Lab) -> None:
    namespace = lab.sink().namespace
    for strategy, keys in STRATEGIES.items():
        sink = lab.sink(**keys, namespace=namespace, table=f"t_{strategy}")
        lab.run(sink, numbers(6))
        table = lab.table(sink)
        assert table.metadata().partition() == tuple(sink.partition_fields_declared() or ()), strategy
        assert lab.rows(table, "id") == upto(6), strategy
    assert lab.lake.catalog.has_namespace([namespace])
    assert len(lab.lake.catalog.tables([namespace])) == len(STRATEGIES)


def test_check_finds_nothing_wrong(lab: Lab) -> None:
    sink = lab.sink()
    found = check_sink(lab.spark, "lake", sink)
    assert found.error is None, found.steps
    assert not lab.lake.catalog.has_table(lab.name(sink))


def test_rows_are_appended_once_and_every_commit_is_a_snapshot(lab: Lab) -> None:
    sink = in_batches(lab)
    status = lab.run(sink, numbers(3 * BATCH))
    table = lab.table(sink)
    assert lab.rows(table, "id") == upto(3 * BATCH)
    assert status.batches == 3
    assert len(table.metadata().snapshots()) == 1 + 3


@pytest.mark.parametrize("kind", first_and_full(KINDS[0], KINDS[1], KINDS[3]), ids=lambda kind: kind.name)
def test_changes_leave_what_a_fold_of_them_does(lab: Lab, kind: Any) -> None:
    sink = in_batches(lab, **kind.keys)
    lab.run(sink, DatagenSource(rows=3 * BATCH), kind.transforms())
    assert lab.rows(lab.table(sink), *kind.columns) == kind.expected(3 * BATCH)


def test_a_table_follows_its_rows(lab: Lab) -> None:
    before = Batch("id INT NOT NULL, name STRING", [(1, "a")])
    after = Batch("id BIGINT NOT NULL, name STRING, amount DOUBLE", [(2**40, "b", 0.5)])
    sink = in_batches(lab)
    lab.run(sink, ScriptSource(batches=[before, after]))
    table = lab.table(sink)
    assert table.metadata().schema().names == ("id", "name", "amount")
    assert lab.rows(table, "id", "name", "amount") == [(1, "a", None), (2**40, "b", 0.5)]


def test_a_commit_of_another_writer_in_between_costs_an_attempt_and_loses_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lab.created()
    committer = lab.committer(table)
    committer.fence("source", {"row": 0})
    (staged,) = lab.staged(table, 1)
    attempts = overtaken_once(monkeypatch, lambda: lab.lake.rows([7]).writeTo(table.name.sql()).append())
    committer.commit(staged, {"row": 1})
    assert len(attempts) == 2
    assert lab.rows(table, "id") == [1, 7]


def overtaken_once(monkeypatch: pytest.MonkeyPatch, other: Any) -> list[int]:
    """Let `other` commit between the base that the first attempt has seen and its swap."""
    real, attempts = swap._swap, []

    def late(*arguments: Any) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            other()
        real(*arguments)

    monkeypatch.setattr(swap, "_swap", late)
    return attempts


@pytest.mark.parametrize("commits", first_and_full(5, 20))
def test_two_writers_lose_no_commit(lab: Lab, commits: int) -> None:
    table = lab.created()
    batches = {
        "one": lab.staged(table, 1, commits),
        "two": lab.staged(table, commits + 1, commits),
    }
    failed: list[BaseException] = []

    def write(sink_id: str) -> None:
        try:
            committer = lab.committer(table, sink_id)
            committer.fence(sink_id, {"row": 0})
            for number, staged in enumerate(batches[sink_id], 1):
                committer.commit(staged, {"row": number})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(sink_id,)) for sink_id in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert lab.rows(table, "id") == upto(2 * commits)
    metadata = lab.lake.catalog.load(table.name).metadata()
    positions = [metadata.mark(f"calve.sink.{sink_id}").position for sink_id in batches]
    assert positions == [{"row": commits}, {"row": commits}]


def test_a_second_starter_fences_the_first(lab: Lab) -> None:
    table = lab.created()
    first, second = lab.committer(table), lab.committer(table)
    staged = [lab.staged(table, number)[0] for number in (1, 2, 3)]
    first.fence("source", {"row": 0})
    first.commit(staged[0], {"row": 1})
    assert second.fence("source", {"row": 0}).position == {"row": 1}
    with pytest.raises(Fenced) as caught:
        first.commit(staged[1], {"row": 2})
    assert caught.value.exit_code == 80
    second.commit(staged[2], {"row": 2})
    assert lab.rows(table, "id") == [1, 3]


@pytest.mark.parametrize("point", first_and_full("commit.swapped", "stage.after"))
def test_a_crash_around_a_commit_and_a_new_start_give_every_row_once(lab: Lab, point: str) -> None:
    sink = in_batches(lab)
    crash.load((Fault(point, nth=2),))
    with pytest.raises(Crash):
        lab.run(sink, numbers(3 * BATCH))
    crash.load(())
    lab.run(sink, numbers(3 * BATCH))
    assert lab.rows(lab.table(sink), "id") == upto(3 * BATCH)


@pytest.mark.parametrize("action", first_and_full("apply_504", "conflict_landed", "fail_503"))
def test_a_lost_answer_to_a_commit_loses_and_doubles_nothing(
    lab: Lab, faulty: FaultyCatalog, behind: Lab, action: str
) -> None:
    sink = in_batches(behind)
    faulty.load([CatalogFault("catalog.commit", 2, action)])
    behind.run(sink, numbers(2 * BATCH))
    assert faulty.unfired == ()
    assert lab.rows(lab.table(sink), "id") == upto(2 * BATCH)


def test_a_run_without_any_state_of_its_own_goes_on_where_the_table_says(lab: Lab) -> None:
    sink = in_batches(lab)
    lab.run(sink, numbers(BATCH))
    again = lab.run(sink, numbers(2 * BATCH))
    assert (again.rows, again.epoch) == (BATCH, 2)
    assert lab.rows(lab.table(sink), "id") == upto(2 * BATCH)
    file = lab.table(sink).metadata().file
    assert lab.run(sink, numbers(2 * BATCH), once=True).batches == 0
    assert lab.table(sink).metadata().file == file


def test_the_table_can_be_read_as_it_was(lab: Lab) -> None:
    sink = in_batches(lab)
    lab.run(sink, numbers(3 * BATCH))
    table = lab.table(sink)
    fence, *commits = table.metadata().snapshots()
    assert lab.rows(table, "id", version=fence.id) == []
    for number, snapshot in enumerate(commits, 1):
        assert lab.rows(table, "id", version=snapshot.id) == upto(number * BATCH)


def test_a_table_that_was_dropped_is_gone_and_can_be_made_again(lab: Lab) -> None:
    sink = in_batches(lab)
    lab.run(sink, numbers(BATCH))
    uuid = lab.table(sink).metadata().uuid
    lab.lake.catalog.drop(lab.name(sink))
    assert not lab.lake.catalog.has_table(lab.name(sink))
    lab.run(sink, numbers(BATCH))
    assert lab.table(sink).metadata().uuid != uuid
    assert lab.rows(lab.table(sink), "id") == upto(BATCH)
