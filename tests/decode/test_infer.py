"""Columns that records tell themselves."""

from __future__ import annotations

import json
import sys
from functools import reduce
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.decode import infer
from calve.decode.csv import CsvDecoder
from calve.decode.dialect import Dialect
from calve.decode.division import Mismatch
from calve.decode.infer import (
    Fields,
    Mixed,
    csv_merged,
    csv_type,
    file_types,
    json_type,
    letter_types,
    merged,
    of_parts,
    settled,
)
from calve.decode.json import JsonDecoder
from calve.decode.reading import Layout, Split
from calve.errors import Unfit
from calve.schema import Schema, Struct, parse, storable


def found(*records: Any) -> Schema:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    return Schema(json_type(pa.array(lines, pa.binary())).columns)


def test_every_kind_of_json_has_a_type():
    record = {"i": 1, "d": 1.5, "b": True, "s": "x", "n": None, "o": {"a": 1}, "l": [1], "e": []}
    assert found(record) == parse(
        "i BIGINT, d DOUBLE, b BOOLEAN, s STRING, n VOID, o STRUCT<a: BIGINT>, l ARRAY<BIGINT>, e ARRAY<VOID>"
    )


@pytest.mark.parametrize(
    ("records", "ddl"),
    [
        ([{"a": 2**63 - 1}, {"a": -(2**63)}], "a BIGINT"),
        ([{"a": 2**63}, {"a": 9007199254740993}], "a DECIMAL(38,0)"),
        ([{"a": 10**40}], "a DECIMAL(38,0)"),
        ([{"a": 10**5000}], "a DECIMAL(38,0)"),
        ([{"a": 1e300}, {"a": 5}], "a DOUBLE"),
        ([{"a": 2**53}, {"a": 0.5}], "a DOUBLE"),
        ([{"a": [2**63, 1]}, {"a": [2**60]}], "a ARRAY<DECIMAL(38,0)>"),
        ([{"a": {"b": 2**60}}, {"a": {"b": 1}}], "a STRUCT<b: BIGINT>"),
    ],
)
@pytest.mark.parametrize("others", [0, 200])
def test_whole_numbers_have_a_type_that_holds_them_exactly(records, ddl, others):
    sys.set_int_max_str_digits(10_000)
    try:
        lines = [json.dumps(record).encode() for record in records]
    finally:
        sys.set_int_max_str_digits(4300)
    assert settled(storable(found(*lines, *[{}] * others)), None) == parse(ddl)


@pytest.mark.parametrize("large", [2**53 + 1, -(2**53) - 1, 2**63, 10**30])
@pytest.mark.parametrize("others", [0, 200])
def test_whole_numbers_that_a_fraction_beside_them_would_round_are_mixed(large, others):
    for pair in ([{"a": large}, {"a": 0.5}], [{"a": 0.5}, {"a": large}], [{"a": [0.5, large]}]):
        with pytest.raises(Mixed, match=r"field 'a(\.element)?' is .* AND .* in different records"):
            settled(storable(found(*pair, *[{}] * others)), None)


def test_texts_that_look_like_times_stay_texts():
    assert found({"at": "2026-11-16T12:00:00Z", "day": "2026-11-16"}) == parse("at STRING, day STRING")


def test_records_add_up_in_the_order_in_which_fields_turn_up():
    records = [{"a": 1}, {"b": {"x": 1}}, {"a": 2.5, "b": {"y": [{"z": None}]}}, {"b": {"y": [{"z": 1}]}}]
    expected = parse("a DOUBLE, b STRUCT<x: BIGINT, y: ARRAY<STRUCT<z: BIGINT>>>")
    assert found(*records) == expected
    assert Schema(of_parts([part(at, one) for at, one in enumerate(records)]).columns) == expected


def part(at, record):
    return SimpleNamespace(lane=0, at=at, type=json.dumps(found(record).to_spark_json()))


