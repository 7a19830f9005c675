import json
import subprocess
import sys
import time

import pytest

from calve.runtime.report import Report


@pytest.fixture
def report(project):
    return Report("orders", project.parent / ".calve" / "status")


def row(ended):
    return ended.out.splitlines()[1].split()


def test_a_pipeline_that_never_ran_is_told(calve, project):
    ended = calve("status")
    assert (ended.code, row(ended)) == (0, ["orders", "never", "run"])
    assert json.loads(calve("status", "-o", "json").out) == [{"pipeline": "orders", "state": "never run"}]


def test_a_running_pipeline_is_told(calve, report):
    report.update(
        state="running",
        table="shop.orders",
        epoch=3,
        rows=12345,
        batches=4,
        waiting=7,
        last_commit=time.time() - 65,
    )
    assert row(calve("status")) == [
        "orders",
        "shop.orders",
        "running",
        "12,345",
        "4",
        "7",
        "3",
        "1",
        "min",
        "ago",
    ]


@pytest.mark.parametrize("state", ["starting", "running"])
def test_a_process_that_is_gone_has_died(calve, report, state):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    report.update(state=state, pid=gone.pid)
    assert json.loads(calve("status", "-o", "json").out)[0]["state"] == "died"


def test_a_process_of_another_user_is_alive(calve, report, monkeypatch):
    def refuse(pid, signal):
        raise PermissionError

    report.update(state="running")
    monkeypatch.setattr("os.kill", refuse)
    assert json.loads(calve("status", "-o", "json").out)[0]["state"] == "running"


def test_a_finished_run_keeps_its_state_and_message(calve, report):
    report.update(state="failed", pid=1, message="Cannot go on", waiting=5)
    ended = calve("status")
    assert "failed" in ended.out
    assert ended.out.rstrip().endswith("Cannot go on")


def test_pipelines_that_are_no_longer_declared_are_left_out(calve, project):
    Report("gone", project.parent / ".calve" / "status").update(state="done")
    assert [one["pipeline"] for one in json.loads(calve("status", "-o", "json").out)] == ["orders"]


def test_an_unreadable_status_is_as_good_as_none(calve, report):
    report.update(state="done")
    file = next((report._file.parent).glob("*.json"))
    file.write_text("{")
    assert row(calve("status")) == ["orders", "never", "run"]
    file.write_text('{"pipeline": "orders", "of another version": 1}')
    assert row(calve("status")) == ["orders", "never", "run"]
