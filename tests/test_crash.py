import json
import os
import signal
import subprocess
import sys

import pytest

from calve import crash
from calve.crash import Crash, Fault


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


def test_a_point_is_inert_without_a_plan():
    crash.point("commit.applied")
    assert crash.fired() == ()


def test_the_nth_time_a_point_is_reached_its_fault_fires_once():
    crash.load((Fault("commit.applied", nth=2),))
    crash.point("commit.applied")
    with pytest.raises(Crash, match=r"commit\.applied"):
        crash.point("commit.applied")
    crash.point("commit.applied")
    assert crash.fired() == (Fault("commit.applied", nth=2),)


def test_a_fault_at_an_unknown_point_cannot_be_planned():
    with pytest.raises(ValueError, match="no such crash point"):
        Fault("commit.aplied")


def test_there_are_at_least_twelve_points():
    assert len(set(crash.POINTS)) == len(crash.POINTS) >= 12


@pytest.mark.parametrize(("action", "number"), [("kill", signal.SIGKILL), ("term", signal.SIGTERM)])
def test_a_planned_signal_ends_the_process_and_leaves_a_trace(tmp_path, action, number):
    plan = [{"point": "stage.after", "nth": 1, "action": action, "seed": 5}]
    trace = tmp_path / "trace"
    environment = {**os.environ, "CALVE_CRASH_PLAN": json.dumps(plan), "CALVE_CRASH_TRACE": str(trace)}
    code = "from calve import crash; crash.load_environment(); crash.point('stage.after')"
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == -number
    assert json.loads(trace.read_text())["point"] == "stage.after"


def test_a_plan_may_come_from_a_file(tmp_path, monkeypatch):
    plan = tmp_path / "plan.json"
    plan.write_text('[{"point": "plan.before"}]')
    monkeypatch.setenv("CALVE_CRASH_PLAN", str(plan))
    crash.load_environment()
    with pytest.raises(Crash):
        crash.point("plan.before")
