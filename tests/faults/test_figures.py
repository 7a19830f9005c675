"""The figures are those of what happened, and a run in which too little happened fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from calve import crash
from calve.testing.faults import CatalogFault, Schedule
from calve.verify import rows
from tests.faults import figures
from tests.faults.chain import recoveries
from tests.faults.figures import FIRED, KILLS, LOST, PLANNED, RECOVERY, Figures

ROOT = Path(__file__).parents[2]


def snapshot(seconds, added):
    records = {"added-records": str(added)} if added else {}
    return Snapshot(
        snapshot_id=seconds,
        timestamp_ms=seconds * 1000,
        manifest_list="",
        summary=Summary(Operation.APPEND, **records),
    )


def test_figures_of_several_processes_are_added_up():
    total = Figures()
    for seconds in (1.0, 3.0):
        one = Figures()
        one.add(KILLS, 2)
        one.took(RECOVERY, [seconds])
        total.take(one.plain())
    assert total.counts[KILLS] == 4
    assert "median 2.0 s, worst 3.0 s, 2 times" in "\n".join(total.lines())


def test_fewer_faults_than_were_planned_are_too_few():
    one = Figures()
    one.add(PLANNED, 2)
    one.add(FIRED)
    assert one.shortfalls({}) == ["faults fired: 1, and it should be 2"]


def test_less_than_the_full_counts_is_too_few():
    one = Figures()
    one.add(KILLS, 59)
    assert one.shortfalls({KILLS: 60}) == ["cold: SIGKILLs: 59, and it should be 60"]


def test_faults_are_counted_where_they_are_planned_and_where_they_fire():
    crash.load((crash.Fault("plan.before"), crash.Fault("plan.after")))
    with pytest.raises(crash.Crash):
        crash.point("plan.before")
    crash.load(())
    schedule = Schedule([CatalogFault("catalog.commit")])
    schedule.fire(schedule.plan[0])
    counts = dict(figures.current.counts)
    figures.current.clear()
    assert counts == {PLANNED: 3, FIRED: 2}


def test_findings_are_counted_where_they_are_made():
    assert rows.as_expected([1, 1], [1, 2]) != []
    counts = dict(figures.current.counts)
    figures.current.clear()
    assert counts == {LOST: 1, figures.DOUBLED: 1}


def test_a_kill_is_recovered_from_with_the_first_rows_behind_the_next_fence():
    late_swap, fence, batch, second = snapshot(11, 5), snapshot(15, 0), snapshot(17, 5), snapshot(18, 5)
    assert recoveries([late_swap, fence, batch, second], [10.0]) == [7.0]


def test_a_kill_that_is_followed_by_another_before_a_commit_is_not_recovered_from():
    assert recoveries([snapshot(15, 0), snapshot(25, 0), snapshot(28, 5)], [10.0, 20.0]) == [8.0]


def test_a_run_that_does_too_little_fails_and_says_what_its_workers_did():
    command = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "2", __file__, "-k", "recovered"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    environment["CALVE_FAULT_COUNTS"] = "full"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "too few: cold: SIGKILLs: 0, and it should be 60" in done.stdout
    assert re.search(r"^passed: test_figures +2$", done.stdout, re.MULTILINE)


def test_a_chain_has_as_many_lives_as_asked_for_and_one_when_the_time_is_over(monkeypatch):
    monkeypatch.delenv(figures.UNTIL, raising=False)
    monkeypatch.setenv(figures.LIVES, "6")
    assert list(figures.lives(share=2)) == [0, 1, 2]
    monkeypatch.setenv(figures.UNTIL, "1")
    assert list(figures.lives()) == [0]
