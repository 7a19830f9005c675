"""Which snapshots may go."""

import json

from calve.iceberg.expire import expirable, marked
from calve.iceberg.travel import History, Ref, Snapshot
from calve.position import Mark


def history(count, **refs):
    """Snapshots 1 to `count`, a millisecond apart; refs are tags, those with a `b_` branches."""
    snapshots = tuple(
        Snapshot(n, n - 1 or None, n, n, "append", {"calve.commit": f"c{n}"}) for n in range(1, count + 1)
    )
    named = {name: Ref(name, number, not name.startswith("b_")) for name, number in refs.items()}
    return History("t", "uuid", 2, snapshots, count, 0, {"main": Ref("main", count, False), **named})


def test_older_ones_go_and_the_last_stays():
    assert expirable(history(5), 4, 1) == [1, 2, 3]
    assert expirable(history(5), 100, 1) == [1, 2, 3, 4]
    assert expirable(history(5), 0, 1) == []


def test_the_last_of_each_branch_stay():
    assert expirable(history(5), 100, 3) == [1, 2]
    assert expirable(history(6, b_audit=3), 100, 2) == [1, 4]


def test_tags_and_those_that_are_kept_stay():
    assert expirable(history(5, v1=2), 100, 1) == [1, 3, 4]
    assert expirable(history(5), 100, 1, kept={3}) == [1, 2, 4]


def test_the_commits_of_marks_are_found_and_other_properties_are_not():
    mark = Mark(1, "w", "s", {}, "c2", 0).dump()
    told = {"calve.sink.orders": mark, "calve.sink.broken": "{", "other": json.dumps({"commit": "c3"})}
    assert marked(history(4), told) == {2}
