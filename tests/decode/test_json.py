"""JSON records become rows, the fast way and the slow way alike."""

import base64
import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.decode.division import Mismatch
from calve.decode.json import JsonDecoder
from calve.errors import BadRecord
from calve.schema import Array, Column, Decimal, Map, Primitive, Schema, Struct, Type, parse

ORDERS = parse("id BIGINT NOT NULL, status STRING, amount DECIMAL(12,2), order_date TIMESTAMP")


def place(index: int) -> str:
    return f"record {index}"


def decode(schema: Schema | str, *values: bytes | str | None) -> list[dict[str, Any]]:
    schema = parse(schema) if isinstance(schema, str) else schema
    records = [value.encode() if isinstance(value, str) else value for value in values]
    return JsonDecoder(schema).decode(pa.array(records, pa.binary()), place).to_pylist()


def reason(schema: Schema | str, value: bytes | str | None) -> str:
    with pytest.raises(BadRecord) as caught:
        decode(schema, '{"id": 1}' if "id BIGINT" in str(schema) or schema is ORDERS else "{}", value)
    assert caught.value.place == "record 1"
    return caught.value.reason


def is_fast(schema: str, *values: str) -> bool:
    try:
        JsonDecoder(parse(schema))._fast(pa.array([value.encode() for value in values], pa.binary()))
    except (pa.ArrowInvalid, Mismatch):
        return False
    return True


def test_a_record_becomes_a_row_of_the_declared_types() -> None:
    value = '{"id": 7, "status": "paid", "amount": 12.5, "order_date": "2024-05-01T12:00:00Z", "extra": [1]}'
    assert decode(ORDERS, value) == [
        {
            "id": 7,
            "status": "paid",
            "amount": decimal.Decimal("12.50"),
            "order_date": datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc),
        }
    ]


def test_the_batch_has_the_declared_schema_with_its_nullability() -> None:
    schema = (
        "id BIGINT NOT NULL, n STRUCT<x: INT NOT NULL, t: TIMESTAMP_NTZ>, l ARRAY<DATE>, m MAP<STRING, FLOAT>"
    )
    for text in ('{"id": 1}', '{"id": 1, "m": {"a": 1}, "n": {"x": 1}, "l": [null]}'):
        batch = JsonDecoder(parse(schema)).decode(pa.array([text.encode()], pa.binary()), place)
        assert not batch.schema.field("id").nullable
        assert not batch.schema.field("n").type.field("x").nullable
        assert batch.schema.field("n").type.field("t").type == pa.timestamp("us")
        assert batch.schema.field("l").type.value_type == pa.date32()
        assert batch.schema.field("m").type.item_type == pa.float32()


def test_missing_and_null_are_null() -> None:
    assert decode("a INT, b STRUCT<x: INT>", "{}", '{"a": null, "b": null}', '{"b": {}}') == [
        {"a": None, "b": None},
        {"a": None, "b": None},
        {"a": None, "b": {"x": None}},
    ]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{}", "column 'id': missing, and the column is NOT NULL"),
        ('{"id": null}', "column 'id': NULL, and the column is NOT NULL"),
        ('{"id": 1.0}', "column 'id': '1.0' is not a BIGINT: not a whole number"),
        ('{"id": 1e3}', "column 'id': '1e3' is not a BIGINT: not a whole number"),
        ('{"id": "1"}', "column 'id': '1' is not a BIGINT: not a number"),
        ('{"id": true}', "column 'id': a boolean is not a BIGINT"),
        ('{"id": 9223372036854775808}', "column 'id': '9223372036854775808' is not a BIGINT: out of range"),
        ('{"id": 1, "status": 3}', "column 'status': '3' is not a STRING: not a text"),
        ('{"id": 1, "status": {}}', "column 'status': an object is not a STRING"),
        ('{"id": 1, "amount": "12,5"}', "column 'amount': '12,5' is not a DECIMAL(12,2): not a number"),
        ('{"id": 1, "amount": 1.005}', "column 'amount': '1.005' is not a DECIMAL(12,2): out of range"),
        (
            '{"id": 1, "amount": 12345678901}',
            "column 'amount': '12345678901' is not a DECIMAL(12,2): out of range",
        ),
        ('{"id": 1, "order_date": 5}', "column 'order_date': '5' is not a TIMESTAMP: not a text"),
        ("[1]", "not a JSON object but an array"),
        ("7", "not a JSON object but a number"),
        ("null", "not a JSON object but null"),
        ("", "the value is empty"),
        ("  \n ", "the value is empty"),
        (None, "the value is null"),
        (b'{"id": 1, "status": "\xff"}', "not valid UTF-8 at byte 22"),
        (
            '{"id": 1, "status": "\\ud800"}',
            "column 'status': '\\ud800' is not a STRING: half of a surrogate pair",
        ),
        ('{"id": 1}{"id": 2}', "not valid JSON: Extra data: line 1 column 10 (char 9)"),
        ('{"id": NaN}', "not valid JSON: NaN is no JSON"),
        ('{"id": 1, "extra": -Infinity}', "not valid JSON: -Infinity is no JSON"),
        (
            '{"id": 1, "status": "a\nb"}',
            "not valid JSON: Invalid control character at: line 1 column 23 (char 22)",
        ),
        ('{"id": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
)
def test_a_bad_record_is_refused_in_words(value: bytes | str | None, why: str) -> None:
    assert reason(ORDERS, value) == why


