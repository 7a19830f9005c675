"""Random logs of changes, and every way to cut one into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from random import Random
from typing import Any, TypeVar

from tests.order import Change, Model

KEYS, LENGTH = 3, 6
ORDER = "o"

Record = TypeVar("Record")


def cuts(log: Sequence[Record]) -> list[list[Sequence[Record]]]:
    """The pieces of a log, cut in every way."""
    inner = range(1, len(log))
    ends = [(0, *some, len(log)) for count in range(len(log)) for some in combinations(inner, count)]
    return [[log[begin:end] for begin, end in pairwise(one)] for one in ends]


def upserts(random: Random, *, unknown: bool = False) -> list[Change]:
    """Changes whose keys have a lane each, whose times and places in a log say something else."""
    return list(_possible(random, None, unknown))


def ordered(random: Random, *, unknown: bool = False) -> list[Change]:
    """Changes that have an order, or none."""
    return list(_possible(random, ORDER, unknown, keys=2))


def scattered(random: Random) -> list[Change]:
    """Changes that have an order each, and lanes that have nothing to do with their keys."""
    orders = random.sample(range(100), LENGTH)
    some = (_change(random, at, ORDER) for at in range(LENGTH))
    return [
        replace(one, lane=random.randrange(3), values={**one.values, ORDER: order})
        for one, order in zip(some, orders, strict=True)
    ]


def truncates(random: Random) -> list[Change]:
    """Changes of one lane, of which some take out all rows."""
    log = [replace(_change(random, at, None), lane=0, time=None) for at in range(2 * LENGTH)]
    for at in random.sample(range(len(log)), random.randrange(1, 3)):
        log[at] = Change("t", None, at=at)
    return log


def _possible(random: Random, order_by: str | None, unknown: bool, keys: int = KEYS) -> Iterator[Change]:
    """Changes that leave columns out only where there is a row that has them."""
    model = Model(order_by)
    for at in range(LENGTH):
        change = _change(random, at, order_by, keys)
        if unknown and change.key in model.rows and change.operation != "d" and random.random() < 0.4:
            left_out = random.choice([("a",), ("b",), ("a", "b"), *([(ORDER,)] if order_by else [])])
            values = {name: None if name in left_out else value for name, value in change.values.items()}
            change = replace(change, values=values, unknown=left_out)
        model.apply(change)
        yield change


def _change(random: Random, at: int, order_by: str | None, keys: int = KEYS) -> Change:
    key = random.randrange(keys)
    is_gone = random.random() < 0.3
    order = random.choice([None, None, *range(4)]) if order_by else None
    values: dict[str, Any] = {ORDER: order, "a": None, "b": None}
    if not is_gone:
        values |= {"a": random.choice([None, *range(100)]), "b": random.choice([None, *"xyz"])}
    place = {"lane": key % 2, "at": at, "time": random.randrange(3), "seq": random.choice([None, 3, 2, 1])}
    return Change("d" if is_gone else random.choice("iu"), key, values, **place)
