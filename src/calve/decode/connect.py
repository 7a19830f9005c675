"""Values as Kafka Connect's JSON writes them: what a column's values look like, and how one is read.

The schema part of a record says how each of its values is written; where there is none, hints do.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

from calve.decode.arrow import is_primitive
from calve.decode.division import Mismatch
from calve.decode.json import Coded, Number, require, scalar
from calve.decode.scalars import FIRST_MICRO, INTEGERS, LAST_MICRO, OutOfRange, parse_decimal, parse_integer
from calve.schema import Array, Column, Decimal, Map, Schema, Struct, Type

Part: TypeAlias = Mapping[str, Any]
"""The schema part of one value."""

Reader: TypeAlias = Callable[[Any, "Written"], Any]

_DAY = 86_400_000_000
_LARGEST_SCALE = 1000
_LONGEST_NUMBER = 400
_EXACT = decimal.Context(prec=2000)

_PER_MICRO = {"ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
_TIMES = {
    "io.debezium.time.Timestamp": "ms",
    "org.apache.kafka.connect.data.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
}
_CLOCKS = {
    "io.debezium.time.Time": "ms",
    "org.apache.kafka.connect.data.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
}
_DATES = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_STAMPS = ("timestamp", "timestamp_ntz")
_WHOLE = ("int8", "int16", "int32", "int64")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Hints:
    """How values are written that no schema part describes."""

    timestamps: str = "us"
    decimals: str | None = None


@dataclass(frozen=True)
class Written(Coded):
    """A type without parts whose values are written in a way of Kafka Connect's."""

    kind: Type
    how: str
    scale: int = 0

    def read(self, value: Any) -> Any:
        return _READERS[self.how](value, self)


def written(schema: Schema, part: Part | None, hints: Hints) -> Schema:
    """`schema`, in which `Written` stands for the types that the part or the hints say more about."""
    return _written_row(schema, None if part is None else json.dumps(part), hints)


@lru_cache(maxsize=64)
def _written_row(schema: Schema, part: str | None, hints: Hints) -> Schema:
    told = None if part is None else json.loads(part)
    return Schema(_columns(schema.columns, told, hints, ""))


def members(part: Part) -> dict[str, Part]:
    """The schema parts of a struct's fields, by name."""
    fields = part.get("fields")
    if not isinstance(fields, list) or not all(isinstance(one, dict) for one in fields):
        raise Mismatch("the schema part is no struct")
    return {str(one.get("field")): one for one in fields}


def _columns(columns: Iterable[Column], part: Part | None, hints: Hints, path: str) -> tuple[Column, ...]:
    fields = {} if part is None else members(part)
    return tuple(
        replace(column, type=_written(column.type, fields.get(column.name), hints, path + column.name))
        for column in columns
    )


def _written(kind: Type, part: Part | None, hints: Hints, path: str) -> Any:
    told = {} if part is None else part
    if isinstance(kind, Struct) and told.get("type", "struct") == "struct":
        return Struct(_columns(kind.columns, part, hints, f"{path}."))
    if isinstance(kind, Array) and told.get("type", "array") == "array":
        return replace(kind, element=_written(kind.element, told.get("items"), hints, f"{path}[]"))
    if isinstance(kind, Map) and told.get("type", "map") == "map":
        return replace(kind, value=_written(kind.value, told.get("values"), hints, f"{path}[]"))
    return _hinted(kind, hints) if part is None else _told(kind, part, path)


def _hinted(kind: Type, hints: Hints) -> Any:
    """How a value is written that no schema part describes."""
    if isinstance(kind, Decimal):
        how = {"base64": "base64", "string": "number", None: "either"}[hints.decimals]
        return Written(kind, how, kind.scale)
    if is_primitive(kind, *_STAMPS):
        return Written(kind, f"{hints.timestamps} or text")
    return Written(kind, "days or text") if is_primitive(kind, "date") else kind


def _told(kind: Type, part: Part, path: str) -> Any:
    """How a value is written that the schema part describes."""
    how = _how(kind, str(part.get("type")), part.get("name"))
    if how is None:
        says = " ".join(str(part[key]) for key in ("type", "name") if part.get(key))
        raise Mismatch(f"column '{path}': the record's schema says {says}, which is not a {kind.ddl()}")
    if how == "json":
        return kind
    return Written(kind, how, _scale(part, path) if how == "base64" else 0)