def test_a_bad_value_inside_is_named_by_its_path() -> None:
    schema = "a ARRAY<STRUCT<x: INT NOT NULL>>, m MAP<STRING, INT>"
    assert reason(schema, '{"a": [{"x": 1}, {}]}') == "column 'a[1].x': missing, and the column is NOT NULL"
    assert reason(schema, '{"m": {"k": "v"}}') == "column 'm['k']': 'v' is not a INT: not a number"
    assert reason("m MAP<INT, INT>", '{"m": {"01": 1, "1": 2}}') == "column 'm': the key '1' comes twice"


def test_the_first_bad_record_of_a_block_is_the_one_that_is_named() -> None:
    values = [b'{"id": 1}'] * 1000
    values[700] = values[900] = b'{"id": "x"}'
    with pytest.raises(BadRecord, match="record 700"):
        JsonDecoder(ORDERS).decode(pa.array(values, pa.binary()), place)


def test_whole_numbers_beyond_2_to_the_53_stay_exact() -> None:
    assert decode(
        "a BIGINT, d DECIMAL(38,0)", '{"a": 9007199254740993, "d": 12345678901234567890123456789012345678}'
    ) == [{"a": 9007199254740993, "d": decimal.Decimal("12345678901234567890123456789012345678")}]


@pytest.mark.parametrize("text", ["1234.5", "1e3", '"1234.5"', '"1e3"'])
def test_a_decimal_with_too_many_digits_is_refused_although_arrow_takes_it(text: str) -> None:
    assert "DECIMAL(5,2): out of range" in reason("a DECIMAL(5,2)", f'{{"a": {text}}}')


def test_a_number_that_is_too_large_is_refused_not_made_infinite() -> None:
    assert "out of range" in reason("a DOUBLE", '{"a": ' + "9" * 400 + "}")
    assert "out of range" in reason("a FLOAT", '{"a": 1e39}')


def test_huge_numbers_in_fields_that_are_not_declared_do_not_matter() -> None:
    assert decode("a INT", '{"a": 1, "b": ' + "9" * 9000 + "}", '{"a": 2, "b": 1e999}') == [
        {"a": 1},
        {"a": 2},
    ]


def test_deep_nesting_in_a_field_that_is_not_declared_does_not_matter() -> None:
    deep = '{"a": 1, "b": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert decode("a INT, t TIMESTAMP", deep) == [{"a": 1, "t": None}]
    # Arrow takes no text with nine digits behind the second, so both are looked at one by one.
    slow = '{"a": 2, "t": "2026-01-02T03:04:05.123456000Z"}'
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=datetime.timezone.utc)
    assert decode("a INT, t TIMESTAMP", deep, slow) == [{"a": 1, "t": None}, {"a": 2, "t": at}]


