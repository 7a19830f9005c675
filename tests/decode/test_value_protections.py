"""What keeps values exact, each switched off once: the tests notice that it is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from calve.decode import csv as csv_decoder
from calve.decode import exact, infer, scalars
from calve.decode import json as json_decoder
from calve.decode.arrow import arrow_type
from tests.decode import test_exact, test_fuzz, test_infer, test_json

Check = Callable[[], object]


def nothing(*arguments: Any) -> None:
    """A check that is switched off."""


def unchanged(values: Any) -> Any:
    return values


def refused(index: int) -> Check:
    return lambda: test_exact.test_a_value_that_the_column_does_not_hold_is_refused_with_its_reason(
        *test_exact.REFUSED[index]
    )


def first_refused(declared: str, reason: str) -> Check:
    cases = enumerate(test_exact.REFUSED)
    return refused(next(at for at, case in cases if case[2:] == (declared, reason)))


def of_json(kind: str) -> Check:
    return lambda: test_fuzz.test_json_is_what_the_reference_says(kind, 600)


def of_csv(kind: str) -> Check:
    return lambda: test_fuzz.test_csv_is_what_the_reference_says(kind, 600)


PROTECTIONS: dict[str, tuple[Any, str, Any, Check]] = {
    "wide decimals of JSON": (json_decoder, "_raw_decimal", arrow_type, of_json("DECIMAL(38,18)")),
    "small decimals of JSON": (json_decoder, "_refuse_small", nothing, of_json("DECIMAL(10,2)")),
    "wide and small decimals of CSV": (scalars, "_refuse_wide", nothing, of_csv("DECIMAL(38,0)")),
    "years of the calendar": (scalars, "in_calendar", unchanged, of_csv("TIMESTAMP")),
    "hexadecimal numbers": (scalars, "_refuse_hexadecimal", nothing, of_csv("BIGINT")),
    "names that come twice": (
        json_decoder,
        "_DECODER",
        json.JSONDecoder(parse_float=json_decoder.Number, parse_int=json_decoder.Number),
        lambda: test_json.test_a_column_field_or_map_key_that_comes_twice_is_refused(
            "m MAP<STRING, STRING>", '{"m": {"a": "1", "a": "2"}}', 0
        ),
    ),
    "decimals of Arrow": (
        exact,
        "_exact_decimals",
        lambda array, kind: array.cast(arrow_type(kind)),
        first_refused("DECIMAL(38,18)", "out_of_range"),
    ),
    "texts of Arrow": (
        exact,
        "_exact_texts",
        lambda array, path: array.view(pa.string()) if array.type == pa.binary() else array,
        first_refused("STRING", "not_utf8"),
    ),
    "keys of maps of Arrow": (
        exact,
        "_refuse_duplicates",
        nothing,
        first_refused("MAP<STRING, INT>", "duplicate"),
    ),
    "years of Arrow": (exact, "in_calendar", unchanged, first_refused("DATE", "out_of_range")),
    "whole numbers that are rounded": (
        infer,
        "_suspect_rounded",
        nothing,
        lambda: test_infer.test_a_value_that_the_column_cannot_hold_is_bad_also_where_columns_are_a_guess(
            {"id": 1, "d": 2**53 + 1}, "out_of_range", 50
        ),
    ),
    "texts that were not inferred": (
        csv_decoder,
        "_suspect",
        nothing,
        lambda: test_infer.test_a_text_of_csv_that_the_column_was_not_inferred_from_is_bad(
            "BIGINT", ["1"], "00501", "wrong_type", 100
        ),
    ),
}


@pytest.mark.parametrize("name", PROTECTIONS)
def test_a_protection_that_is_switched_off_is_noticed(name, monkeypatch):
    place, what, other, check = PROTECTIONS[name]
    check()
    monkeypatch.setattr(place, what, other)
    with pytest.raises((AssertionError, pytest.fail.Exception, pa.ArrowInvalid, OverflowError)):
        check()
