"""Which offsets a batch of Kafka reads, and when it must not."""

import pytest

from calve.errors import StartRefused
from calve.sources import kafka_position as position
from calve.sources.kafka_position import Range, Topics

AFTER = {"topics": {"orders": {"id": "A", "offsets": {"0": 10, "1": 20}}}}


def there(**ends: int) -> Topics:
    """Topic `orders` as the cluster has it: e0=… is where partition 0 ends, b0=… where it begins."""
    numbers = sorted({int(name[1:]) for name in ends})
    return Topics(
        {"orders": "A"},
        {("orders", number): ends.get(f"b{number}", 0) for number in numbers},
        {("orders", number): ends[f"e{number}"] for number in numbers},
    )


def refusal(after: position.Position, cluster: Topics) -> str:
    with pytest.raises(StartRefused) as caught:
        position.refuse_loss(after, cluster, lambda topic: True)
    assert caught.value.command == "calve repair --accept-loss"
    return str(caught.value)


def test_between_two_positions_lie_the_offsets_that_a_batch_reads() -> None:
    to = {"topics": {"orders": {"id": "A", "offsets": {"0": 10, "1": 25}}}}
    assert position.ranges(AFTER, to) == [Range("orders", 1, 20, 25)]


def test_a_new_partition_is_read_from_its_beginning_and_the_position_says_where_that_was() -> None:
    cluster = there(e0=10, e1=20, e2=7, b2=3)
    taken = position.backlog(AFTER, cluster)
    to = position.moved(AFTER, cluster, taken)
    assert to["topics"]["orders"]["begin"] == {"2": 3}
    assert position.ranges(AFTER, to) == [Range("orders", 2, 3, 7)]
    assert "begin" not in position.moved(to, cluster, position.backlog(to, cluster))["topics"]["orders"]


def test_a_topic_that_is_new_is_read_from_its_beginning() -> None:
    cluster = Topics(
        {"orders": "A", "more": "B"}, {("orders", 0): 0, ("more", 0): 0}, {("orders", 0): 10, ("more", 0): 4}
    )
    to = position.moved(AFTER, cluster, position.backlog(AFTER, cluster))
    assert position.ranges(AFTER, to) == [Range("more", 0, 0, 4)]


def test_a_topic_that_is_no_longer_declared_keeps_its_place() -> None:
    cluster = Topics({"more": "B"}, {("more", 0): 0}, {("more", 0): 4})
    to = position.moved(AFTER, cluster, position.backlog(AFTER, cluster))
    assert to["topics"]["orders"] == AFTER["topics"]["orders"]
    position.refuse_loss(AFTER, cluster, lambda topic: topic == "more")


def test_only_the_partitions_that_lost_records_move_when_the_loss_is_accepted() -> None:
    cluster = there(b0=12, e0=30, b1=0, e1=25)
    to = position.without_lost(AFTER, cluster, lambda topic: True)
    assert position.offsets(to) == {("orders", 0): 12, ("orders", 1): 20}
    position.refuse_loss(to, cluster, lambda topic: True)


def test_a_partition_that_became_shorter_goes_on_at_its_end() -> None:
    to = position.without_lost(AFTER, there(e0=7, e1=25), lambda topic: True)
    assert position.offsets(to) == {("orders", 0): 7, ("orders", 1): 20}


def test_of_several_topics_only_the_one_that_is_gone_or_new_is_forgotten() -> None:
    after = {"topics": {**AFTER["topics"], **{one: {"id": one, "offsets": {"0": 3}} for one in "xyz"}}}
    cluster = Topics(
        {"orders": "A", "x": "x", "y": "another"},
        dict.fromkeys((("orders", 0), ("orders", 1), ("x", 0), ("y", 0)), 0),
        {("orders", 0): 10, ("orders", 1): 20, ("x", 0): 3, ("y", 0): 9},
    )
    to = position.without_lost(after, cluster, lambda topic: topic != "z")
    assert sorted(to["topics"]) == ["orders", "x", "z"]
    assert position.ranges(to, position.moved(to, cluster, position.backlog(to, cluster))) == [
        Range("y", 0, 0, 9)
    ]


def test_where_nothing_is_lost_nothing_moves() -> None:
    assert position.without_lost(AFTER, there(e0=10, e1=20), lambda topic: True) is AFTER


def test_the_records_before_a_place_may_tell_which_columns_come() -> None:
    found = position.before(AFTER, there(b0=4, e0=10, b1=20, e1=20), 6)
    assert found is not None
    assert position.ranges(found, AFTER) == [Range("orders", 0, 4, 10)]
    assert position.before(AFTER, there(b0=10, e0=10, b1=20, e1=20), 6) is None


@pytest.mark.parametrize(
    ("backlogs", "rows", "shares"),
    [
        ([100, 100], 50, [25, 25]),
        ([10, 100], 50, [10, 40]),
        ([0, 1000, 5], 50, [0, 45, 5]),
        ([3, 3], 50, [3, 3]),
        ([100, 100, 100], 2, [1, 1, 1]),
    ],
)
def test_rows_are_shared_so_that_every_partition_moves(
    backlogs: list[int], rows: int, shares: list[int]
) -> None:
    waiting = [Range("t", number, 7, 7 + count) for number, count in enumerate(backlogs)]
    assert [part.rows for part in position.shares(waiting, rows)] == shares


def test_a_recreated_topic_is_refused() -> None:
    cluster = Topics({"orders": "B"}, {("orders", 0): 0}, {("orders", 0): 99})
    assert "topic 'orders' was created anew: its id is 'B', and the table knows 'A'" in refusal(
        AFTER, cluster
    )


def test_a_vanished_topic_or_partition_is_refused() -> None:
    assert "topic 'orders' is gone" in refusal(AFTER, Topics({}, {}, {}))
    assert "topic 'orders' partition 1 is gone, and the table stands at offset 20" in refusal(
        AFTER, there(e0=10)
    )


def test_records_that_were_deleted_unread_are_refused_with_both_offsets() -> None:
    message = refusal(AFTER, there(e0=50, b0=30, e1=20))
    assert "partition 0 begins at offset 30, and the table stands at 10" in message


def test_a_partition_that_lost_records_is_refused_with_both_offsets() -> None:
    assert "partition 1 ends at offset 15, and the table stands at 20" in refusal(AFTER, there(e0=10, e1=15))
