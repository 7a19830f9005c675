"""How long a standby waits."""

from dataclasses import replace

import pytest

from calve.position import Mark
from calve.sink.heartbeat import Heartbeat, Watch, parse, property_name

MARK = Mark(epoch=3, writer="w", source="kafka:c", position={"row": 1}, commit="c1", above=1)
BEAT = Heartbeat(3, "w", 1, 30.0)


def test_nobody_has_to_be_waited_for_where_there_is_no_mark():
    assert Watch(60).is_over(None, None, now=0)


def test_a_holder_without_a_sign_of_life_is_waited_for_as_long_as_asked():
    watch = Watch(60)
    assert not watch.is_over(MARK, None, now=100)
    assert not watch.is_over(MARK, None, now=159.9)
    assert watch.is_over(MARK, None, now=160)


@pytest.mark.parametrize(
    "sign",
    [(MARK.moved(position={"row": 2}, commit="c2", above=2), BEAT), (MARK, replace(BEAT, number=2))],
    ids=["a commit", "a heartbeat"],
)
def test_a_commit_or_a_heartbeat_begins_the_wait_anew(sign):
    watch = Watch(60)
    assert not watch.is_over(MARK, BEAT, now=0)
    assert not watch.is_over(*sign, now=59)
    assert not watch.is_over(*sign, now=118)
    assert watch.is_over(*sign, now=119)


def test_the_longer_of_both_times_counts():
    watch = Watch(10)
    assert not watch.is_over(MARK, BEAT, now=0)
    assert not watch.is_over(MARK, BEAT, now=29)
    assert watch.is_over(MARK, BEAT, now=30)


def test_a_holder_that_ended_is_not_waited_for():
    assert Watch(60).is_over(MARK, replace(BEAT, ended=True), now=0)


@pytest.mark.parametrize("stray", [replace(BEAT, epoch=2, ended=True), replace(BEAT, writer="x", ended=True)])
def test_a_heartbeat_of_another_epoch_says_nothing(stray):
    watch = Watch(60)
    assert not watch.is_over(MARK, stray, now=0)
    assert not watch.is_over(MARK, replace(stray, number=9), now=59)
    assert watch.is_over(MARK, replace(stray, number=10), now=60)


def test_a_heartbeat_is_read_as_it_was_written():
    assert parse(BEAT.dump()) == BEAT
    assert [parse(text) for text in (None, "", "7", "[]", "{}", "{")] == [None] * 6
    assert property_name("orders") == "calve.alive.orders"
    assert property_name("orders", "audit") == "calve.alive.orders.audit"
