"""The table of values, decoded without Spark: alone, and in a block with good records."""

import pyarrow as pa
import pytest

from calve.decode.bad import REASONS, null_keys
from calve.decode.csv import CsvDecoder
from calve.decode.dialect import Dialect
from calve.decode.json import JsonDecoder
from calve.schema import parse
from tests.decode import values
from tests.decode.values import Refused, same

CASES = [
    *((JsonDecoder, kind, text, value) for kind, found in values.JSON.items() for text, value in found),
    *((CsvDecoder, kind, text, value) for kind, found in values.CSV.items() for text, value in found),
]


def decoder_of(kind, declared):
    schema = parse(f"n INT, v {declared}")
    return JsonDecoder(schema) if kind is JsonDecoder else CsvDecoder(schema, Dialect())


def test_there_are_enough_of_them():
    assert len(CASES) >= 250


def test_of_records_that_are_all_bad_there_is_no_row():
    rows, bad = decoder_of(JsonDecoder, "INT").sift(pa.array([b"x"] * 1000, pa.binary()))
    assert (len(rows), len(bad)) == (0, 1000)
    assert [one.at for one in bad] == list(range(1000))


def test_a_key_that_is_no_column_of_the_record_is_not_looked_for_in_it():
    rows = pa.RecordBatch.from_pydict({"id": [1, None]})
    assert [one.at for one in null_keys(rows, ["_partition", "id"])] == [1]


@pytest.mark.parametrize(("kind", "declared", "text", "expected"), CASES)
@pytest.mark.parametrize("others", [0, 100])
def test_a_value_is_stored_as_it_is_or_refused_with_its_reason(kind, declared, text, expected, others):
    good = values.JSON if kind is JsonDecoder else values.CSV
    plain = next(one for one, value in good[declared][::-1] if not isinstance(value, Refused))
    form = '{{"n": 1, "v": {}}}' if kind is JsonDecoder else "1,{}"
    records = [form.format(plain).encode()] * others
    records.insert(others // 2, form.format(text).encode())
    rows, bad = decoder_of(kind, declared).sift(pa.array(records, pa.binary()))
    assert len(rows) + len(bad) == others + 1
    if isinstance(expected, Refused):
        assert [(one.at, one.reason) for one in bad] == [(others // 2, expected.reason)]
        assert expected.reason in REASONS
    else:
        assert bad == []
        assert same(rows.column("v")[others // 2].as_py(), expected)


def test_names_are_compared_letter_by_letter_and_may_hold_dots():
    decoder = JsonDecoder(parse("`a.b` INT, Mixed STRING"))
    records = [b'{"a.b": 1, "Mixed": "x"}', b'{"a": {"b": 1}, "mixed": "x", "MIXED": "y"}']
    rows, bad = decoder.sift(pa.array(records, pa.binary()))
    assert rows.to_pylist() == [{"a.b": 1, "Mixed": "x"}, {"a.b": None, "Mixed": None}]
    assert bad == []


def test_names_that_differ_only_by_case_cannot_be_declared():
    with pytest.raises(ValueError, match="names differ by more than case"):
        parse("a INT, A INT")


def test_a_field_of_mixed_types_fits_one_of_them():
    records = [b'{"v": 1}', b'{"v": "1"}', b'{"v": [1]}', b'{"v": null}', b"{}"]
    rows, bad = JsonDecoder(parse("v INT")).sift(pa.array(records, pa.binary()))
    assert rows.column("v").to_pylist() == [1, None, None]
    assert [(one.at, one.reason) for one in bad] == [(1, "wrong_type"), (2, "wrong_type")]
