import subprocess
import sys

import pytest


@pytest.mark.spark
def test_what_init_writes_runs_as_it_is(tmp_path):
    def calve(*arguments, folder=tmp_path / "demo"):
        command = [sys.executable, "-m", "calve.cli", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        return done

    calve("init", "demo", folder=tmp_path)
    # In a process of its own, with no jars but those that the declaration needs.
    assert "ok    drop the table" in calve("check").stdout
    ran = calve("run")
    assert ran.stdout == ""
    assert ran.stderr == "orders: 20,000 rows in 5 commits to table 'shop.orders'\n"
    read = calve("read", "orders", "--limit", "3")
    assert len(read.stdout.splitlines()) == 4
    assert "WARN" not in read.stderr
    assert "20,000" in calve("status").stdout