@pytest.mark.parametrize(
    ("ddl", "record"),
    [
        ("a INT", '{"a": 1, "a": 2}'),
        ("a INT", '{"a": 1, "a": 1}'),
        ("a INT", '{"a": 1, "\\u0061": null}'),
        ("s STRUCT<a: INT>", '{"s": {"a": 1, "a": 2}}'),
        ("m MAP<STRING, STRING>", '{"m": {"a": "1", "a": "2"}}'),
        ("m MAP<STRING, STRING>", '{"m": {"a": "1"}, "m": {"a": "2"}}'),
    ],
)
@pytest.mark.parametrize("others", [0, 40])
def test_a_column_field_or_map_key_that_comes_twice_is_refused(ddl: str, record: str, others: int) -> None:
    values = pa.array([b"{}"] * others + [record.encode()], pa.binary())
    rows, bad = JsonDecoder(parse(ddl)).sift(values)
    assert len(rows) == others
    assert [(one.at, one.reason) for one in bad] == [(others, "duplicate")]


def test_a_field_that_is_not_declared_may_come_twice() -> None:
    assert decode("a INT", '{"a": 1, "b": 1, "b": {"a": 1, "a": 2}}') == [{"a": 1}]
    assert decode("m MAP<STRING, INT>", '{"a": 1, "a": 2, "m": {"a": 1}}') == [{"m": [("a", 1)]}]


def test_names_are_case_sensitive() -> None:
    assert decode("a INT", '{"A": 1}') == [{"a": None}]


def test_a_record_over_several_lines_is_still_one_record_and_fast() -> None:
    values = ('{\n "a": 1\n}', '{"a":\r\n2}', ' {"a": 3} \n')
    assert decode("a INT", *values) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert is_fast("a INT", *values)


@pytest.mark.parametrize(
    "values",
    [
        ('{"a": 1} {"a": 2}', '{"a": {"x": 1}', "{}}"),
        ('{"a": "}', '{"}', '{"a": 1}{"a": 2}'),
        ('{"a": 1}', '{"a": 2}{"a": 3}'),
    ],
)
def test_records_that_only_together_make_up_objects_are_refused(values: tuple[str, ...]) -> None:
    assert not is_fast("a INT", *values)
    with pytest.raises(BadRecord):
        decode("a INT", *values)


def test_the_word_infinite_in_a_text_does_not_matter() -> None:
    assert decode("a STRING", '{"a": "x: Infinite, NaN"}') == [{"a": "x: Infinite, NaN"}]


def test_binary_is_base64() -> None:
    assert decode("b BINARY", '{"b": "AAH/"}', '{"b": ""}') == [{"b": b"\x00\x01\xff"}, {"b": b""}]
    assert "not base64" in reason("b BINARY", '{"b": "AA H/"}')


def test_no_records_are_no_rows() -> None:
    assert decode(ORDERS) == []


def types(depth: int) -> st.SearchStrategy[Type]:
    names = [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    ]
    plain = st.sampled_from([Primitive(name) for name in names])
    exact = st.tuples(st.integers(1, 38), st.integers(0, 38)).map(lambda p: Decimal(max(p), min(p)))
    if depth == 0:
        return plain | exact
    inner = types(depth - 1)
    columns = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3)
    struct = columns.map(lambda c: Struct(tuple(Column(f"c{i}", t, n) for i, (t, n) in enumerate(c))))
    array = st.tuples(inner, st.booleans()).map(lambda p: Array(*p))
    return plain | exact | struct | array | inner.map(lambda t: Map(Primitive("string"), t))


def texts(kind: Type) -> st.SearchStrategy[str]:
    """JSON for `kind`, most of it right."""
    odd = st.sampled_from(
        ["null", "0", "-0", "1.0", "1e2", '""', '"1"', "true", "[]", "{}", "NaN", "1e400", '"\\u0000"']
    )
    return st.integers(0, 19).flatmap(lambda dice: right(kind) if dice else odd)


