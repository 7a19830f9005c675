"""What each source value becomes under each declared type: the value that is stored, or a reason code."""

from __future__ import annotations

import datetime as dt
import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

UTC = dt.timezone.utc


@dataclass(frozen=True)
class Refused:
    """A value that is a dead letter."""

    reason: str


TYPE, RANGE, NULL, MALFORMED, DUPLICATE = (
    Refused(reason) for reason in ("wrong_type", "out_of_range", "null", "malformed", "duplicate")
)
NULLS = ("null", None)


def at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=UTC)


def single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def integers(bits: int) -> list[tuple[str, Any]]:
    top = 1 << (bits - 1)
    return [
        NULLS,
        ("0", 0),
        ("-1", -1),
        (str(top - 1), top - 1),
        (str(-top), -top),
        (str(top), RANGE),
        (str(-top - 1), RANGE),
        ("1.0", TYPE),
        ("1.5", TYPE),
        ("1e2", TYPE),
        ('"abc"', TYPE),
        ('"1"', TYPE),
        ('""', TYPE),
        ("true", TYPE),
        ("[1]", TYPE),
        ('{"a": 1}', TYPE),
        ("1" * 400, RANGE),
        ("NaN", MALFORMED),
        ("01", MALFORMED),
        ("+1", MALFORMED),
        ("0x10", MALFORMED),
    ]


