import sys
import time

import psutil

from bench.measure import Sample, Watched, watch

BUSY = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


def python(tmp_path, text, **more):
    return watch([sys.executable, "-c", text], folder=tmp_path, log=tmp_path / "log", **more)


def test_the_time_of_a_child_that_has_ended_counts(tmp_path):
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    found = python(tmp_path, text)
    assert found.code == 0
    assert found.cpu >= 0.3
    assert found.wall >= 0.3
    assert found.peak > 0


def test_how_a_command_ended_and_what_it_said_are_kept(tmp_path):
    found = python(tmp_path, "print('because'); raise SystemExit(3)")
    assert (found.code, found.in_time) == (3, True)
    assert (tmp_path / "log").read_text() == "because\n"


def test_a_command_is_ended_with_its_children_when_the_rows_are_there(tmp_path):
    text = (
        "import subprocess, time; subprocess.Popen(['sleep', '600']); print(1, flush=True); time.sleep(600)"
    )
    seen = iter(range(0, 1000, 10))
    found = python(tmp_path, text, rows=lambda: next(seen), until=40)
    assert found.code is None
    assert [one.rows for one in found.samples] == [10, 20, 30, 40]
    left = [
        one for one in psutil.process_iter(["cmdline", "status"]) if one.info["cmdline"] == ["sleep", "600"]
    ]
    assert [one for one in left if one.cwd() == str(tmp_path)] == []


def test_a_command_that_hangs_is_ended_and_named(tmp_path):
    begun = time.monotonic()
    found = python(tmp_path, "import time; time.sleep(600)", limit=0.5)
    assert not found.in_time
    assert found.code is None
    assert time.monotonic() - begun < 60


def test_what_is_steady_comes_after_the_first_rows():
    watched = Watched(samples=[Sample(10, 20, 1_000), Sample(12, 23, 2_000), Sample(15, 27, 6_000)])
    assert watched.visible(1_500) == Sample(12, 23, 2_000)
    assert watched.steady(2_000) == Sample(3, 4, 4_000)
    assert watched.steady(6_000) is None
    assert Watched().steady(1) is None


def test_the_last_commit_by_the_clock_is_not_steady_as_it_waits():
    watched = Watched(samples=[Sample(10, 20, 2_000), Sample(20, 23, 5_000), Sample(30, 24, 6_000)])
    assert watched.steady(2_000, by_the_clock=True) == Sample(10, 3, 3_000)
    assert watched.steady(5_000, by_the_clock=True) == Sample(10, 1, 1_000)