def right(kind: Type) -> st.SearchStrategy[str]:
    if isinstance(kind, Decimal):
        digits = st.integers(-(10**kind.precision), 10**kind.precision)
        number = digits.map(lambda d: format(decimal.Decimal(d).scaleb(-kind.scale), "f"))
        return number | number.map(json.dumps)
    if isinstance(kind, Array):
        return st.lists(texts(kind.element), max_size=3).map(lambda t: f"[{', '.join(t)}]")
    if isinstance(kind, Map):
        return st.dictionaries(st.text(max_size=2), texts(kind.value), max_size=3).map(_object)
    if isinstance(kind, Struct):
        return st.fixed_dictionaries({}, optional={c.name: texts(c.type) for c in kind.columns}).map(_object)
    return _SCALARS[kind.name]


def _object(members: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in members.items()) + "}"


def _integers(bits: int) -> st.SearchStrategy[str]:
    edge = 1 << (bits - 1)
    return st.integers(-edge - 1, edge).map(str) | st.sampled_from([str(edge - 1), str(-edge), str(edge)])


_TIMES = st.datetimes().map(lambda t: t.isoformat()) | st.datetimes().map(lambda t: t.isoformat(sep=" "))
_ZONES = st.sampled_from(["", "Z", "+01:00", "-0530", "+14"])
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.integers(-(2**80), 2**80).map(str)
_SCALARS = {
    "boolean": st.sampled_from(["true", "false"]),
    "tinyint": _integers(8),
    "smallint": _integers(16),
    "int": _integers(32),
    "bigint": _integers(64),
    "float": _NUMBERS,
    "double": _NUMBERS,
    "string": st.text().map(json.dumps) | st.text().map(lambda t: json.dumps(t, ensure_ascii=False)),
    "binary": st.binary(max_size=9).map(lambda b: json.dumps(base64.b64encode(b).decode())),
    "date": st.dates().map(lambda d: json.dumps(d.isoformat())) | st.just('"0000-01-01"'),
    "timestamp": st.tuples(_TIMES, _ZONES).map(lambda p: json.dumps("".join(p))),
    "timestamp_ntz": st.tuples(_TIMES, _ZONES).map(lambda p: json.dumps("".join(p))),
}


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Schema, list[bytes]]:
    kinds = draw(st.lists(st.tuples(types(2), st.booleans()), min_size=1, max_size=4))
    schema = Schema(tuple(Column(f"c{i}", kind, nullable) for i, (kind, nullable) in enumerate(kinds)))
    members = st.fixed_dictionaries({}, optional={c.name: texts(c.type) for c in schema.columns}).map(_object)
    values = draw(st.lists(members, min_size=1, max_size=4))
    return schema, [value.encode("utf-8", "surrogatepass") for value in values]


@settings(max_examples=80)
@given(blocks())
def test_what_the_fast_way_accepts_the_slow_way_reads_the_same(block: tuple[Schema, list[bytes]]) -> None:
    _compare(*block)


@pytest.mark.full
@settings(max_examples=2000)
@given(blocks())
def test_both_ways_agree_on_thousands_of_blocks(block: tuple[Schema, list[bytes]]) -> None:
    _compare(*block)


def _compare(schema: Schema, values: list[bytes]) -> None:
    decoder = JsonDecoder(schema)
    for records in (values, *([value] for value in values)):
        try:
            fast = decoder._fast(pa.array(records, pa.binary()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, Mismatch):
            continue
        slow = decoder._slow(pa.array(records, pa.binary()), range(len(records)), [])
        fast.validate(full=True)
        assert fast.schema.equals(slow.schema)
        assert fast.equals(slow), (fast.to_pylist(), slow.to_pylist())


@settings(max_examples=40)
@given(blocks())
def test_every_block_is_either_decoded_to_finite_values_or_refused_as_a_bad_record(
    block: tuple[Schema, list[bytes]],
) -> None:
    schema, values = block
    try:
        batch = JsonDecoder(schema).decode(pa.array(values, pa.binary()), place)
    except BadRecord:
        return
    assert batch.num_rows == len(values)
    batch.validate(full=True)
    for column, array in zip(schema.columns, batch.columns, strict=True):
        assert column.nullable or array.null_count == 0
        if isinstance(column.type, Primitive) and column.type.name in ("float", "double"):
            assert all(value is None or math.isfinite(value) for value in array.to_pylist())
