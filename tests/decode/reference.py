"""What a text of JSON or CSV stands for under a declared type, worked out without Calve and without Arrow.

Numbers are fractions of Python, days are counted here, and the grammars are written out anew.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from fractions import Fraction
from typing import Any

from tests.decode.values import DUPLICATE, MALFORMED, NULL, RANGE, TYPE

BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"([T ]([0-9]{2})(:([0-9]{2})(:([0-9]{2})(\.([0-9]{1,9}))?)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
)
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FIRST, _LAST = -62135596800000000, 253402300799999999


class Exact:
    """A fraction that a decimal stands for."""

    def __init__(self, value: Fraction, scale: int) -> None:
        self.value, self.scale = value, scale


def of_json(token: str, kind: str) -> Any:
    """The value that a token of JSON stands for, or why there is none."""
    if token == "null":
        return None
    if _JSON_NUMBER.fullmatch(token):
        return _of_number(token, kind)
    try:
        found = json.loads(token)
    except ValueError:
        return MALFORMED
    if isinstance(found, float):
        return MALFORMED
    if isinstance(found, bool):
        return found if kind == "BOOLEAN" else TYPE
    return _of_json_text(found, kind) if isinstance(found, str) else TYPE


def _of_number(token: str, kind: str) -> Any:
    if kind in BITS:
        return _whole(token, kind) if re.fullmatch(r"-?[0-9]+", token) else TYPE
    if kind.startswith("DECIMAL"):
        return _decimal(token, kind)
    return _binary(token, kind) if kind in ("FLOAT", "DOUBLE") else TYPE


def _of_json_text(text: str, kind: str) -> Any:
    if kind in BITS or kind in ("FLOAT", "DOUBLE", "BOOLEAN"):
        return TYPE
    if kind == "STRING":
        return TYPE if any(0xD800 <= ord(sign) < 0xE000 for sign in text) else text
    return of_text(text, kind)


def of_csv(text: str, kind: str) -> Any:
    """The value that a field of CSV stands for, or why there is none."""
    if text == "":
        return None
    if kind == "STRING":
        return text
    if kind in BITS:
        return _whole(text, kind) if re.fullmatch(r"-?[0-9]+", text) else TYPE
    if kind == "BOOLEAN":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), TYPE)
    if kind in ("FLOAT", "DOUBLE"):
        return _binary(text, kind) if _NUMBER.fullmatch(text) else TYPE
    return of_text(text, kind)


def of_text(text: str, kind: str) -> Any:
    if kind.startswith("DECIMAL"):
        return _decimal(text, kind) if _NUMBER.fullmatch(text) else TYPE
    if kind == "BINARY":
        return _bytes(text)
    if kind == "DATE":
        found = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", text)
        day = found and days(*map(int, found.groups()))
        return TYPE if day is None else day
    return _instant(text, kind)


def _whole(text: str, kind: str) -> Any:
    value, top = int(text), 2 ** (BITS[kind] - 1)
    return value if -top <= value < top else RANGE


def _decimal(text: str, kind: str) -> Any:
    precision, scale = map(int, re.findall(r"[0-9]+", kind))
    digits, _, exponent = text.lower().partition("e")
    if len(exponent) > 6:
        return RANGE if re.search("[1-9]", digits) else Exact(Fraction(0), scale)
    value = Fraction(digits.rstrip(".") if digits.endswith(".") else digits) * Fraction(10) ** int(
        exponent or 0
    )
    whole = value * 10**scale
    return Exact(value, scale) if whole.denominator == 1 and abs(whole) < 10**precision else RANGE


def _binary(text: str, kind: str) -> Any:
    value = float(text)
    try:
        value = struct.unpack("<f", struct.pack("<f", value))[0] if kind == "FLOAT" else value
    except OverflowError:
        return RANGE
    return RANGE if value in (float("inf"), float("-inf")) else value


def _bytes(text: str) -> Any:
    if not re.fullmatch(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text):
        return TYPE
    return base64.b64decode(text)


def days(year: int, month: int, day: int) -> int | None:
    """Days since 1970 of a day of the calendar of today, if it is one."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year == 0 or not 1 <= month <= 12:
        return None
    if not 1 <= day <= _LENGTHS[month - 1] + (1 if month == 2 and is_leap else 0):
        return None
    before = year - 1
    count = before * 365 + before // 4 - before // 100 + before // 400 - 719162
    count += sum(_LENGTHS[: month - 1]) + (1 if month > 2 and is_leap else 0)
    return count + day - 1


def _instant(text: str, kind: str) -> Any:
    found = _TIME.fullmatch(text)
    day = found and days(*(int(found[part]) for part in (1, 2, 3)))
    if found is None or day is None:
        return TYPE
    hour, minute, second = (int(found[part] or 0) for part in (5, 7, 9))
    zone = found[12] or ""
    numbers = [int(one) for one in re.findall(r"[0-9]{2}", zone)] + [0, 0]
    if hour > 23 or minute > 59 or second > 59:
        return TYPE
    fraction = (found[11] or "").ljust(9, "0")
    if fraction[6:] != "000":
        return RANGE
    if numbers[0] > 23 or numbers[1] > 59:
        return TYPE
    micros = (((day * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + int(fraction[:6])
    ahead = (numbers[0] * 60 + numbers[1]) * 60_000_000
    micros -= -ahead if zone.startswith("-") else ahead
    if not _FIRST <= micros <= _LAST:
        return RANGE
    return TYPE if zone and kind == "TIMESTAMP_NTZ" else micros


__all__ = ["BITS", "DUPLICATE", "NULL", "Exact", "days", "of_csv", "of_json", "of_text"]
