import pytest

from calve.errors import Conflict, DataRefused, NotPermitted, TryAgain, Unavailable
from calve.patience import Abandoned, Patience


class Clock:
    def __init__(self):
        self.now = 0.0
        self.stopping = False
        self.pauses = []

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    def patience(self, retry_for, said=None):
        notify = (said if said is not None else []).append
        return Patience(retry_for, notify, lambda: self.stopping, self.sleep, lambda: self.now)


def failing(times, error=None):
    left = [times]

    def action():
        if left[0] > 0:
            left[0] -= 1
            raise error or Unavailable("the catalog is away")
        return "done"

    return action


def test_a_service_that_comes_back_is_waited_for_with_doubling_pauses():
    clock = Clock()
    assert clock.patience(60).keep_trying(failing(4)) == "done"
    assert [round(p, 1) for p in clock.pauses] == pytest.approx([0.1, 0.2, 0.4, 0.8], rel=0.3)


def test_after_retry_for_the_run_ends_with_try_again():
    clock = Clock()
    with pytest.raises(TryAgain, match=r"the catalog is away; waited 10 s \(retry_for\)") as caught:
        clock.patience(10).keep_trying(failing(10**6))
    assert caught.value.exit_code == 75
    assert 10 <= clock.now < 16


def test_what_is_not_retryable_is_raised_at_once():
    clock = Clock()
    with pytest.raises(DataRefused):
        clock.patience(60).keep_trying(failing(1, DataRefused("bad")))
    assert clock.pauses == []


def test_a_long_wait_is_said_once_and_so_is_its_end():
    clock, said = Clock(), []
    clock.patience(60, said).keep_trying(failing(7))
    assert len(said) == 2
    assert "trying again for up to" in said[0]
    assert said[1] == "the service answers again"


def test_a_few_conflicts_are_not_worth_a_word():
    clock, said = Clock(), []
    clock.patience(60, said).keep_trying(failing(3, Conflict("another writer")))
    assert said == []
    clock.patience(60, said).keep_trying(failing(4, Conflict("another writer")))
    assert len(said) == 2


def test_patience_is_counted_anew_after_a_success():
    clock = Clock()
    patience = clock.patience(5)
    for _ in range(3):
        patience.keep_trying(failing(5))
    assert clock.now > 5


def test_a_day_of_waiting_is_as_good_as_a_minute():
    clock = Clock()
    with pytest.raises(TryAgain):
        clock.patience(86_400).keep_trying(failing(10**9))
    assert max(clock.pauses) < 7


def test_a_wait_is_given_up_when_the_run_is_to_end():
    clock = Clock()
    clock.stopping = True
    with pytest.raises(Abandoned, match="the catalog is away"):
        clock.patience(60).keep_trying(failing(1))


def test_a_service_that_refuses_what_it_took_before_is_opened_again_once():
    clock, renewed, said = Clock(), [], []
    patience = clock.patience(60, said)
    patience.opened(lambda: renewed.append("the catalog"))
    refused = NotPermitted("the token has expired")
    assert patience.keep_trying(failing(1, refused)) == "done"
    assert renewed == ["the catalog"]
    assert "new credentials" in said[0]
    with pytest.raises(NotPermitted):
        patience.keep_trying(failing(2, refused))
    assert renewed == ["the catalog"] * 2
    assert clock.pauses == []


def test_a_service_that_was_never_opened_and_refuses_is_not_asked_again():
    with pytest.raises(NotPermitted):
        Clock().patience(60).keep_trying(failing(1, NotPermitted("wrong password")))
