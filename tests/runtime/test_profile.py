"""`calve run --profile`."""

import os
import subprocess
import sys

import pytest

from calve.clock import STEPS, Taken
from calve.project import ResolvedPipeline
from calve.runtime import memory
from calve.runtime.profile import OFF, Batch, Profile, Tasks, report, totals
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources.datagen import DatagenSource
from tests.servers.process import wait_until

TWO = [
    Batch(10, Taken(3.0, {"plan": 0.5, "stage": 2.0}, {"look-up": 1.0})),
    Batch(30, Taken(1.0, {"plan": 0.25, "stage": 0.5})),
]


def test_steps_are_added_up_in_their_order():
    assert totals(TWO) == {"plan": 0.75, "look-up beside": 1.0, "stage": 2.5, "other": 0.75}
    assert [name for name in totals(TWO) if name in STEPS] == ["plan", "stage"]


def test_the_report_tells_shares_of_the_time_and_not_of_what_ran_beside():
    lines = report(TWO, Tasks(), 0)
    assert lines[0] == "  2 batches, 40 rows, 4.00 s; the first 3.00 s, median 2.00 s"
    stage = next(line for line in lines if line.startswith("  stage"))
    assert stage.split()[1:5] == ["2.50", "s", "62.5%", "1.250"]
    beside = next(line for line in lines if line.startswith("  look-up"))
    assert "%" not in beside
    assert "in another thread" in beside


def test_the_report_tells_tasks_and_memory_where_they_are_known():
    told = "\n".join(report(TWO, Tasks(4, 10.0, 3.0, 0.5, 2**21), 3 * 2**20))
    assert "4 tasks of Spark ran 10.00 s" in told
    assert "for 6.50 s it waited" in told
    assert "2 MiB spilled" in told
    assert "At most 3 MiB" in told
    bare = "\n".join(report(TWO, Tasks(), 0))
    assert "tasks" not in bare
    assert "At most" not in bare


def test_no_profile_says_nothing():
    with OFF.watching(None):
        OFF.begin()
        assert OFF.told(1) == {}
    assert OFF.lines() == Profile().lines() == []


def process(proc, pid, parent, pages, name="java"):
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} 1 1")
    (folder / "statm").write_text(f"{pages * 9} {pages} 0")


def test_memory_is_that_of_a_process_and_its_descendants(tmp_path):
    process(tmp_path, 1, 0, 100)
    process(tmp_path, 2, 1, 10)
    process(tmp_path, 3, 2, 20, name="a) S 1 (b")
    process(tmp_path, 4, 3, 30)
    process(tmp_path, 5, 1, 1000)
    assert memory.held(tmp_path, root=2) == 60 * os.sysconf("SC_PAGE_SIZE")


def test_a_process_that_ended_meanwhile_is_passed_over(tmp_path):
    process(tmp_path, 2, 1, 10)
    (tmp_path / "3").mkdir()
    assert memory.held(tmp_path, root=2) == 10 * os.sysconf("SC_PAGE_SIZE")
    assert memory.held(tmp_path / "none", root=2) == 0


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_the_peak_holds_what_a_child_held():
    text = "held = bytearray(200 * 2**20); held[::4096] = b'x' * len(held[::4096]); input()"
    with memory.Peak(every=0.01) as peak:
        child = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE)
        try:
            wait_until(lambda: peak.bytes >= 200 * 2**20, "a peak")
        finally:
            child.communicate(b"\n")
    assert peak.bytes >= 200 * 2**20


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_run_tells_where_its_time_went(lake, mode):
    keys = {"commit_mode": "upsert", "key_fields": ["id"]} if mode == "upsert" else {}
    place = {"catalog": lake.declaration, "namespace": "shop", "table": "orders"}
    sink = IcebergSink.model_validate({**place, **keys, "batch_size": 100, "max_batch_size": 100})
    declared = ResolvedPipeline("orders", DatagenSource(rows=300), sink, (), "orders", True)
    told, profile = Report("orders"), Profile()
    Runner(declared, lake.spark, Stop(), told, True, (), profile).run()
    assert [one.rows for one in profile.batches] == [100, 100, 100]
    expected = {"plan", "transform", "evolve", "stage", "commit", "after", "other"}
    expected |= {"read", "dedupe", "look-up beside"} if mode == "upsert" else set()
    assert expected <= set(told.status.profile)
    for one in profile.batches:
        assert 0 < sum(one.taken.steps.values()) <= one.taken.wall
    assert profile.tasks.tasks > 0
    assert profile.tasks.run > 0
    assert told.status.peak_memory > 0
    assert profile.lines()


@pytest.mark.spark
def test_without_a_profile_the_status_has_none(lake):
    place = {"catalog": lake.declaration, "namespace": "shop", "table": "orders"}
    declared = ResolvedPipeline(
        "orders", DatagenSource(rows=10), IcebergSink.model_validate(place), (), "orders", True
    )
    told = Report("orders")
    Runner(declared, lake.spark, Stop(), told, True).run()
    assert (told.status.profile, told.status.peak_memory) == ({}, 0)
