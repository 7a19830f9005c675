"""Batches that a stream numbers: what a table that has some of them does with the next. Pure."""

from __future__ import annotations

from enum import Enum

from calve.position import Position

CHECKPOINT, BATCH = "checkpoint", "batch"

UNKNOWN: Position = {CHECKPOINT: None, BATCH: -1}
"""The position of a table that takes whatever batch of whatever checkpoint comes first."""


class Place(Enum):
    """Where a batch stands beside those that a table has."""

    NEXT = "next"
    REPEATED = "repeated"
    """The table has it: the stream ended between the table's commit and its own."""
    OLDER = "older"
    """The table has later ones, so the checkpoint is not the one that led to them."""
    ELSEWHERE = "elsewhere"
    """It is numbered by another checkpoint."""


def place(known: Position, checkpoint: str, number: int) -> Place:
    """Where batch `number` of `checkpoint` stands beside the position `known`.

    A batch without rows is not committed, so numbers may be left out; but none comes back, other than the
    last one, which Spark runs again when it does not know that it ended.
    """
    if known.get(CHECKPOINT) is None:
        return Place.NEXT
    if known[CHECKPOINT] != checkpoint:
        return Place.ELSEWHERE
    last = int(known[BATCH])
    if number == last:
        return Place.REPEATED
    return Place.NEXT if number > last else Place.OLDER


def moved(known: Position, checkpoint: str, number: int) -> Position:
    """The position behind batch `number`; what else `known` says stays."""
    return {**known, CHECKPOINT: checkpoint, BATCH: number}
