"""What programs give to functions, checked before it is used; raises UsageError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calve.errors import UsageError
from calve.position import Position
from calve.sources import iceberg_position as position


def text(value: object, what: str, advice: str) -> str:
    """`value`, if it is text; `what` completes "Cannot …"."""
    if not isinstance(value, str):
        raise UsageError(f"Cannot {what}: {_shown(value)} is not text; {advice}")
    return value


def whole(value: object, what: str, advice: str, least: int | None = None) -> int:
    """`value`, if it is a whole number, and not below `least`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"Cannot {what}: {_shown(value)} is not a whole number; {advice}")
    if least is not None and value < least:
        raise UsageError(f"Cannot {what}: {value} is below {least}; {advice}")
    return value


def iceberg_position(value: Any) -> Position:
    """`value`, if it is a position in an Iceberg table."""
    found = dict(value) if isinstance(value, Mapping) else value
    try:
        position.check(found)
    except ValueError:
        raise UsageError(
            f"Cannot read behind {_shown(value)}: it is not a position; give the 'position' of an earlier "
            'batch, or {"snapshot": <id of a snapshot>}'
        ) from None
    return dict(found)


def _shown(value: object) -> str:
    found = repr(value)
    return found if len(found) <= 80 else f"{found[:79]}…"