@given(st.lists(st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(0.5, 1.5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
).map(lambda value: {"v": value}), min_size=1, max_size=4))  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_the_quick_way_finds_what_the_thorough_one_finds(records):
    lines = [json.dumps(one).encode() for one in records]
    slow = Struct(())
    for line in lines:
        slow = merged(slow, infer._of_record(line))
    assert storable(Schema(json_type(pa.array(lines, pa.binary())).columns)) == storable(Schema(slow.columns))


def test_a_record_that_is_none_is_left_to_the_decoder():
    assert found({"a": 1}, b"nothing", b"[1]", b"", {"b": 1}) == parse("a BIGINT, b BIGINT")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([{"a": {"b": 1}}, {"a": {"b": "x"}}], "field 'a.b' is BIGINT AND STRING in different records"),
        ([{"a": [{"b": 1}, {"b": {}}]}], "field 'a.element.b' is BIGINT AND STRUCT in different records"),
        ([{"a": 1}, {"a": "x"}, {"a": [1]}], "field 'a' is BIGINT AND STRING AND ARRAY in different records"),
    ],
)
def test_mixed_types_are_told_with_their_path(records, said):
    with pytest.raises(Mixed) as caught:
        settled(found(*records), None)
    assert str(caught.value) == said


def test_the_types_of_the_table_count_where_they_can_hold_what_was_found():
    table = parse(
        "id INT NOT NULL, a DOUBLE, at TIMESTAMP, price DECIMAL(9,2), m MAP<STRING, BIGINT>, l ARRAY<INT>, "
        "s STRUCT<x: FLOAT, y: DATE>, b BOOLEAN"
    )
    seen = found(
        {"id": 1, "a": 2, "at": "t", "price": "1.5", "m": {"k": 1}, "l": [1], "s": {"x": 1, "z": 1}, "b": 1}
    )
    expected = parse(
        "id INT NOT NULL, a DOUBLE, at TIMESTAMP, price DECIMAL(9,2), m MAP<STRING, BIGINT>, l ARRAY<INT>, "
        "s STRUCT<x: FLOAT, z: BIGINT>, b BOOLEAN"
    )
    assert settled(seen, table) == expected


@pytest.mark.parametrize(
    ("records", "table"),
    [
        ([{"id": 2}, {"id": "s"}], "id BIGINT"),
        ([{"id": 1.5}], "id BIGINT"),
        ([{"id": 2**63}], "id BIGINT"),
        ([{"id": 1}], "id STRING"),
        ([{"id": {"a": 1}}, {"id": [1]}], "id STRUCT<a: BIGINT>"),
        ([{"id": {"a": "x"}}], "id MAP<STRING, BIGINT>"),
        ([{"id": ["x"]}], "id ARRAY<BIGINT>"),
    ],
)
def test_the_table_has_decided_the_types_of_its_columns(records, table):
    assert settled(storable(found(*records)), parse(table)).ddl() == parse(table).ddl()


def test_where_values_of_another_type_have_their_own_column_records_decide_if_they_agree():
    table = parse("id BIGINT, n INT")
    assert settled(found({"id": "s", "n": 1}), table, redirects=True) == parse("id STRING, n INT")
    assert settled(found({"id": "s"}, {"id": 1}), table, redirects=True) == parse("id BIGINT")


def test_what_is_inferred_can_be_decoded():
    lines = [b'{"a": 1, "s": {"x": "t"}}', b'{"a": 2, "l": [1, 2.5]}']
    values = pa.array(lines, pa.binary())
    schema = settled(storable(Schema(json_type(values).columns)), None)
    rows = JsonDecoder(schema).decode(values, str).to_pylist()
    assert rows == [{"a": 1, "s": {"x": "t"}, "l": None}, {"a": 2, "s": None, "l": [1.0, 2.5]}]


