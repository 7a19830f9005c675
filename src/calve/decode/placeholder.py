"""What Debezium writes where PostgreSQL did not send the value of a large column that did not change."""

from __future__ import annotations

import base64
import hashlib
import uuid
from typing import Any

from calve.decode.json import Number
from calve.schema import Array, Decimal, Map, Type

TEXT = "__debezium_unavailable_value"
ENCODED = base64.b64encode(TEXT.encode()).decode()
AS_HSTORE = f'{{"{TEXT}":"{TEXT}"}}'
# Java's UUID.nameUUIDFromBytes: version 3 without a namespace.
AS_UUID = str(uuid.UUID(bytes=hashlib.md5(TEXT.encode(), usedforsecurity=False).digest(), version=3))

_BYTES = TEXT.encode()
LENGTH = len(_BYTES)
_DIGITS = [base64.b64encode(bytes([one])).decode() for one in _BYTES]


def is_placeholder(value: Any, kind: Type) -> bool:
    """Whether `value`, as JSON has it, stands for one of `kind` that was not sent."""
    if isinstance(kind, Array):
        return type(value) is list and (value in ([TEXT], [ENCODED], [AS_UUID]) or _is_bytes(value))
    if isinstance(kind, Map):
        return bool(value == {TEXT: TEXT})
    if type(value) is not str:
        return False
    if isinstance(kind, Decimal) or kind.ddl() == "BINARY":
        return value in (TEXT, ENCODED)
    return value in (TEXT, AS_HSTORE)


def _is_bytes(values: list[Any]) -> bool:
    """Whether the elements are the placeholder's bytes, as numbers of whatever kind."""
    return len(values) == len(_BYTES) and all(map(_is_byte, values, _BYTES, _DIGITS))


def _is_byte(value: Any, byte: int, digits: str) -> bool:
    if type(value) is Number:
        return float(value) == byte
    if type(value) is dict:
        return value.keys() == {"scale", "value"} and value["value"] == digits
    return bool(value == digits)
