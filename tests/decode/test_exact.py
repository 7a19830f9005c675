"""Arrow's values become those of columns, exactly or not at all."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from calve.decode.arrow import arrow_type
from calve.decode.division import Mismatch
from calve.decode.exact import exact_column, takes
from calve.schema import parse

UTC = dt.timezone.utc
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 123456)
TAKEN: list[tuple[Any, list[Any], str, list[Any]]] = [
    (pa.uint8(), [255], "INT", [255]),
    (pa.uint8(), [127], "TINYINT", [127]),
    (pa.uint32(), [2**32 - 1], "BIGINT", [2**32 - 1]),
    (pa.uint64(), [2**63 - 1], "BIGINT", [2**63 - 1]),
    (pa.uint64(), [2**64 - 1], "DECIMAL(20,0)", [Decimal(2**64 - 1)]),
    (pa.int64(), [-128, None], "TINYINT", [-128, None]),
    (pa.int64(), [7], "DECIMAL(9,2)", [Decimal("7.00")]),
    (pa.int32(), [2**31 - 1], "DOUBLE", [float(2**31 - 1)]),
    (pa.int64(), [2**53], "DOUBLE", [float(2**53)]),
    (pa.float16(), [1.5], "FLOAT", [1.5]),
    (pa.float32(), [0.5], "DOUBLE", [0.5]),
    (pa.float64(), [float("inf")], "DOUBLE", [float("inf")]),
    (pa.string_view(), ["é"], "STRING", ["é"]),
    (pa.large_string(), ["é"], "STRING", ["é"]),
    (pa.binary(), ["é".encode()], "STRING", ["é"]),
    (pa.binary(2), [b"ab"], "BINARY", [b"ab"]),
    (pa.binary_view(), [b"ab"], "BINARY", [b"ab"]),
    (pa.string(), ["ab"], "BINARY", [b"ab"]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "a"], "STRING", ["a", "a"]),
    (pa.date64(), [dt.date(2026, 1, 2)], "DATE", [dt.date(2026, 1, 2)]),
    (pa.timestamp("ns"), [AT], "TIMESTAMP_NTZ", [AT]),
    (pa.timestamp("ms", "Europe/Berlin"), [AT.replace(microsecond=0, tzinfo=UTC)], "TIMESTAMP",
     [AT.replace(microsecond=0, tzinfo=UTC)]),
    (pa.timestamp("us"), [AT], "TIMESTAMP", [AT.replace(tzinfo=UTC)]),
    (pa.decimal128(38, 0), [Decimal(10**20 - 1)], "DECIMAL(38,18)", [Decimal(10**20 - 1)]),
    (pa.decimal128(38, 18), [Decimal("1.5")], "DECIMAL(3,1)", [Decimal("1.5")]),
    (pa.decimal256(50, 2), [Decimal("1.25")], "DECIMAL(38,2)", [Decimal("1.25")]),
    (pa.decimal64(10, 2), [Decimal("1.25")], "DECIMAL(10,2)", [Decimal("1.25")]),
    (pa.list_(pa.uint8()), [[1], None, []], "ARRAY<INT>", [[1], None, []]),
    (pa.large_list(pa.uint64()), [[2**64 - 1]], "ARRAY<DECIMAL(20,0)>", [[Decimal(2**64 - 1)]]),
    (pa.list_(pa.int32(), 2), [[1, 2], None], "ARRAY<BIGINT>", [[1, 2], None]),
    (pa.struct([("a", pa.uint8()), ("b", pa.string())]), [{"a": 1, "b": "x"}, None],
     "STRUCT<b: STRING, c: DATE, a: INT>", [{"b": "x", "c": None, "a": 1}, None]),
    (pa.map_(pa.string(), pa.uint8()), [[("a", 1), ("b", None)], None], "MAP<STRING, INT>",
     [[("a", 1), ("b", None)], None]),
    (pa.null(), [None], "ARRAY<INT>", [None]),
]  # fmt: skip
REFUSED: list[tuple[Any, list[Any], str, str]] = [
    (pa.uint64(), [2**64 - 1], "BIGINT", "out_of_range"),
    (pa.uint32(), [2**32 - 1], "INT", "out_of_range"),
    (pa.int32(), [300], "TINYINT", "out_of_range"),
    (pa.uint8(), [255], "TINYINT", "out_of_range"),
    (pa.int64(), [2**53 + 1], "DOUBLE", "out_of_range"),
    (pa.int64(), [2**24 + 1], "FLOAT", "out_of_range"),
    (pa.int64(), [10**9], "DECIMAL(9,2)", "out_of_range"),
    (pa.binary(), [b"\xff\xfe"], "STRING", "not_utf8"),
    (pa.binary_view(), [b"\xff"], "STRING", "not_utf8"),
    (pa.list_(pa.binary()), [[b"\xff"]], "ARRAY<STRING>", "not_utf8"),
    (pa.timestamp("ns"), [1_123_456_789], "TIMESTAMP_NTZ", "out_of_range"),
    (pa.timestamp("ns", "UTC"), [1_123_456_789], "TIMESTAMP", "out_of_range"),
    (pa.timestamp("s"), [2**60], "TIMESTAMP_NTZ", "out_of_range"),
    (pa.timestamp("us"), [253402300800000000], "TIMESTAMP_NTZ", "out_of_range"),
    (pa.date32(), [2932897], "DATE", "out_of_range"),
    (pa.date64(), [1], "DATE", "out_of_range"),
    (pa.decimal128(38, 0), [Decimal("1111111111111111111111111111")], "DECIMAL(38,18)", "out_of_range"),
    (pa.decimal128(38, 2), [Decimal("1.15")], "DECIMAL(38,1)", "out_of_range"),
    (pa.decimal256(50, 0), [Decimal(10**38)], "DECIMAL(38,0)", "out_of_range"),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("a", 2)]], "MAP<STRING, INT>", "duplicate"),
    (pa.list_(pa.map_(pa.int32(), pa.int32())), [[[(1, 1)], [(2, 1), (2, 2)]]], "ARRAY<MAP<INT, INT>>",
     "duplicate"),
    (pa.int32(), [None], "INT NOT NULL", "null"),
    (pa.struct([("a", pa.int32())]), [{"a": None}], "STRUCT<a: INT NOT NULL>", "null"),
]  # fmt: skip


def array_of(kind: Any, values: list[Any]) -> Any:
    if all(isinstance(value, int) for value in values) and (pa.types.is_temporal(kind)):
        bits = pa.int32() if kind == pa.date32() else pa.int64()
        return pa.array(values, bits).view(kind)
    return pa.array(values, kind)


@pytest.mark.parametrize(("kind", "given", "declared", "expected"), TAKEN)
@pytest.mark.parametrize("before", [0, 3])
def test_a_value_that_the_column_holds_is_taken_as_it_is(kind, given, declared, expected, before):
    column = parse(f"v {declared}").columns[0]
    assert takes(kind, column.type)
    # What stands before a slice does not count, whatever it is.
    array = pa.concat_arrays([pa.nulls(before, kind), array_of(kind, given)]).slice(before)
    found = exact_column(array, column)
    found.validate(full=True)
    assert found.type == arrow_type(column.type)
    assert found.to_pylist() == expected


@pytest.mark.parametrize(("kind", "given", "declared", "reason"), REFUSED)
def test_a_value_that_the_column_does_not_hold_is_refused_with_its_reason(kind, given, declared, reason):
    column = parse(f"v {declared}").columns[0]
    assert takes(kind, column.type)
    with pytest.raises(Mismatch) as caught:
        exact_column(array_of(kind, given), column)
    assert (caught.value.reason, "column 'v" in str(caught.value)) == (reason, True)


def test_texts_of_arrow_are_looked_at_too():
    data = pa.py_buffer(b"\0\0\0\0\1\0\0\0")
    for kind in (pa.string(), pa.large_string()):
        offsets = data if kind == pa.string() else pa.py_buffer(b"\0" * 8 + b"\1" + b"\0" * 7)
        bad = pa.Array.from_buffers(kind, 1, [None, offsets, pa.py_buffer(b"\xff")])
        with pytest.raises(Mismatch, match="not valid UTF-8"):
            exact_column(bad, parse("v STRING").columns[0])


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        (pa.float64(), "FLOAT"),
        (pa.float64(), "BIGINT"),
        (pa.float64(), "DECIMAL(9,2)"),
        (pa.string(), "BIGINT"),
        (pa.int64(), "STRING"),
        (pa.int64(), "BOOLEAN"),
        (pa.bool_(), "INT"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ"),
        (pa.timestamp("us"), "DATE"),
        (pa.date32(), "TIMESTAMP"),
        (pa.time64("us"), "STRING"),
        (pa.int64(), "TIMESTAMP"),
        (pa.struct([("a", pa.int64())]), "MAP<STRING, BIGINT>"),
        (pa.struct([("a", pa.int64())]), "STRUCT<a: STRING>"),
        (pa.list_(pa.string()), "ARRAY<INT>"),
    ],
)
def test_a_type_of_another_kind_is_not_taken(kind, declared):
    assert not takes(kind, parse(f"v {declared}").columns[0].type)
