"""Texts that stand for values: both ways of reading them agree."""

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calve.decode.arrow import _TYPES, arrow_type
from calve.decode.division import Mismatch
from calve.decode.scalars import cast, parse
from calve.schema import Decimal, Primitive, Type
from calve.sources.declared import DECODABLE

KINDS: list[Type] = [*(Primitive(name) for name in sorted(_TYPES)), Decimal(5, 2), Decimal(38, 10)]
PARTS = st.sampled_from(
    [*list("0123456789+-.eExX:TZ tz/_"), "2024-02-29", "T12:30:15", ".123456", "true", "inf", "nan"]
)


def value(text: str, kind: Type) -> Any:
    return pa.array([parse(text, kind)], arrow_type(kind))[0].as_py()


@settings(max_examples=300)
@given(st.sampled_from(KINDS), st.lists(PARTS, max_size=5).map("".join) | st.text(max_size=6))
@example(Primitive("bigint"), "0x1F")
@example(Primitive("date"), "0000-01-01")
@example(Primitive("timestamp"), "0000-01-01T00:00:00Z")
@example(Primitive("timestamp"), "0001-01-01T00:00:00+01:00")
@example(Primitive("double"), "1e400")
@example(Primitive("float"), "1e39")
@example(Primitive("timestamp"), "0000-12-31T23:00:00-02:00")
@example(Decimal(5, 2), "31e-41")
@example(Decimal(38, 18), "1111111111111111111111111111")
@example(Decimal(38, 0), "3.4028236e38")
def test_what_is_cast_is_parsed_the_same(kind: Type, text: str) -> None:
    try:
        fast = cast(pa.array([text]), kind)
    except (pa.ArrowInvalid, Mismatch):
        return
    assert fast.equals(pa.array([parse(text, kind)], arrow_type(kind)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-01T12:30:15Z", "2024-05-01T12:30:15+00:00"),
        ("2024-05-01 12:30:15", "2024-05-01T12:30:15+00:00"),
        ("2024-05-01T12:30:15.123456+02:00", "2024-05-01T10:30:15.123456+00:00"),
        ("2024-05-01T12:30:15.123456000-0030", "2024-05-01T13:00:15.123456+00:00"),
        ("2024-05-01T12:30", "2024-05-01T12:30:00+00:00"),
        ("2024-05-01", "2024-05-01T00:00:00+00:00"),
    ],
)
def test_a_timestamp_is_iso_8601_and_utc_where_it_names_no_zone(text: str, expected: str) -> None:
    assert value(text, Primitive("timestamp")) == datetime.datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2024-05-01T12:30:15.1234567Z", "finer than a microsecond"),
        ("2024-02-30T00:00:00Z", "day"),
        ("2024-05-01T24:00:00Z", "hour"),
        ("2024-05-01T12:30:60Z", "second"),
        ("2024-05-01T12:30:15+24:00", "hour"),
        ("yesterday", "not a time of ISO 8601"),
        ("1714566615", "not a time of ISO 8601"),
        ("0001-01-01T00:00:00+01:00", "out of range"),
    ],
)
def test_a_time_that_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text, Primitive("timestamp"))


def test_a_timestamp_without_zone_refuses_a_zone() -> None:
    assert value("2024-05-01T12:30:15", Primitive("timestamp_ntz")) == datetime.datetime(
        2024, 5, 1, 12, 30, 15
    )
    with pytest.raises(ValueError, match="time zone"):
        parse("2024-05-01T12:30:15Z", Primitive("timestamp_ntz"))


@pytest.mark.parametrize("text", ["1e99999999999999999999", "1" * 5000, "0x1", "１", "NaN", ""])
def test_a_decimal_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a number|out of range"):
        parse(text, Decimal(12, 2))


def test_zeros_behind_the_scale_are_no_digits() -> None:
    assert value("1.5000", Decimal(5, 2)) == decimal.Decimal("1.50")
    assert value("0.000", Decimal(5, 2)) == 0


def test_sources_declare_the_types_that_decoders_make() -> None:
    assert set(_TYPES) == DECODABLE
