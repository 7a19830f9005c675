"""Positions in Kafka: which offsets a batch reads, and whether Kafka still has them. Pure.

A position is `{"topics": {name: {"id": …, "offsets": {"0": 12}, "begin": {"0": 5}}}}`: per partition the
offset that is read next. `begin` holds where a partition that is new in this position was first read from,
if that was not offset 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calve.errors import StartRefused
from calve.gateway import ROWS_OF_A_TASK
from calve.position import Position

Partition = tuple[str, int]

_SHARE = 100
"""How many offsets of a partition are looked at, at least: some hold no record."""


@dataclass(frozen=True)
class Topics:
    """What a cluster has of the topics that are read: ids, and the offsets at both ends of each partition."""

    ids: Mapping[str, str]
    earliest: Mapping[Partition, int]
    ends: Mapping[Partition, int]


@dataclass(frozen=True)
class Range:
    """Offsets of one partition, from `begin` up to, not including, `end`."""

    topic: str
    partition: int
    begin: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.begin


def offsets(position: Position) -> dict[Partition, int]:
    """The next offset of each partition."""
    return {
        (topic, int(partition)): offset
        for topic, state in position.get("topics", {}).items()
        for partition, offset in state["offsets"].items()
    }


def dump(ids: Mapping[str, str], nexts: Mapping[Partition, int], begins: Mapping[Partition, int]) -> Position:
    """The position at `nexts`, in which the partitions of `begins` are new."""
    topics: dict[str, Any] = {topic: {"id": ids[topic], "offsets": {}} for topic in sorted(ids)}
    for (topic, partition), offset in sorted(nexts.items()):
        topics[topic]["offsets"][str(partition)] = offset
    for (topic, partition), offset in sorted(begins.items()):
        if offset:
            topics[topic].setdefault("begin", {})[str(partition)] = offset
    return {"topics": topics}


def ranges(after: Position, to: Position) -> list[Range]:
    """What lies between two positions; partitions with nothing in between are left out."""
    known = offsets(after)
    found = []
    for (topic, partition), end in offsets(to).items():
        first = to["topics"][topic].get("begin", {}).get(str(partition), 0)
        begin = known.get((topic, partition), first)
        if begin < end:
            found.append(Range(topic, partition, begin, end))
    return found


def before(start: Position, there: Topics, rows: int) -> Position | None:
    """A place about `rows` offsets before `start`, shared by the partitions; None if there are none."""
    known = offsets(start)
    share = max(_SHARE, rows // max(1, len(known)))
    first = {place: max(there.earliest.get(place, at), at - share) for place, at in known.items()}
    if not any(first[place] < at for place, at in known.items()):
        return None
    return dump({topic: state["id"] for topic, state in start["topics"].items()}, first, {})


def backlog(after: Position, there: Topics) -> list[Range]:
    """Everything behind `after`; partitions that `after` does not know are read from their beginning."""
    known = offsets(after)
    found = []
    for (topic, partition), end in sorted(there.ends.items()):
        begin = known.get((topic, partition), there.earliest[topic, partition])
        found.append(Range(topic, partition, begin, max(begin, end)))
    return found


def shares(waiting: list[Range], rows: int) -> list[Range]:
    """At most `rows` of what waits, shared so that every partition moves; at least one row for each."""
    left, taken = rows, {}
    for count, part in enumerate(sorted(waiting, key=lambda part: part.rows)):
        share = min(part.rows, max(1, left // (len(waiting) - count)))
        taken[part.topic, part.partition] = share
        left = max(0, left - share)
    return [
        Range(part.topic, part.partition, part.begin, part.begin + taken[part.topic, part.partition])
        for part in waiting
    ]


def shared(ranges: list[Range], most: int) -> list[list[Range]]:
    """`ranges` in at most so many tasks of one size, each with one range of a partition at most."""
    rows = sum(part.rows for part in ranges)
    step = -(-rows // max(1, min(most, rows // ROWS_OF_A_TASK)))
    tasks: list[list[Range]] = [[]]
    left = step
    for part in ranges:
        begin = part.begin
        while begin < part.end:
            if not left:
                tasks.append([])
                left = step
            end = min(part.end, begin + left)
            tasks[-1].append(Range(part.topic, part.partition, begin, end))
            left, begin = left - (end - begin), end
    return tasks


def moved(after: Position, there: Topics, read: list[Range]) -> Position:
    """The position behind `read`; topics that are no longer declared keep their place."""
    known = offsets(after)
    ids = {topic: state["id"] for topic, state in after.get("topics", {}).items()} | dict(there.ids)
    nexts = known | {(part.topic, part.partition): part.end for part in read}
    begins = {
        (part.topic, part.partition): part.begin for part in read if (part.topic, part.partition) not in known
    }
    return dump(ids, nexts, begins)


def refuse_loss(after: Position, there: Topics, is_declared: Any) -> None:
    """Raise StartRefused where the cluster no longer has what follows `after`."""
    for reason in _losses(after, there, is_declared):
        raise StartRefused(f"Cannot go on reading Kafka: {reason}", decision="--accept-loss")


def without_lost(after: Position, there: Topics, is_declared: Any) -> Position:
    """`after`, moved where the cluster no longer has what follows it, and nowhere else.

    A partition goes on at its first record, or at its end where it has become shorter; a topic that is gone,
    or was created anew, is forgotten, so that it would be read from its beginning.
    """
    if next(_losses(after, there, is_declared), None) is None:
        return after
    ids, nexts = {}, {}
    for topic, state in after.get("topics", {}).items():
        if is_declared(topic) and there.ids.get(topic) != state["id"]:
            continue
        ids[topic] = state["id"]
        for number, offset in state["offsets"].items():
            place = (topic, int(number))
            if not is_declared(topic):
                nexts[place] = offset
            elif place in there.ends:
                nexts[place] = min(max(offset, there.earliest[place]), there.ends[place])
    return dump(ids, nexts, {})


def _losses(after: Position, there: Topics, is_declared: Any) -> Iterator[str]:
    for topic, state in after.get("topics", {}).items():
        if not is_declared(topic):
            continue
        if topic not in there.ids:
            yield f"topic '{topic}' is gone, and the table stands at {_brief(state)} of it"
        elif there.ids[topic] != state["id"]:
            yield (
                f"topic '{topic}' was created anew: its id is '{there.ids[topic]}', and the table knows "
                f"'{state['id']}'"
            )
        else:
            yield from _lost_offsets(topic, state, there)


def _lost_offsets(topic: str, state: Mapping[str, Any], there: Topics) -> Iterator[str]:
    for number, offset in state["offsets"].items():
        place = (topic, int(number))
        if place not in there.ends:
            yield f"topic '{topic}' partition {number} is gone, and the table stands at offset {offset} of it"
        elif offset < there.earliest[place]:
            yield (
                f"topic '{topic}' partition {number} begins at offset {there.earliest[place]}, and the table "
                f"stands at {offset}: the records between were deleted unread"
            )
        elif offset > there.ends[place]:
            yield (
                f"topic '{topic}' partition {number} ends at offset {there.ends[place]}, and the table "
                f"stands at {offset}: the partition lost records"
            )


def _brief(state: Mapping[str, Any]) -> str:
    return "offset " + ", ".join(
        f"{offset} (partition {number})" for number, offset in state["offsets"].items()
    )
