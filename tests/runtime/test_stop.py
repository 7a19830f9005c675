import os
import signal
import sys
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
def test_a_second_signal_cuts_the_batch_off(number, code, capfd):
    left = []
    stop = Stop(deadline=LATER, leave=left.append)
    stop.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), number)
    assert left == [code]
    assert "cut off because a second signal came" in capfd.readouterr().err


def test_a_second_signal_leaves_also_where_it_interrupts_a_writing(monkeypatch):
    class Writing:
        """What a buffered stream says to a handler that interrupts it."""

        def write(self, text):
            raise RuntimeError("reentrant call inside BufferedWriter")

    left = []
    stop = Stop(deadline=LATER, leave=left.append)
    stop.listen()
    monkeypatch.setattr(sys, "stderr", Writing())
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert left == [143]


def test_a_handler_that_was_set_in_between_is_replaced_by_listening_again():
    stop = Stop(deadline=LATER, leave=lambda code: None)
    stop.listen()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stop.listen()
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.wait(5)


def test_the_deadline_cuts_the_batch_off():
    left = []
    stop = Stop(deadline=0.01, leave=left.append)
    stop.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    limit = time.monotonic() + 5
    while not left and time.monotonic() < limit:
        time.sleep(0.01)
    assert left == [143]
