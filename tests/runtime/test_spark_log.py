"""What Spark's processes print."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from calve.model import Secret
from calve.runtime import spark_log
from calve.runtime.spark_log import SparkLog


def test_what_a_process_writes_to_the_log_has_no_secrets(tmp_path: Path) -> None:
    secret = Secret("a-value-that-nobody-may-see").reveal()
    log = tmp_path / "logs" / "spark.log"
    with SparkLog(log).taking_output():
        subprocess.run(["/bin/sh", "-c", f"echo one {secret}; echo two >&2; printf 'three'"], check=True)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and "three" not in log.read_text():
        time.sleep(0.02)
    assert log.read_text() == "one ***\ntwo\nthree"


def test_what_a_process_says_on_the_terminal_has_no_secrets(capfd: pytest.CaptureFixture[str]) -> None:
    secret = Secret("a-value-that-nobody-may-see").reveal()
    with SparkLog(None).taking_output():
        subprocess.run(["/bin/sh", "-c", f"echo one {secret}"], check=True)
    deadline, said = time.monotonic() + 20, ""
    while time.monotonic() < deadline and "one" not in said:
        time.sleep(0.02)
        said += capfd.readouterr().err
    assert said == "one ***\n"


def say(text: str) -> None:
    subprocess.run(["/bin/cat"], input=text, text=True, check=True)


def test_the_log_has_a_largest_size_and_one_file_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_log, "LARGEST", 1000)
    file = tmp_path / "spark.log"
    log = SparkLog(file)
    with log.taking_output():
        say("".join(f"{number:05} {'x' * 93}\n" for number in range(100)))
    log.reason()
    kept = {one.name: one.read_text().splitlines() for one in tmp_path.iterdir()}
    assert {name: len(lines) for name, lines in kept.items()} == {"spark.log": 10, "spark.log.1": 10}
    assert kept["spark.log"][-1].startswith("00099 ")
    assert kept["spark.log.1"][-1].startswith("00089 ")


def test_a_log_that_cannot_be_kept_is_told_once_and_costs_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".calve").write_text("a file")
    log = SparkLog(tmp_path / ".calve" / "logs" / "spark.log")
    with log.taking_output():
        say("Caused by: java.net.UnknownHostException: nowhere\n")
    assert log.reason() == "java.net.UnknownHostException: nowhere"
    (line,) = caplog.messages
    assert "spark.log': Not a directory; name another folder with --state or CALVE_STATE" in line


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ('Exception in thread "main" a.B: x\nCaused by: c.D: y\nCaused by: e.F: z\n\tat g\n', "e.F: z"),
        ("Error: Could not find or load main class x\n", "Could not find or load main class x"),
        (
            "Error occurred during initialization of VM\nCould not reserve enough space\n",
            "Could not reserve enough space",
        ),
        ("WARNING: Using incubator modules\n", ""),
    ],
)
def test_the_last_lines_tell_why_a_jvm_did_not_start(tmp_path: Path, printed: str, reason: str) -> None:
    log = SparkLog(tmp_path / "spark.log")
    with log.taking_output():
        say(printed)
    assert log.reason() == reason
