"""Records without a value: what their keys say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from calve.decode.changes import RowChanges
from calve.decode.json import JsonDecoder
from calve.decode.rows import Topics, record_rows
from calve.decode.valueless import KeyDecoder, Valueless
from calve.gateway import WorkerError
from calve.schema import parse

COLUMNS = parse("id BIGINT, name STRING")


def keys(
    columns: str, format: str, *given: bytes | None
) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
    rows, bad = KeyDecoder(parse(columns), format).sift(pa.array(given, pa.binary()))
    return [tuple(row.values()) for row in rows.to_pylist()], [(one.at, one.reason) for one in bad]


@pytest.mark.parametrize(
    ("columns", "format", "key", "row"),
    [
        ("id BIGINT NOT NULL", "json", b'{"id": 7, "more": 1}', (7,)),
        ("id BIGINT NOT NULL", "json", b" 7", (7,)),
        ("id STRING NOT NULL", "json", b'"seven"', ("seven",)),
        ("id STRING NOT NULL, n INT NOT NULL", "json", b'{"n": 1, "id": "a"}', ("a", 1)),
        ("id STRING NOT NULL", "text", b'{"id": 7}', ('{"id": 7}',)),
        ("id STRING NOT NULL", "text", b"7", ("7",)),
        ("id STRING NOT NULL", "text", b"", ("",)),
        ("id BIGINT NOT NULL", "text", b"-7", (-7,)),
    ],
)
def test_a_key_has_the_values_of_its_columns(columns, format, key, row):
    assert keys(columns, format, key) == ([row], [])


@pytest.mark.parametrize(
    ("columns", "format", "key", "reason"),
    [
        ("id BIGINT NOT NULL", "json", None, "null_key"),
        ("id BIGINT NOT NULL", "json", b'{"other": 7}', "null"),
        ("id BIGINT NOT NULL", "json", b"null", "null"),
        ("id BIGINT NOT NULL", "json", b'7, "id": 8', "malformed"),
        ("id BIGINT NOT NULL", "json", b"[7]", "malformed"),
        ("id BIGINT NOT NULL", "json", b'"seven"', "wrong_type"),
        ("id BIGINT NOT NULL", "text", b"seven", "malformed"),
        ("id BIGINT NOT NULL", "text", b"\xff", "malformed"),
        ("id STRING NOT NULL, n INT NOT NULL", "json", b"7", "malformed"),
    ],
)
def test_a_key_that_names_no_row_is_bad(columns, format, key, reason):
    assert keys(columns, format, key) == ([], [(0, reason)])


def taken(valueless: Valueless, *records: tuple[bytes | None, bytes | None], required: Any = ()) -> pa.Table:
    given, values = zip(*records, strict=True)
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(given, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([0] * len(records), pa.int32()),
            "offset": pa.array(range(len(records)), pa.int64()),
        }
    )
    changes = RowChanges(required=required)
    work = record_rows(JsonDecoder(COLUMNS), {"offset": "at"}, Topics(("t",)), changes, None, valueless)
    return pa.Table.from_batches(list(work([batch])))


DELETES = Valueless(KeyDecoder(parse("id BIGINT NOT NULL"), "json"))


def test_a_record_without_a_value_is_a_delete_of_its_key_in_its_place():
    made = taken(DELETES, (b"1", b'{"id": 1, "name": "a"}'), (b"1", None), (b"2", b'{"id": 2, "name": null}'))
    rows = [(row["at"], row["id"], row["name"], row["_calve_op"]) for row in made.to_pylist()]
    assert sorted(rows) == [(0, 1, "a", "u"), (1, 1, None, "d"), (2, 2, None, "u")]
    assert all(row["_calve_order"]["at"] == row["at"] for row in made.to_pylist())


def test_records_without_a_value_may_be_all_that_there_are():
    assert [row["_calve_op"] for row in taken(DELETES, (b"1", None), (b"2", None)).to_pylist()] == ["d", "d"]
    assert taken(Valueless(), (b"1", None)).num_rows == 0


def test_a_record_without_a_value_may_be_nothing():
    made = taken(Valueless(), (b"x", None), (b"2", b'{"id": 2, "name": "b"}'))
    assert [(row["at"], row["id"]) for row in made.to_pylist()] == [(1, 2)]


def test_rows_that_stay_need_the_columns_that_deletes_have_not():
    with pytest.raises(WorkerError) as caught:
        taken(DELETES, (b"1", None), (b"2", b'{"id": 2}'), required=["name"])
    assert "offset 1" in str(caught.value)


def test_a_bad_key_is_told_by_the_place_of_its_record():
    with pytest.raises(WorkerError) as caught:
        taken(DELETES, (b"2", b'{"id": 2}'), (b"[]", None))
    assert "offset 1" in str(caught.value)
    assert "the key of a record without a value" in str(caught.value)
