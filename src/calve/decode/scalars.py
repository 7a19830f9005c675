"""Texts that stand for values: one at a time with the reason, or a whole Arrow array at once.

Both ways accept the same texts for the same values, but for a few that only the slow one knows:
where `cast` raises, `parse` decides.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import math
import re
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from calve.decode.arrow import Values, arrow_type, compute, is_primitive
from calve.decode.division import doubtful
from calve.schema import Decimal, Primitive, Type

WIDEST = 38
"""The most digits that a decimal of Iceberg, or one of Arrow in 128 bits, has."""

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
INTEGERS = tuple(_BITS)
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_DAY = 86_400_000_000
FIRST_MICRO = (datetime.date(1, 1, 1).toordinal() - _EPOCH_DAY) * _DAY
LAST_MICRO = (datetime.date(9999, 12, 31).toordinal() - _EPOCH_DAY + 1) * _DAY - 1

_EXACT_CONTEXT = decimal.Context(prec=4 * WIDEST, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)

_INTEGER = re.compile(r"-?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(?:(Z)|([+-])(\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)


EXACT = {"float": 2**24, "double": 2**53}
"""Up to where these types hold all whole numbers."""


class OutOfRange(ValueError):
    """A value of the right kind that the type cannot hold as it is."""

    def __init__(self, why: str = "out of range") -> None:
        super().__init__(why)


def reason_of(error: ValueError) -> str:
    """The reason code of a value that was refused."""
    return "out_of_range" if isinstance(error, OutOfRange) else "wrong_type"


def parse(text: str, kind: Type) -> Any:
    """The value of `kind` that `text` stands for, as `pyarrow.array` takes it; raises ValueError."""
    if isinstance(kind, Decimal):
        return parse_decimal(text, kind)
    assert isinstance(kind, Primitive)
    if kind.name in _BITS:
        return parse_integer(text, kind.name)
    return _PARSERS[kind.name](text)


def parse_integer(text: str, name: str) -> int:
    """A whole number within the bits of the type."""
    if not _INTEGER.fullmatch(text) or len(text) > 4000:
        raise ValueError("not a whole number")
    value, limit = int(text), 1 << (_BITS[name] - 1)
    if not -limit <= value < limit:
        raise OutOfRange
    return value


def parse_decimal(text: str, kind: Decimal) -> decimal.Decimal:
    """An exact number of at most so many digits; nothing is rounded."""
    if not _NUMBER.fullmatch(text) or len(text) > 4000:
        raise ValueError("not a number")
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise OutOfRange from None
    if not value:
        return decimal.Decimal(0)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if value.adjusted() >= kind.precision - kind.scale or _last_digit(digits, exponent) < -kind.scale:
        raise OutOfRange
    # Arrow rescales it, and refuses some with more zeros behind the point than the column has places.
    return value.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=_EXACT_CONTEXT)


def _last_digit(digits: tuple[int, ...], exponent: int) -> int:
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return exponent + zeros


def parse_double(text: str) -> float:
    """A number that a DOUBLE can hold, rounded to the nearest."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number")
    value = float(text)
    if math.isinf(value):
        raise OutOfRange
    return value


def parse_float(text: str) -> float:
    """A number that a FLOAT can hold."""
    value = parse_double(text)
    try:
        struct.pack("<f", value)
    except OverflowError:
        raise OutOfRange from None
    return value


def is_rounded(text: str, kind: Type) -> bool:
    """Whether `text` is a whole number, written as one, that a column of binary fractions would change."""
    if not isinstance(kind, Primitive) or kind.name not in EXACT or not _INTEGER.fullmatch(text):
        return False
    if len(text) <= 7:
        return False
    try:
        near = struct.unpack("<f", struct.pack("<f", float(text)))[0] if kind.name == "float" else float(text)
        return decimal.Decimal(near) != decimal.Decimal(text)
    except OverflowError:
        return True