TIMES: list[tuple[str, Any]] = [
    NULLS,
    ('"2026-01-02T03:04:05Z"', at(2026, 1, 2, 3, 4, 5)),
    ('"2026-01-02T03:04:05.123456Z"', at(2026, 1, 2, 3, 4, 5, 123456)),
    ('"2026-01-02T03:04:05.123456000Z"', at(2026, 1, 2, 3, 4, 5, 123456)),
    ('"2026-01-02T03:04:05.123456789Z"', RANGE),
    ('"2026-01-02T03:04:05+05:30"', at(2026, 1, 1, 21, 34, 5)),
    ('"2026-01-02T03:04:05-03:30"', at(2026, 1, 2, 6, 34, 5)),
    ('"2026-01-02 03:04:05"', at(2026, 1, 2, 3, 4, 5)),
    ('"2026-01-02T03:04"', at(2026, 1, 2, 3, 4)),
    ('"2026-01-02"', at(2026, 1, 2)),
    # What does not exist in zones that change their clocks exists in UTC.
    ('"2026-03-08T02:30:00"', at(2026, 3, 8, 2, 30)),
    ('"1500-01-01T00:00:00Z"', at(1500, 1, 1)),
    ('"1582-10-10T12:00:00Z"', at(1582, 10, 10, 12)),
    ('"0001-01-01T00:00:00Z"', at(1, 1, 1)),
    ('"9999-12-31T23:59:59.999999Z"', at(9999, 12, 31, 23, 59, 59, 999999)),
    ('"0001-01-01T00:00:00+01:00"', RANGE),
    ('"0000-12-31T23:00:00-02:00"', TYPE),
    ('"10000-01-01T00:00:00Z"', TYPE),
    ('"2026-13-01T00:00:00Z"', TYPE),
    ('"2026-02-30T00:00:00Z"', TYPE),
    ('"2026-01-02T24:00:00Z"', TYPE),
    ('"2026-01-02T03:04:60Z"', TYPE),
    ('"yesterday"', TYPE),
    ('""', TYPE),
    # Seconds, milliseconds, microseconds or nanoseconds: nobody says which.
    ("1767323045", TYPE),
    ("1767323045123", TYPE),
    ("1767323045123456", TYPE),
    ("1767323045123456789", TYPE),
    ("1767323045.5", TYPE),
    ('"1767323045"', TYPE),
    ("true", TYPE),
    ("{}", TYPE),
]
LOCAL_TIMES: list[tuple[str, Any]] = [
    NULLS,
    ('"2026-01-02T03:04:05"', dt.datetime(2026, 1, 2, 3, 4, 5)),
    ('"2026-03-08T02:30:00"', dt.datetime(2026, 3, 8, 2, 30)),
    ('"2026-01-02 03:04:05.5"', dt.datetime(2026, 1, 2, 3, 4, 5, 500000)),
    ('"1582-10-10T12:00:00"', dt.datetime(1582, 10, 10, 12)),
    ('"0001-01-01T00:00:00"', dt.datetime(1, 1, 1)),
    ('"2026-01-02T03:04:05Z"', TYPE),
    ('"2026-01-02T03:04:05+05:30"', TYPE),
    ('"2026-01-02T03:04:05.1234567"', RANGE),
    ("1767323045", TYPE),
    ('"noon"', TYPE),
]
JSON: dict[str, list[tuple[str, Any]]] = {
    "TINYINT": integers(8),
    "SMALLINT": integers(16),
    "INT": integers(32),
    "BIGINT": integers(64),
    "BIGINT NOT NULL": [("7", 7), ("null", NULL), ('"abc"', TYPE)],
    "BOOLEAN": [
        NULLS,
        ("true", True),
        ("false", False),
        ("1", TYPE),
        ("0", TYPE),
        ('"true"', TYPE),
        ('"yes"', TYPE),
        ("TRUE", MALFORMED),
        ("[]", TYPE),
    ],
    "FLOAT": [
        NULLS,
        ("1", 1.0),
        ("0.5", 0.5),
        ("-2.25", -2.25),
        ("0.1", single(0.1)),
        ("1e10", single(1e10)),
        ("16777217", single(16777217)),
        ("3.5e38", RANGE),
        ("1e400", RANGE),
        ("NaN", MALFORMED),
        ("Infinity", MALFORMED),
        ('"1.5"', TYPE),
        ('"NaN"', TYPE),
        ("true", TYPE),
    ],
    "DOUBLE": [
        NULLS,
        ("1", 1.0),
        ("-0.0", -0.0),
        ("0.1", 0.1),
        ("1e308", 1e308),
        ("5e-324", 5e-324),
        ("9007199254740993", 9007199254740992.0),
        ("1e309", RANGE),
        ("-1e309", RANGE),
        ("NaN", MALFORMED),
        ("-Infinity", MALFORMED),
        ('"1.5"', TYPE),
        ('"Infinity"', TYPE),
        ("false", TYPE),
        ("[1.5]", TYPE),
    ],
    "DECIMAL(10,2)": [
        NULLS,
        ("0", Decimal("0.00")),
        ("1", Decimal("1.00")),
        ("1.5", Decimal("1.50")),
        ("1.500", Decimal("1.50")),
        ("-12345678.90", Decimal("-12345678.90")),
        ("99999999.99", Decimal("99999999.99")),
        ("100000000", RANGE),
        ("1.505", RANGE),
        ("0.001", RANGE),
        ("1e2", Decimal("100.00")),
        ("1e-2", Decimal("0.01")),
        ('"12.30"', Decimal("12.30")),
        ('"1,5"', TYPE),
        ('"abc"', TYPE),
        ('"NaN"', TYPE),
        ('"Infinity"', TYPE),
        ("true", TYPE),
        ("1e999999999", RANGE),
        # Arrow knows powers of ten up to 38, and cuts these to 0.
        ("1e-61", RANGE),
        ("1e-85", RANGE),
        ('"31e-41"', RANGE),
        ("1" + "0" * 30 + "e-31", Decimal("0.10")),
        ("1" + "0" * 30 + "e-29", Decimal("10.00")),
    ],
    "DECIMAL(38,0)": [
        ("9" * 38, Decimal("9" * 38)),
        ("-" + "9" * 38, Decimal("-" + "9" * 38)),
        ("1" + "0" * 38, RANGE),
        ('"' + "9" * 39 + '"', RANGE),
        ("0.5", RANGE),
        ("12345678901234567890", Decimal("12345678901234567890")),
    ],
    "DECIMAL(38,18)": [
        ("0.123456789012345678", Decimal("0.123456789012345678")),
        ("0.1234567890123456789", RANGE),
        ("12345678901234567890.5", Decimal("12345678901234567890.500000000000000000")),
        ("123456789012345678901", RANGE),
        # Arrow multiplies them by 10^18 in 128 bits, where they wrap around to numbers that would fit.
        ("1111111111111111111111111111", RANGE),
        ("1e30", RANGE),
        ('"1111111111111111111111111111"', RANGE),
        ("12e18", Decimal("12000000000000000000.000000000000000000")),
        ("12345678901234567890.123456789012345678", Decimal("12345678901234567890.123456789012345678")),
    ],
    "STRING": [
        NULLS,
        ('"a"', "a"),
        ('""', ""),
        ('"null"', "null"),
        ('"\\u00e9"', "é"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"a\\u0000b"', "a\0b"),
        ('"\\ud83d"', TYPE),
        ("1", TYPE),
        ("true", TYPE),
        ("{}", TYPE),
        ('["a"]', TYPE),
        ('"7c9e6679-7425-40de-944b-e07fc1f90ae7"', "7c9e6679-7425-40de-944b-e07fc1f90ae7"),
        ('"03:04:05"', "03:04:05"),
    ],
    "BINARY": [
        NULLS,
        ('"AAH/"', b"\x00\x01\xff"),
        ('""', b""),
        ('"YQ=="', b"a"),
        ('"YQ"', TYPE),
        ('"not base64!"', TYPE),
        ("1", TYPE),
        ("[0,1]", TYPE),
    ],
    "DATE": [
        NULLS,
        ('"2026-01-02"', dt.date(2026, 1, 2)),
        ('"1970-01-01"', dt.date(1970, 1, 1)),
        ('"1582-10-04"', dt.date(1582, 10, 4)),
        ('"1582-10-10"', dt.date(1582, 10, 10)),
        ('"1500-02-28"', dt.date(1500, 2, 28)),
        ('"0001-01-01"', dt.date(1, 1, 1)),
        ('"9999-12-31"', dt.date(9999, 12, 31)),
        ('"1500-02-29"', TYPE),
        ('"0000-01-01"', TYPE),
        ('"2026-02-29"', TYPE),
        ('"2026-1-2"', TYPE),
        ('"02/01/2026"', TYPE),
        ('"2026-01-02T00:00:00Z"', TYPE),
        ("20454", TYPE),
        ('""', TYPE),
    ],
    "TIMESTAMP": TIMES,
    "TIMESTAMP_NTZ": LOCAL_TIMES,
    "ARRAY<INT>": [
        NULLS,
        ("[]", []),
        ("[1, null]", [1, None]),
        ('[1, "a"]', TYPE),
        ("[3000000000]", RANGE),
        ("1", TYPE),
        ("{}", TYPE),
    ],
    "STRUCT<A: INT, a2: STRING>": [
        NULLS,
        ("{}", {"A": None, "a2": None}),
        ('{"A": 1, "a2": "x"}', {"A": 1, "a2": "x"}),
        ('{"a": 1, "A2": "x"}', {"A": None, "a2": None}),
        ('{"A": "x"}', TYPE),
        ('{"A": 1, "a2": "x", "A": 2}', DUPLICATE),
        ('{"A": 1, "other": 1, "other": 2}', {"A": 1, "a2": None}),
        ("[]", TYPE),
        ('"x"', TYPE),
    ],
    "MAP<STRING, INT>": [
        NULLS,
        ("{}", {}),
        ('{"k": 1, "K": 2}', {"k": 1, "K": 2}),
        ('{"k": "x"}', TYPE),
        ('{"k": 1, "l": 2, "k": 1}', DUPLICATE),
        ("[]", TYPE),
    ],
    "MAP<INT, INT>": [("{}", {}), ('{"1": 1, "01": 2}', DUPLICATE)],
}
"""By declared type: a value as JSON writes it, and what becomes of it."""

CSV: dict[str, list[tuple[str, Any]]] = {
    "BIGINT": [
        ("", None),
        ("1", 1),
        ("-9223372036854775808", -(1 << 63)),
        ("9223372036854775808", RANGE),
        ("abc", TYPE),
        ("1.0", TYPE),
        (" 1", TYPE),
        ("0x10", TYPE),
        ("1_000", TYPE),
        ("NULL", TYPE),
    ],
    "BOOLEAN": [
        ("", None),
        ("true", True),
        ("FALSE", False),
        ("1", True),
        ("0", False),
        ("yes", TYPE),
        ("2", TYPE),
    ],
    "DOUBLE": [
        ("", None),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("NaN", TYPE),
        ("Infinity", TYPE),
        ("-inf", TYPE),
        ("1e400", RANGE),
        ("1,5", MALFORMED),
        ("abc", TYPE),
    ],
    "DECIMAL(10,2)": [
        ("", None),
        ("1.5", Decimal("1.50")),
        ("1.505", RANGE),
        ("123456789.00", RANGE),
        ("31e-41", RANGE),
        ("3100e-3", Decimal("3.10")),
        ("3100e-2", Decimal("31.00")),
        ("x", TYPE),
    ],
    "DECIMAL(38,0)": [
        ("", None),
        ("9" * 38, Decimal("9" * 38)),
        ("34028236" + "0" * 31, RANGE),
        ("3.4028236e38", RANGE),
        ("34e5", Decimal("3400000")),
        ("9" * 39, RANGE),
    ],
    "DECIMAL(38,18)": [
        ("", None),
        ("1111111111111111111111111111", RANGE),
        ("12345678901234567890.5", Decimal("12345678901234567890.500000000000000000")),
    ],
    "STRING": [("", None), ("a", "a"), ('"a,b"', "a,b"), ('"say ""x"""', 'say "x"'), ("NULL", "NULL")],
    "DATE": [
        ("", None),
        ("2026-01-02", dt.date(2026, 1, 2)),
        ("1582-10-10", dt.date(1582, 10, 10)),
        ("2.1.2026", TYPE),
    ],
    "TIMESTAMP": [
        ("", None),
        ("2026-01-02T03:04:05Z", at(2026, 1, 2, 3, 4, 5)),
        ("2026-01-02 03:04:05", at(2026, 1, 2, 3, 4, 5)),
        ("1767323045", TYPE),
        ("2026-01-02T03:04:05.1234567Z", RANGE),
    ],
    "BINARY": [("", None), ("AAH/", b"\x00\x01\xff"), ("%%", TYPE)],
}
"""By declared type: a field as CSV writes it, and what becomes of it."""


def columns(cases: dict[str, list[tuple[str, Any]]]) -> dict[str, str]:
    """A name for the column of each declared type but those that are NOT NULL, which every record needs."""
    return {kind: f"c{number}" for number, kind in enumerate(cases) if not kind.endswith("NOT NULL")}


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, down to the sign of zero."""
    if isinstance(other, float) and isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other) and not math.isnan(one)
    if isinstance(other, dict) and isinstance(one, list):
        one = dict(one)
    return type(one) is type(other) and bool(one == other)