def csv_found(header: str, *lines: str) -> Schema:
    decoder = CsvDecoder(Schema(()), Dialect()).with_header(header)
    values = pa.array([line.encode() for line in lines], pa.binary())
    return Schema(csv_type(values, decoder).columns)


def test_fields_of_csv_have_types_as_far_as_all_of_them_look_like_it():
    assert csv_found("i,d,b,s,zip,n", "1,1.5,true,x,007,", "-2,2,false,1,1,") == parse(
        "i BIGINT, d DOUBLE, b BOOLEAN, s STRING, zip STRING, n VOID"
    )


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1234567890123456789", "1234567890123456788"], "BIGINT"),
        (["9223372036854775807", "-9223372036854775808", "1"], "BIGINT"),
        (["9223372036854775808", "1"], "DECIMAL(38,0)"),
        (["9" * 38], "DECIMAL(38,0)"),
        (["9" * 40], "STRING"),
        (["1234567890123456789", "0.5"], "STRING"),
        (["9007199254740992", "0.5"], "DOUBLE"),
        (["1e300", "5"], "DOUBLE"),
        (["1", "00501"], "STRING"),
    ],
)
def test_whole_numbers_of_csv_have_a_type_that_holds_them_exactly(texts, kind):
    expected = parse(f"a {kind}")
    assert settled(csv_found("a", *texts), None) == expected
    one_by_one = [csv_found("a", text) for text in texts]
    merged_ = reduce(csv_merged, (Struct(one.columns) for one in one_by_one))
    assert settled(Schema(merged_.columns), None) == expected


def inferred_csv(table: str, *texts: str) -> tuple[list[Any], list[Any]]:
    decoder = CsvDecoder(parse(f"a {table}"), Dialect(), is_inferred=True).with_header("a")
    rows, bad = decoder.sift(pa.array([text.encode() for text in texts], pa.binary()))
    return rows.column(0).to_pylist(), [(one.at, one.reason) for one in bad]


@pytest.mark.parametrize(
    ("table", "good", "bad", "reason"),
    [
        ("BIGINT", ["1", "1234567890123456789"], "00501", "wrong_type"),
        ("BIGINT", ["1"], "1.5", "wrong_type"),
        ("BIGINT", ["1"], "x", "wrong_type"),
        ("DOUBLE", ["1.5", "0.25", "9007199254740992"], "9007199254740993", "out_of_range"),
        ("DOUBLE", ["1.5", "12345678901234567890123e0"], "00501", "wrong_type"),
        ("BOOLEAN", ["true", "FALSE"], "1", "wrong_type"),
        ("DECIMAL(38,0)", ["9223372036854775808"], "007", "wrong_type"),
    ],
)
@pytest.mark.parametrize("others", [1, 100])
def test_a_text_of_csv_that_the_column_was_not_inferred_from_is_bad(table, good, bad, reason, others):
    rows, wrong = inferred_csv(table, *good * others, bad)
    assert (len(rows), wrong) == (len(good) * others, [(len(good) * others, reason)])


def test_a_header_without_a_name_for_a_field_tells_no_columns():
    with pytest.raises(Mismatch, match="the header has no name for field 2; declare 'schema'"):
        CsvDecoder(Schema(()), Dialect(), is_inferred=True).with_header("a,,b")


def test_a_line_of_csv_that_is_wrong_is_left_to_the_decoder():
    assert csv_found("a,b", "1,2", "1", "2,x") == parse("a BIGINT, b STRING")


def test_a_column_of_text_in_the_table_takes_all_fields_of_csv():
    assert settled(parse("a BIGINT"), parse("a STRING"), texts_take_all=True) == parse("a STRING")
    assert settled(parse("a STRING"), parse("a BIGINT"), texts_take_all=True) == parse("a BIGINT")


