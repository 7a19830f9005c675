"""What programs give to functions, checked before it is used; raises UsageError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calve.errors import UsageError


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


def iceberg_position(value: object) -> dict[str, Any]:
    """`value`, if it is a position in an Iceberg table."""
    if isinstance(value, Mapping) and set(value) <= {"snapshot", "state", "behind"} and "snapshot" in value:
        number = value["snapshot"]
        is_snapshot = number is None or (isinstance(number, int) and not isinstance(number, bool))
        if is_snapshot and isinstance(value.get("behind", ""), str) and value.get("state", True) is True:
            return dict(value)
    raise UsageError(
        f"Cannot read behind {_shown(value)}: it is not a position; give the 'position' of an earlier batch, "
        'or {"snapshot": <id of a snapshot>}'
    )


def _shown(value: object) -> str:
    found = repr(value)
    return found if len(found) <= 80 else f"{found[:79]}…"
