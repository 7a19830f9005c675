"""Lines of CSV become rows, the fast way and the slow way alike."""

import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.decode.csv import CsvDecoder
from calve.decode.dialect import Dialect
from calve.decode.division import Mismatch
from calve.errors import BadRecord
from calve.schema import parse

ESCAPED = Dialect(";", "'", "\\", "NA")


def decode(schema: str, *lines: str | bytes, dialect: Dialect = Dialect()) -> list[dict[str, Any]]:  # noqa: B008
    values = [line.encode() if isinstance(line, str) else line for line in lines]
    decoder = CsvDecoder(parse(schema), dialect)
    return decoder.decode(pa.array(values, pa.binary()), lambda index: f"line {index + 1}").to_pylist()


def test_fields_become_columns_in_their_order() -> None:
    assert decode("id BIGINT, s STRING, d DECIMAL(5,2)", '1,"a, ""b""",2.5', "2,,", "-3,c,1e2\r\n") == [
        {"id": 1, "s": 'a, "b"', "d": decimal.Decimal("2.50")},
        {"id": 2, "s": None, "d": None},
        {"id": -3, "s": "c", "d": decimal.Decimal(100)},
    ]


def test_a_dialect_changes_how_fields_are_told_apart() -> None:
    assert decode("a STRING, b STRING", "'x;y';z", "x\\;y;NA", "'\\'';\\\\", dialect=ESCAPED) == [
        {"a": "x;y", "b": "z"},
        {"a": "x;y", "b": None},
        {"a": "'", "b": "\\"},
    ]
    assert decode("a STRING, b STRING", '"x,y"', dialect=Dialect(quote=None)) == [{"a": '"x', "b": 'y"'}]


def test_a_header_names_the_fields() -> None:
    decoder = CsvDecoder(parse("id BIGINT NOT NULL, s STRING"), Dialect()).with_header('s,other,"id",')
    rows = decoder.decode(pa.array([b"a,?,1,", b',"\n",2,'], pa.binary()), str).to_pylist()
    assert rows == [{"id": 1, "s": "a"}, {"id": 2, "s": None}]
    with pytest.raises(Mismatch, match="does not name column 'id', which is NOT NULL"):
        CsvDecoder(parse("id BIGINT NOT NULL, s STRING"), Dialect()).with_header("s")
    with pytest.raises(Mismatch, match="names column 'id' twice"):
        CsvDecoder(parse("id BIGINT"), Dialect()).with_header("id,id")


def test_a_column_that_a_file_does_not_have_is_null() -> None:
    decoder = CsvDecoder(parse("id BIGINT, s STRING, x INT"), Dialect()).with_header("s,id")
    rows = decoder.decode(pa.array([b"a,1"], pa.binary()), str).to_pylist()
    assert rows == [{"id": 1, "s": "a", "x": None}]


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("ID,S", "not name 'id', 's' of the schema, and the schema does not have 'ID', 'S' of the header; "
                 "'ID' is 'id' but for case or spaces"),
        ("id, s", "not name 's' of the schema, and the schema does not have ' s' of the header; "
                  "' s' is 's' but for case or spaces"),
        ("id,text", "not name 's' of the schema, and the schema does not have 'text' of the header"),
    ],
)  # fmt: skip
def test_a_header_whose_names_do_not_match_is_refused(header: str, why: str) -> None:
    with pytest.raises(Mismatch) as caught:
        CsvDecoder(parse("id BIGINT, s STRING"), Dialect()).with_header(header)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1", "1 fields where 2 are expected"),
        ("1,b,c", "3 fields where 2 are expected"),
        ("", "1 fields where 2 are expected"),
        ("x,b", "column 'id': 'x' is not a BIGINT: not a whole number"),
        ("0x1F,b", "column 'id': '0x1F' is not a BIGINT: not a whole number"),
        (",b", "column 'id': NULL, and the column is NOT NULL"),
        ('1,"b', "a quote is not closed at character 3"),
        ('1,"b"",', "a quote is not closed at character 3"),
        ("1,b\n2,c", "more than one line, or nothing to escape, at character 4"),
        (b"1,\xff", "not valid UTF-8 at byte 3"),
    ],
)
def test_a_bad_line_is_refused_in_words(line: str | bytes, why: str) -> None:
    with pytest.raises(BadRecord) as caught:
        decode("id BIGINT NOT NULL, s STRING", "1,a", line, "2,c")
    assert (caught.value.place, caught.value.reason) == ("line 2", why)


SIGNS = st.sampled_from([*list("ab01,;\"'\\\n\r \ufeff"), "NA", '""', "''"])


@settings(max_examples=300)
@given(
    st.sampled_from([Dialect(), ESCAPED, Dialect(quote=None), Dialect(escape="\\")]),
    st.sampled_from(["a STRING", "a STRING, b STRING", "a STRING NOT NULL, b INT"]),
    st.lists(st.lists(SIGNS, max_size=8).map("".join), min_size=1, max_size=3),
)
def test_what_the_fast_way_accepts_the_slow_way_reads_the_same(
    dialect: Dialect, schema: str, lines: list[str]
) -> None:
    decoder = CsvDecoder(parse(schema), dialect)
    values = pa.array([line.encode() for line in lines], pa.binary())
    try:
        fast = decoder._fast(values)
    except (pa.ArrowInvalid, Mismatch):
        return
    assert fast.to_pylist() == decoder._slow(values, range(len(values)), []).to_pylist()


@pytest.mark.parametrize("lines", [("a\nb", '"x', 'y"'), ("a", '"b'), ("a", "b\\"), ("\ufeffa",), ("a", "")])
def test_records_that_are_not_one_line_each_get_a_closer_look(lines: tuple[str, ...]) -> None:
    decoder = CsvDecoder(parse("a STRING"), Dialect(escape="\\"))
    with pytest.raises((Mismatch, pa.ArrowInvalid)):
        decoder._fast(pa.array([line.encode() for line in lines], pa.binary()))


def test_a_mark_of_byte_order_within_records_is_kept() -> None:
    assert decode("a STRING", "\ufeffa") == [{"a": "\ufeffa"}]
