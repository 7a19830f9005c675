import os
import signal
import time

import pytest

from calve.runtime.stop import Stop

LATER = 24 * 3600
"""A deadline that no test lives to see: its timer would speak in the middle of another one."""


@pytest.fixture(autouse=True)
def handlers():
    saved = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in saved.items():
        signal.signal(number, handler)


def test_the_first_signal_asks_for_the_end():
    left = []
    stop = Stop(deadline=LATER, leave=left.append)
    stop.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.wait(5)
    assert stop.is_requested()
    assert left == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_cuts_the_batch_off(number, code, capsys):
    left = []
    stop = Stop(deadline=LATER, leave=left.append)
    stop.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), number)
    assert left == [code]
    assert "cut off because a second signal came" in capsys.readouterr().err


def test_the_deadline_cuts_the_batch_off():
    left = []
    stop = Stop(deadline=0.01, leave=left.append)
    stop.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    limit = time.monotonic() + 5
    while not left and time.monotonic() < limit:
        time.sleep(0.01)
    assert left == [143]