def _parse_boolean(text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise ValueError("neither true nor false")
    return known[text.lower()]


def _parse_date(text: str) -> int:
    found = _DATE.fullmatch(text)
    if not found:
        raise ValueError("not a date")
    return datetime.date(int(found[1]), int(found[2]), int(found[3])).toordinal() - _EPOCH_DAY


def _parse_binary(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("not base64") from None


def _parse_timestamp(text: str) -> int:
    return _micros(text)[0]


def _parse_timestamp_ntz(text: str) -> int:
    micros, zoned = _micros(text)
    if zoned:
        raise ValueError("it has a time zone")
    return micros


def _micros(text: str) -> tuple[int, bool]:
    """Microseconds since 1970, and whether the text named a zone; without one it is UTC."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError("not a time of ISO 8601")
    day = datetime.date(int(found[1]), int(found[2]), int(found[3])).toordinal() - _EPOCH_DAY
    hour, minute, second = (int(found[part] or 0) for part in (4, 5, 6))
    datetime.time(hour, minute, second)
    seconds = (hour * 60 + minute) * 60 + second
    micros = day * _DAY + seconds * 1_000_000 + _fraction(found[7]) - _offset(found)
    if not FIRST_MICRO <= micros <= LAST_MICRO:
        raise OutOfRange
    return micros, bool(found[8] or found[9])


def _fraction(digits: str | None) -> int:
    if digits is None:
        return 0
    if digits[6:].strip("0"):
        raise OutOfRange("finer than a microsecond")
    return int(digits[:6].ljust(6, "0"))


def _offset(found: re.Match[str]) -> int:
    if not found[9]:
        return 0
    hours, minutes = int(found[10]), int(found[11] or 0)
    datetime.time(hours, minutes)
    return (-1 if found[9] == "-" else 1) * (hours * 60 + minutes) * 60_000_000


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "boolean": _parse_boolean,
    "float": parse_float,
    "double": parse_double,
    "binary": _parse_binary,
    "date": _parse_date,
    "timestamp": _parse_timestamp,
    "timestamp_ntz": _parse_timestamp_ntz,
}


def cast(texts: Values, kind: Type) -> Values:
    """The values that an array of texts stands for; raises ArrowInvalid or Doubts where `parse` decides."""
    if is_primitive(kind, "string"):
        return texts
    if is_primitive(kind, "binary"):
        return _cast_binary(texts)
    if is_primitive(kind, "timestamp", "timestamp_ntz"):
        values = in_calendar(_cast_time(texts, kind))
        first = compute.min(values.view(pa.int64())).as_py()
        if first is not None and first < FIRST_MICRO + _DAY:
            # Of the year 0, which is none, a zone may make the year 1.
            raise pa.ArrowInvalid("a year that may be none")
        return values
    if is_primitive(kind, "float", "double"):
        return narrowed(texts.cast(pa.float64()), kind)
    if is_primitive(kind, *_BITS):
        _refuse_hexadecimal(texts)
    if isinstance(kind, Decimal):
        _refuse_wide(texts, kind)
    values = texts.cast(arrow_type(kind))
    return in_calendar(values) if is_primitive(kind, "date") else values


def _refuse_hexadecimal(texts: Values) -> None:
    if compute.any(compute.match_substring(texts, "x", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("a hexadecimal number")


def _refuse_wide(texts: Values, kind: Decimal) -> None:
    """Raise Doubts for numbers that may not fit into 128 bits at any step of Arrow's cast, which checks none.

    Arrow reads the digits of a text and multiplies by a power of ten. Modulo 2^128 the result is right: so it
    is right where the digits and the number fit; the nearest DOUBLE tells whether the number does.
    """
    longest = compute.max(compute.binary_length(texts)).as_py() or 0
    if longest > WIDEST:
        raise doubtful(compute.greater(compute.binary_length(texts), WIDEST), "a long number")
    has_exponents = _may_have_exponents(texts)
    if longest + kind.scale <= WIDEST and not has_exponents:
        return
    if has_exponents:
        is_small = compute.match_substring_regex(texts, "[eE]-")
        if compute.any(is_small).as_py():
            # Arrow divides by a power of ten beyond those that it knows, and cuts the number to nothing.
            raise doubtful(is_small, "a number with a negative exponent")
    limit = float(10 ** (kind.precision - kind.scale)) * 1.000001
    is_wide = compute.greater(compute.abs(texts.cast(pa.float64())), limit)
    if compute.any(is_wide).as_py():
        raise doubtful(is_wide, "a number out of range")


def _may_have_exponents(texts: Values) -> bool:
    """Whether one of the texts, or of others in the same memory, has an exponent."""
    data = texts.buffers()[2]
    held = b"" if data is None else data.to_pybytes()
    return b"e" in held or b"E" in held


def narrowed(values: Values, kind: Type) -> Values:
    """Doubles as the type has them; raises ArrowInvalid where one is not finite."""
    result = values.cast(arrow_type(kind), safe=False)
    if not compute.all(compute.is_finite(result), min_count=0).as_py():
        raise pa.ArrowInvalid("a number is not finite")
    return result


def _cast_binary(texts: Values) -> Values:
    try:
        values = [None if text is None else _parse_binary(text) for text in texts.to_pylist()]
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from None
    return pa.array(values, pa.binary())


def _cast_time(texts: Values, kind: Type) -> Values:
    local = pa.timestamp("us")
    if is_primitive(kind, "timestamp_ntz"):
        return texts.cast(local)
    try:
        return texts.cast(arrow_type(kind))
    except pa.ArrowInvalid as error:
        try:
            return texts.cast(local).cast(pa.int64()).cast(arrow_type(kind))
        except pa.ArrowInvalid as other:
            # Where some name a zone, the text that the first one complains of is the odd one.
            raise error if "no zone offset" in str(other) else other from None


def in_calendar(values: Values) -> Values:
    """Refuse the years that Arrow reads and other readers do not have."""
    width = pa.int32() if pa.types.is_date(values.type) else pa.int64()
    bounds = compute.min_max(values.view(width)).as_py()
    unit = _DAY if width == pa.int32() else 1
    if bounds["min"] is not None:
        low, high = bounds["min"] * unit, bounds["max"] * unit
        if low < FIRST_MICRO or high > LAST_MICRO:
            raise pa.ArrowInvalid("out of the calendar")
    return values