def of_letters(decoder, *letters: tuple[bytes | None, bytes | None]) -> Schema:
    keys, values = ([letter[at] for letter in letters] for at in (0, 1))
    batch = pa.RecordBatch.from_pydict(
        {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
    )
    told = [one for batch in letter_types(decoder)([batch]) for one in batch.to_pylist()]
    return of_parts([SimpleNamespace(**one) for one in told], is_csv=isinstance(decoder, CsvDecoder))


def test_dead_letters_tell_their_columns_as_records_do():
    lines = [b'{"a": 1}', b"nothing", None, b'{"b": "x", "a": 2.5}']
    assert of_letters(JsonDecoder(Schema(())), *((None, line) for line in lines)) == parse(
        "a DOUBLE, b STRING"
    )


def test_dead_letters_of_csv_have_the_headers_of_their_files():
    decoder = CsvDecoder(Schema(()), Dialect())
    letters = [(b"a,b", b"1,x"), (b"b,c", b"2,true"), (b"a", b"1,2"), (None, b"1"), (b"\xff", b"1")]
    assert of_letters(decoder, *letters) == parse("a BIGINT, b STRING, c BOOLEAN")


def of_files(decoder, folder, layout, *texts: str) -> Schema:
    task = []
    for number, text in enumerate(texts):
        (folder / str(number)).write_text(text)
        task.append(Split(str(folder / str(number)), 0, len(text), len(text), 0, None, number))
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    told = [one for batch in file_types(decoder, [task], layout)([numbers]) for one in batch.to_pylist()]
    return of_parts([SimpleNamespace(**one) for one in told], is_csv=isinstance(decoder, CsvDecoder))


def test_files_add_up_each_with_its_own_header(tmp_path):
    decoder = CsvDecoder(Schema(()), Dialect())
    texts = ("a,b\n1,x\n", "b,c\n2,true\n", "", "a,a\n")
    assert of_files(decoder, tmp_path, Layout(header=True), *texts) == parse("a BIGINT, b STRING, c BOOLEAN")


def test_what_can_be_read_of_a_file_tells_its_columns(tmp_path):
    decoder = JsonDecoder(Schema(()))
    texts = ('[{"a": 1}, {"b": 2}]', '{"c": 1', "[" * 10_000)
    assert of_files(decoder, tmp_path, Layout(multi_line=True), *texts) == parse("a BIGINT, b BIGINT")


KNOWN = parse(
    "id BIGINT NOT NULL, n INT, d DOUBLE, at TIMESTAMP, s STRUCT<x: BIGINT, l: ARRAY<STRUCT<y: STRING>>>"
)


def watched(
    *records: Any, is_guess: bool = True, known: Schema = KNOWN, redirects: bool = False
) -> tuple[list[Any], list[Any]]:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    rows, bad = JsonDecoder(known, Fields(known, is_guess, redirects)).sift(pa.array(lines, pa.binary()))
    return rows.to_pylist(), [(one.at, one.reason) for one in bad]


GOOD = {"id": 1, "n": 2, "d": 3, "at": "2026-01-01T00:00:00Z", "s": {"x": 1, "l": [{"y": "z"}]}}
FITTING = [
    {"id": 2},
    {"id": 2, "new": None, "s": {"new": None, "l": [{"new": [None, {}]}]}},
    {"id": 2, "d": 1.5, "s": {"l": []}},
]
NEW = [
    {"id": 1, "new": 1},
    {"id": 1, "s": {"new": "x"}},
    {"id": 1, "s": {"l": [{"new": True}]}},
]
OTHER = [
    ({"id": 1, "n": "text"}, "wrong_type"),
    ({"id": 1.5}, "wrong_type"),
    ({"id": 2**63}, "out_of_range"),
    ({"id": 1, "s": [1]}, "wrong_type"),
    ({"id": 1, "d": {"x": 1}}, "wrong_type"),
]
REFUSED = [
    ({"id": 1, "n": 2**31}, "out_of_range"),
    ({"id": 1, "at": "now"}, "wrong_type"),
    ({"n": 1}, "null"),
    ({"id": 1, "d": 2**53 + 1}, "out_of_range"),
    (b"[1]", "malformed"),
]


@pytest.mark.parametrize("others", [0, 50])
@pytest.mark.parametrize("record", FITTING)
def test_records_that_fit_the_table_are_read_at_once(record, others):
    rows, bad = watched(*[GOOD] * others, record, *[GOOD] * others)
    assert (len(rows), bad) == (2 * others + 1, [])


@pytest.mark.parametrize("others", [0, 50])
@pytest.mark.parametrize("record", NEW)
@pytest.mark.parametrize("redirects", [False, True])
def test_a_record_that_tells_other_columns_ends_a_reading_that_was_a_guess(record, others, redirects):
    with pytest.raises(Unfit):
        watched(*[GOOD] * others, record, *[GOOD] * others, redirects=redirects)


@pytest.mark.parametrize("others", [0, 50])
@pytest.mark.parametrize("record", [record for record, _ in OTHER])
def test_a_record_whose_values_have_their_own_column_ends_a_reading_that_was_a_guess(record, others):
    with pytest.raises(Unfit):
        watched(*[GOOD] * others, record, *[GOOD] * others, redirects=True)


@pytest.mark.parametrize("others", [0, 50])
@pytest.mark.parametrize(("record", "reason"), [*REFUSED, *OTHER])
def test_a_value_that_the_column_cannot_hold_is_bad_also_where_columns_are_a_guess(record, reason, others):
    rows, bad = watched(*[GOOD] * others, record, *[GOOD] * others)
    assert (len(rows), bad) == (2 * others, [(others, reason)])


@given(st.lists(st.fixed_dictionaries({"id": st.integers(0, 9)}, optional={
    "n": st.integers(0, 9) | st.text("ab", max_size=2),
    "d": st.floats(0.5, 1.5) | st.integers(0, 5),
    "s": st.fixed_dictionaries({}, optional={
        "x": st.none() | st.integers(0, 3) | st.text("ab", min_size=1, max_size=1),
        "y": st.none() | st.integers(0, 3) | st.just([]),
        "l": st.none() | st.just([]) | st.lists(st.just({"y": "t"}), max_size=2),
    }),
    "more": st.none() | st.booleans() | st.just([]),
}), min_size=1, max_size=5))  # fmt: skip
@pytest.mark.thorough
@settings(max_examples=80, deadline=None)
def test_a_guess_gives_what_a_look_at_all_records_gives_or_ends(records):
    columns = settled(storable(found(*records)), KNOWN) if not is_mixed(records) else None
    is_known = columns is not None and Fields(KNOWN, True).holds(columns)
    try:
        rows, bad = watched(*records)
    except Unfit:
        assert not is_known
        return
    assert is_known
    expected, wrong = watched(*records, is_guess=False, known=columns)
    assert ([told(row) for row in rows], bad) == ([told(row) for row in expected], wrong)


def is_mixed(records: Any) -> bool:
    try:
        settled(storable(found(*records)), KNOWN)
    except Mixed:
        return True
    return False


def told(value: Any) -> Any:
    """What there is in a value; objects and arrays without anything tell no column."""
    if isinstance(value, dict):
        return {
            key: inner for key, one in value.items() if (inner := told(one)) not in (None, {}, [])
        } or None
    return value


@pytest.mark.parametrize("depth", [infer.DEEPEST + 5, 2_000, 50_000])
@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_a_record_that_is_nested_too_deeply_tells_nothing_and_is_bad(depth, pair):
    opening, closing = pair
    deep = f'{{"id": 1, "x": {opening * depth}1{closing * depth}}}'.encode()
    lines = [json.dumps({"id": n}).encode() for n in range(100)]
    lines.insert(50, deep)
    assert found(*lines) == parse("id BIGINT")
    rows, bad = watched(*lines, is_guess=False, known=parse("id BIGINT"))
    assert (len(rows), bad) == (100, [(50, "too_deep")])
