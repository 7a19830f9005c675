"""The command line as a process, and what happens to its output."""

import os
import signal
import subprocess
import sys

import pytest

CALVE = [sys.executable, "-m", "calve.cli"]
INTERRUPTED = """
import os, signal, sys


class Interrupting:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupting())
from calve.cli import main

main(["schema"])
"""


def test_ctrl_c_while_the_process_starts_prints_nothing():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_no_bug():
    with open("/dev/full", "w") as full:
        done = subprocess.run([*CALVE, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (69, "Cannot write the output: No space left on device\n")


def test_a_reader_that_goes_away_is_no_finding():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*CALVE, "connectors", "iceberg"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
