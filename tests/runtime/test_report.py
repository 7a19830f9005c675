"""What a run tells of itself in a file."""

import json
import subprocess
import sys

import pytest

from calve.runtime.report import Report, read

WRITING = """
import sys
from pathlib import Path
from calve.runtime.report import Report

report = Report("orders", Path(sys.argv[1]))
for number in range(500):
    report.update(message=str(number))
"""


def test_two_processes_of_one_pipeline_do_not_take_the_file_from_each_other(tmp_path):
    command = [sys.executable, "-c", WRITING, str(tmp_path)]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [file.name for file in tmp_path.iterdir()] == ["orders.json"]
    assert json.loads((tmp_path / "orders.json").read_text())["message"] == "499"


@pytest.mark.parametrize("folder", ["a_file/status", "status"])
def test_a_status_that_cannot_be_kept_is_told_once(tmp_path, caplog, folder):
    (tmp_path / "a_file").write_text("")
    # A folder where the file is to be: it can be neither read nor replaced.
    (tmp_path / "status" / "orders.json").mkdir(parents=True)
    report = Report("orders", tmp_path / folder)
    for number in range(3):
        report.update(message=str(number))
    assert report.status.message == "2"
    (line,) = caplog.messages
    assert line.startswith("orders: Cannot keep the status in ")
    assert line.endswith("name another folder with --state or CALVE_STATE")
    assert read(tmp_path / folder) == []


def test_what_waits_is_told_before_it_is_committed_and_not_all_the_time(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr("calve.runtime.report.time.monotonic", lambda: now)
    report = Report("orders", tmp_path)

    def told():
        return json.loads((tmp_path / "orders.json").read_text())["waiting"]

    report.wait_for(1)
    assert told() == 1
    report.wait_for(20_001)
    assert (report.status.waiting, told()) == (20_001, 1)
    now += 1.5
    report.wait_for(20_001)
    assert told() == 20_001
    report.update(waiting=0)
    now += 1.5
    report.wait_for(20_001)
    assert told() == 20_001
