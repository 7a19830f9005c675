"""When a commit is due. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from calve.sources.source import Waiting

POLL = 0.5
"""How many seconds pass, at most, until the source is asked again."""
_LEAST = 0.05


@dataclass(frozen=True)
class Thresholds:
    """What makes a commit due, whichever comes first."""

    rows: int
    seconds: float
    bytes: int | None = None


def is_due(waiting: Waiting, thresholds: Thresholds, elapsed: float, *, at_once: bool = False) -> bool:
    """Whether what waits is to be committed now, `elapsed` seconds after the last commit."""
    if waiting.rows == 0:
        return False
    if at_once or waiting.more or waiting.ended:
        return True
    enough_bytes = thresholds.bytes is not None and waiting.bytes >= thresholds.bytes
    return waiting.rows >= thresholds.rows or enough_bytes or elapsed >= thresholds.seconds


def pause(waiting: Waiting, left: float) -> float:
    """How long to wait before looking again: not beyond the time at which what waits is due, `left` seconds
    from now."""
    return POLL if waiting.rows == 0 else min(POLL, max(left, _LEAST))
