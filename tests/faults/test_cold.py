"""Real processes, killed for real."""

from __future__ import annotations

import shutil
import signal

import pytest

from calve import crash
from tests.faults import evidence
from tests.faults.chain import Chain
from tests.faults.kinds import KINDS
from tests.faults.process import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

IN_TIME = ("fence.swapped", "stage.after", "commit.applied", "commit.swapped", "acknowledge.before")


def killed_at_every_point(stream, points):
    """Each life of the pipeline is killed at the next point; the last one ends by itself."""
    chain = Chain(stream)
    for point in points:
        chain.kill_at(point, nth=1 if point.startswith(("start", "fence")) else 2)
    chain.end()


def test_a_run_that_is_killed_around_the_commit_writes_every_row_once(stream):
    killed_at_every_point(stream(), IN_TIME)


@pytest.mark.full
def test_a_run_that_is_killed_at_every_point_in_turn_writes_every_row_once(stream):
    killed_at_every_point(stream(), crash.POINTS)


@pytest.mark.rest
def test_a_run_on_a_rest_catalog_that_is_killed_around_the_swap_writes_every_row_once(stream, rest_catalog):
    killed_at_every_point(stream(rest=rest_catalog), ("commit.applied", "commit.swapped"))


@pytest.mark.full
@pytest.mark.rest
def test_a_run_on_a_rest_catalog_that_is_killed_at_every_point_writes_every_row_once(stream, rest_catalog):
    killed_at_every_point(stream(rest=rest_catalog), crash.POINTS)


@pytest.mark.full
def test_a_run_on_files_that_is_killed_at_every_point_writes_every_row_once(inbox):
    killed_at_every_point(inbox, crash.POINTS)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS[:3], ids=lambda kind: kind.name)
def test_upserts_that_are_killed_at_every_point_bring_nothing_back(stream, kind):
    killed_at_every_point(stream(kind=kind), crash.POINTS)


def test_upserts_that_are_killed_around_the_commit_bring_nothing_back(stream):
    killed_at_every_point(stream(kind=KINDS[0]), ("stage.after", "commit.swapped"))


def test_local_state_is_disposable_also_after_compaction_and_expiry(stream, spark):
    one = stream()
    for _ in range(2):
        one.produce(60)
        code, said = one.calve.run("run", "--once")
        assert code == 0, said
        shutil.rmtree(one.calve.folder / ".calve")
    compact_and_expire(spark, one)
    one.produce(60)
    code, said = one.calve.run("run", "--once")
    assert code == 0, said
    one.check()


def compact_and_expire(spark, stream):
    from calve import declare
    from tests.lake import Lake

    project = declare.load(stream.calve.folder)
    lake = Lake.open(spark, project.pipeline("events").sink.catalog)
    lake.call("rewrite_data_files", table=f"'{stream.table}'", options="map('rewrite-all', 'true')")
    lake.call(
        "expire_snapshots", table=f"'{stream.table}'", older_than="TIMESTAMP '2100-01-01'", retain_last="1"
    )


def test_a_second_run_makes_the_first_exit_with_80(stream):
    one = stream()
    one.produce(50)
    first = one.calve.start("run")
    wait_for(lambda: (table := one.load()) and len(table.snapshots()) > 1, "the first commit")
    second = one.calve.start("run")
    wait_for(lambda: evidence.marks(one.load(), "events")[-1]["epoch"] == 2, "the second epoch")
    one.produce(50)
    assert first.wait(60) == 80
    assert "another process runs it" in first.stderr.read()
    wait_for(lambda: len(evidence.values(one.load(), "id")) == 100, "the rows of the second")
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    one.check()


def test_a_process_that_was_stopped_before_its_swap_writes_nothing_when_it_goes_on(stream):
    one = stream()
    one.produce(50)
    paused = one.calve.start("run", fault={"point": "commit.applied", "nth": 1, "action": "stop"})
    wait_for(lambda: one.calve.fired() == ["commit.applied"], "the stop")
    code, said = one.calve.run("run", "--once")
    assert code == 0, said
    before = one.load().metadata_location
    paused.send_signal(signal.SIGCONT)
    assert paused.wait(60) == 80
    assert one.load().metadata_location == before
    one.check()


def test_a_broker_that_goes_away_is_waited_for(stream, kafka):
    one = stream()
    one.produce(50)
    running = one.calve.start("run")
    wait_for(lambda: (table := one.load()) and len(table.snapshots()) > 1, "the first commit")
    kafka.stop()
    try:
        wait_for(lambda: "trying again" in one.calve.status("events")["message"], "the notice")
    finally:
        kafka.start()
    one.produce(50)
    wait_for(lambda: len(evidence.values(one.load(), "id")) == 100, "the rows after the outage")
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) == 0
    one.check()
