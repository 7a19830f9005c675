"""Whether the process that runs a pipeline lives, as `calve run --standby` sees it. Pure.

The process that holds the epoch shows life by its commits and, where it has nothing to commit, by a table
property that changes. It decides how long a standby waits and nothing else: who may commit is decided by the
mark. No clock is compared with another machine's.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from calve.position import Mark

PREFIX = "calve.alive."
BEATS = 3
"""How many heartbeats a standby misses before it takes over."""


def property_name(sink_id: str, branch: str = "main") -> str:
    """The table property that holds the heartbeat of `sink_id` on `branch`."""
    return f"{PREFIX}{sink_id}" if branch == "main" else f"{PREFIX}{sink_id}.{branch}"


@dataclass(frozen=True)
class Heartbeat:
    """What the holder of an epoch says of itself."""

    epoch: int
    writer: str
    number: int
    seconds: float
    """After how many seconds of silence it may be taken for dead."""
    ended: bool = False
    """Whether it has ended and waits for nobody."""

    def dump(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def is_of(self, mark: Mark) -> bool:
        """Whether it comes from the process that wrote `mark`."""
        return (self.epoch, self.writer) == (mark.epoch, mark.writer)


def parse(text: str | None) -> Heartbeat | None:
    """The heartbeat that a property holds; none where it cannot be read."""
    try:
        return Heartbeat(**json.loads(text)) if text else None
    except (TypeError, ValueError):
        return None


class Watch:
    """For how long the holder of a table has shown no life."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: tuple[Mark, Heartbeat | None] | None = None
        self._since = 0.0

    def is_over(self, mark: Mark | None, beat: Heartbeat | None, now: float) -> bool:
        """Whether the pipeline may be taken over, after a look at the table at `now`."""
        if mark is None:
            return True
        own = beat if beat is not None and beat.is_of(mark) else None
        if own is not None and own.ended:
            return True
        if (mark, own) != self._seen:
            self._seen, self._since = (mark, own), now
        return now - self._since >= max(self._seconds, own.seconds if own else 0.0)