def _how(kind: Type, type_: str, name: Any) -> str | None:
    """By the type and the name that a schema part gives: the way in which a value is written, if it fits."""
    if isinstance(kind, Decimal):
        return _how_of_decimal(type_, name)
    if name in _DATES:
        return "days" if is_primitive(kind, "date") else None
    if name in _TIMES:
        return _TIMES[name] if is_primitive(kind, *_STAMPS) else None
    if name in _CLOCKS and is_primitive(kind, "string"):
        return f"clock {_CLOCKS[name]}"
    if name in (_DECIMAL, _VARIABLE):
        return None
    fitting = {
        **dict.fromkeys(_WHOLE, INTEGERS),
        "boolean": ("boolean",),
        "float": ("float", "double"),
        "double": ("double",),
        "string": ("string", "date", *_STAMPS),
        "bytes": ("binary",),
    }
    return "json" if is_primitive(kind, *fitting.get(type_, ())) else None


def _how_of_decimal(type_: str, name: Any) -> str | None:
    if name in (_DECIMAL, _VARIABLE):
        return "base64" if name == _DECIMAL else "variable"
    named_otherwise = name in (*_DATES, *_TIMES, *_CLOCKS)
    fits = type_ in (*_WHOLE, "float", "double", "string") and not named_otherwise
    return "number" if fits else None


def _scale(part: Part, path: str) -> int:
    try:
        return int(part["parameters"]["scale"])
    except (KeyError, TypeError, ValueError):
        raise Mismatch(f"column '{path}': the record's schema says no scale of the decimal") from None


def _require_range(holds: bool, why: str = "out of range") -> None:
    if not holds:
        raise OutOfRange(why)


def _instant(value: Any, written: Written, unit: str) -> int:
    """Microseconds since 1970 of a number of `unit`."""
    micros = _micros(_integer(value), unit)
    _require_range(FIRST_MICRO <= micros <= LAST_MICRO)
    return micros


def _micros(number: int, unit: str) -> int:
    times, per = _PER_MICRO[unit]
    _require_range(number % per == 0, "finer than a microsecond")
    return number * times // per


def _integer(value: Any) -> int:
    require(type(value) is Number, "not a number")
    return parse_integer(value, "bigint")


def _days(value: Any, written: Written) -> int:
    day = _integer(value)
    _require_range(FIRST_MICRO <= day * _DAY <= LAST_MICRO)
    return day


def _clock(value: Any, written: Written, unit: str) -> str:
    return clock(_micros(_integer(value), unit))


def clock(micros: int) -> str:
    """A time of day as text; midnight at the end of a day is 24:00:00, as databases have it."""
    _require_range(0 <= micros <= _DAY, "no time of a day")
    seconds, rest = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:06}" if rest else text


def _number(value: Any, written: Written) -> decimal.Decimal:
    require(type(value) in (Number, str), "not a number")
    return parse_decimal(value, _decimal(written))


def _base64(value: Any, written: Written) -> decimal.Decimal:
    require(type(value) is str, "not base64")
    return _unscaled(value, written.scale, written)


def _either(value: Any, written: Written) -> decimal.Decimal:
    """Base64 or a number as text; four digits may be both, and then nobody can tell which is meant."""
    if type(value) is dict:
        return _variable(value, written)
    if type(value) is not str or not _BASE64.fullmatch(value):
        return _number(value, written)
    require(not _NUMBER.fullmatch(value), "a number as text, or base64? say it with debezium.decimals")
    return _base64(value, written)


def _variable(value: Any, written: Written) -> decimal.Decimal:
    require(type(value) is dict and type(value.get("value")) is str, "not a scale and a value")
    scale = _integer(value.get("scale"))
    _require_range(abs(scale) <= _LARGEST_SCALE)
    return _unscaled(value["value"], scale, written)


def _unscaled(text: str, scale: int, written: Written) -> decimal.Decimal:
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("not base64") from None
    require(bool(raw), "not a number")
    _require_range(len(raw) <= _LONGEST_NUMBER)
    number = decimal.Decimal(int.from_bytes(raw, "big", signed=True))
    return parse_decimal(format(number.scaleb(-scale, _EXACT), "f"), _decimal(written))


def _decimal(written: Written) -> Decimal:
    assert isinstance(written.kind, Decimal)
    return written.kind


def _or_text(reader: Reader) -> Reader:
    def read(value: Any, written: Written) -> Any:
        return scalar(value, written.kind) if type(value) is str else reader(value, written)

    return read


_READERS: dict[str, Reader] = {
    "days": _days,
    "number": _number,
    "base64": _base64,
    "either": _either,
    "variable": _variable,
    **{unit: partial(_instant, unit=unit) for unit in _PER_MICRO},
    **{f"clock {unit}": partial(_clock, unit=unit) for unit in _PER_MICRO},
}
_READERS |= {f"{how} or text": _or_text(_READERS[how]) for how in ("days", *_PER_MICRO)}
