"""How a block of records is divided around those that the fast way does not take.

A try costs something however few records it is of, and one that fails costs all of them: so the parts of a
block are the smaller, the more often tries have failed of late. What fails says which records are in doubt,
if it can, or else it is divided. A doubt is no verdict: the slow way decides, and gives the same values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa

from calve.decode.arrow import Values, compute

T = TypeVar("T")
R = TypeVar("R")

FEW = 16
"""Records that are looked at one by one rather than tried once more."""

LARGE = 4096
"""Records that are tried in smaller parts, where a try of them all has failed."""

_PARTS = 4
_TRY = 250
"""For how many records a try could be had that it costs to begin one."""

_REMEMBERED = 40_000
_FIRST_GUESS = 10_000
_HOPELESS = 80
_PATIENCE = 64
_FEWEST = 12
_LEAST = 256
_TEXT = re.compile(r"^Failed to parse string: '(.*)' as a scalar", re.S)
_ROW = re.compile(r"in row (\d+)|Row #(\d+)")


class Mismatch(Exception):
    """A record that does not fit the schema; its text says why, `reason` is one of `bad.REASONS`."""

    def __init__(self, message: str, reason: str = "malformed") -> None:
        self.reason = reason
        super().__init__(message)


class Doubts(Mismatch):
    """Some records of a block need a closer look: those at `places`, in order. The others may be fine.

    `rows` are those of the others, where they are known already.
    """

    def __init__(
        self,
        places: Sequence[int],
        message: str,
        reason: str = "malformed",
        rows: pa.RecordBatch | None = None,
    ) -> None:
        self.places, self.rows = places, rows
        super().__init__(message, reason)


REFUSED = (pa.ArrowInvalid, pa.ArrowNotImplementedError, Mismatch)
"""What the fast way raises."""


class Division:
    """How many records are tried at once; learns from those before."""

    def __init__(self) -> None:
        self._records, self._failed = float(_FIRST_GUESS), 0.0
        self._count = self._failures = 0

    def begin(self, left: int) -> int:
        """How many of the records that are left are tried next."""
        size = left if math.isinf(self._gap) else max(_LEAST, int(math.sqrt(_TRY * self._gap)))
        self._count, self._failures = min(left, size), 0
        return self._count

    def fail(self) -> None:
        """A try of some of them has failed."""
        self._failures += 1

    def end(self, *, is_done: bool = True) -> None:
        """They are done, or not and are to be tried in smaller parts; what is long ago counts less."""
        count = self._count if is_done else 0
        kept = 0.5 ** (count / _REMEMBERED)
        self._records = self._records * kept + count
        self._failed = self._failed * kept + self._failures

    @property
    def _gap(self) -> float:
        return self._records / self._failed if self._failed > 0.01 else math.inf

    @property
    def is_hopeless(self) -> bool:
        """Whether to look at each record costs less than to try several once more."""
        return self._gap < _HOPELESS or self._failures > max(_PARTS, self._count // _PATIENCE)


def cut(count: int, suspect: int | None = None) -> Iterator[tuple[int, int]]:
    """Where records are divided: around the one that is suspected, or evenly."""
    if suspect is None:
        ends = [count * part // _PARTS for part in range(_PARTS + 1)]
    else:
        ends = [0, suspect, suspect + 1, count]
    return ((begin, end) for begin, end in pairwise(ends) if begin < end)


def suspect(error: Exception, count: int) -> int | None:
    """The record that Arrow names in its message."""
    found = _ROW.search(str(error))
    at = -1 if not found else int(found[1]) if found[1] else int(found[2]) - 1
    return at if 0 <= at < count else None


def where(flags: Values) -> list[int]:
    """The places at which a flag is true."""
    found: list[int] = compute.indices_nonzero(flags).to_pylist()
    return found


def doubtful(flags: Values, message: str, reason: str = "malformed") -> Doubts:
    """The doubts that flags tell."""
    return Doubts(where(flags), message, reason)


def each(work: Callable[[T], R], records: Sequence[T]) -> list[R]:
    """What is made of each record; raises what is wrong with the only one, or Doubts of several."""
    made: list[R] = []
    refused: list[int] = []
    for at, record in enumerate(records):
        try:
            made.append(work(record))
        except Mismatch as error:
            if len(records) == 1:
                raise
            refused.append(at)
            last = error
    if refused:
        raise Doubts(refused, str(last), last.reason)
    return made


def located(work: Callable[[Values], object], values: Values) -> list[int]:
    """The places of values that `work` refuses, and of others next to them: the more, the more there are."""
    places: list[int] = []
    left = [(0, len(values))]
    refusals = 0
    while left:
        begin, end = left.pop()
        part = _between(values, begin, end)
        try:
            work(part)
        except Doubts as error:
            places += [begin + at for at in error.places]
        except REFUSED as error:
            refusals += 1
            named = _named(error, part)
            if end - begin <= _PARTS or refusals > max(_FEWEST, len(values) // FEW):
                places += range(begin, end)
            elif named is not None:
                places.append(begin + named)
                left += [(begin, begin + named), (begin + named + 1, end)]
            else:
                left += [(begin + one, begin + other) for one, other in cut(end - begin)]
    return sorted(places)


def _named(error: Exception, values: Values) -> int | None:
    """Where the text is that Arrow names in its message."""
    found = _TEXT.search(str(error)) if pa.types.is_string(values.type) else None
    at: int = compute.index(values, found[1]).as_py() if found else -1
    return at if at >= 0 else None


def _between(values: Values, begin: int, end: int) -> Values:
    # A slice of nested values has all that is inside of all; what is taken has its own only.
    if pa.types.is_nested(values.type):
        return values.take(pa.array(range(begin, end), pa.int64()))
    return values[begin:end]
