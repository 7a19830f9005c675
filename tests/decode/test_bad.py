"""Which records leave a worker as dead letters, with what is kept of them, without Spark."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from calve import changes
from calve.decode.bad import Letter, Report, Sieve, as_batch
from calve.decode.changes import RowChanges
from calve.decode.json import JsonDecoder
from calve.decode.reading import Layout, Split, file_rows
from calve.decode.route import Route
from calve.decode.rows import Topics, record_rows
from calve.decode.schemas import stated_id
from calve.schema import parse
from calve.sink.declaration import IcebergSink
from calve.sink.routed import route_of

SCHEMA = parse("id BIGINT, region STRING, s STRUCT<kind: STRING, n: INT>")


def route(table: str, **keys: Any) -> Route:
    sink = IcebergSink.model_validate({"namespace": "shop", "table": table, **keys})
    found = route_of(sink)
    assert found is not None
    return found


class Catcher:
    """Collects what a sieve reports."""

    def __init__(self, **keys: Any) -> None:
        self.reports: list[Report] = []
        self.sieve = Sieve("batch", "salt", self.reports.extend, **keys)

    @property
    def letters(self) -> list[Letter]:
        return [letter for report in self.reports for letter in report.letters]

    def told(self) -> list[tuple[bytes | None, str]]:
        return [(letter.value, letter.reason) for letter in self.letters]

    def adds_up(self, rows: int) -> bool:
        return sum(report.records for report in self.reports) == rows + sum(one.bad for one in self.reports)


def records(values: Iterable[bytes | None], **columns: Any) -> pa.RecordBatch:
    held = list(values)
    arrays: dict[str, Any] = {
        "value": pa.array(held, pa.binary()),
        "partition": pa.array([0] * len(held), pa.int32()),
        "offset": pa.array(range(len(held)), pa.int64()),
        "key": pa.array(columns.pop("key", [None] * len(held)), pa.binary()),
        "timestamp": pa.array([0] * len(held), pa.timestamp("us", "UTC")),
        "headers_as_json": pa.nulls(len(held), pa.string()),
        **{name: pa.array(value) for name, value in columns.items()},
    }
    return pa.RecordBatch.from_pydict(arrays)


def rows(work: Any, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for made in work([batch]) for row in made.to_pylist()]


LINES = [
    b'{"id": 1, "region": "eu"}',
    b'{"id": 2, "region": "EU"}',
    b'{"id": 3}',
    b"nothing",
    b'{"id": 4, "region": "us"}',
    b'{"id": 5, "region": ""}',
]
NOWHERE = [(LINES[1], "no_route"), (LINES[2], "no_route"), (LINES[3], "malformed"), (LINES[5], "no_route")]


def test_records_that_no_table_is_for_are_kept_back_and_counts_add_up():
    catcher = Catcher(route=route("orders_{region}"))
    found = rows(record_rows(JsonDecoder(SCHEMA), {}, Topics(("t",)), None, catcher.sieve), records(LINES))
    assert [row["id"] for row in found] == [1, 4]
    assert catcher.told() == NOWHERE
    assert catcher.adds_up(len(found))
    letter = catcher.letters[0]
    assert (letter.stage, letter.position) == ("route", '{"topic":"t","partition":0,"offset":1}')
    assert (
        letter.message == "table 'orders_EU': a name has small letters, digits and '_', at most 128 of them"
    )
    assert catcher.letters[1].message == "no table: NULL in {region}"


def test_lines_of_files_are_judged_in_the_same_way(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"\n".join(LINES))
    state = path.stat()
    split = Split(str(path), 0, state.st_size, state.st_size, state.st_mtime_ns)
    catcher = Catcher(route=route("orders_{region}"))
    work = file_rows(JsonDecoder(SCHEMA), [[split]], Layout(), None, catcher.sieve)
    found = rows(work, pa.RecordBatch.from_pydict({"id": [0]}))
    assert [row["id"] for row in found] == [1, 4]
    assert catcher.told() == NOWHERE
    assert catcher.adds_up(len(found))


def test_a_second_pass_finds_the_same_letters():
    catcher = Catcher(route=route("orders_{region}"), keys=("_key",))
    made = records(LINES, key=[b"k", b"k", b"k", b"k", None, b"k"])
    names = {"key": "_key"}
    first = record_rows(JsonDecoder(SCHEMA), names, Topics(("t",)), None, catcher.sieve)
    assert [row["id"] for row in rows(first, made)] == [1]
    second = record_rows(JsonDecoder(SCHEMA), names, Topics(("t",)), None, catcher.sieve.only_letters())
    again = rows(second, made)
    assert [one["letter_id"] for one in again] == [letter.letter_id for letter in catcher.letters]


@pytest.mark.parametrize(
    ("table", "keys", "refused"),
    [
        ("t_{s.kind}", {}, [1, 2]),
        ("t_{id}", {"allowed_tables": ["t_1", "t_3"]}, [1]),
        ("t_{id}_{region}", {}, [2]),
        ("t_{missing}", {}, [0, 1, 2]),
    ],
)
def test_columns_inside_structs_and_numbers_name_tables_too(table, keys, refused):
    held = [
        {"id": 1, "region": "eu", "s": {"kind": "a", "n": 1}},
        {"id": 2, "region": "us", "s": {"kind": None, "n": 1}},
        {"id": 3, "region": None, "s": None},
    ]
    batch = pa.RecordBatch.from_pylist(held)
    assert [one.at for one in route(table, **keys).unrouted(batch)] == refused


def test_a_topic_names_the_table_whether_there_is_one_or_several():
    line = b'{"id": 1}'
    for topics, columns in ((("Bad",), {}), (("Bad", "good"), {"topic": ["good", "Bad"]})):
        catcher = Catcher(route=route("raw_{stream}"))
        work = record_rows(JsonDecoder(SCHEMA), {}, Topics(topics), None, catcher.sieve)
        found = rows(work, records([line, line], **columns))
        assert len(found) == len(topics) - 1
        assert {letter.reason for letter in catcher.letters} == {"no_route"}
        assert catcher.adds_up(len(found))


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        ({}, [0]),
        ({"change_columns": True}, [0, 1]),
        ({"commit_mode": "upsert", "key_fields": ["region"]}, [0, 1]),
    ],
)
def test_what_no_table_takes_needs_none_and_what_empties_tables_is_left_to_the_sink(keys, refused):
    operations = [changes.UPDATE, changes.DELETE, changes.TRUNCATE]
    batch = pa.RecordBatch.from_pydict(
        {"region": pa.nulls(3, pa.string()), changes.OPERATION: pa.array(operations)}
    )
    assert [one.at for one in route("t_{region}", **keys).unrouted(batch)] == refused


def test_a_record_without_a_key_is_told_so_before_it_is_told_to_have_no_table():
    catcher = Catcher(keys=("id", "region"), route=route("t_{region}"))
    work = record_rows(JsonDecoder(SCHEMA), {}, Topics(("t",)), RowChanges(), catcher.sieve)
    lines = [b'{"id": 1, "region": "eu"}', b'{"region": "eu"}', b'{"id": 2}', b'{"id": 3, "region": "EU"}']
    assert len(rows(work, records(lines))) == 1
    assert [reason for _, reason in catcher.told()] == ["null_key", "null_key", "no_route"]


def test_the_key_of_a_record_may_be_the_key_of_the_table_and_must_then_be_there():
    catcher = Catcher(keys=("_key",))
    work = record_rows(JsonDecoder(SCHEMA), {"key": "_key"}, Topics(("t",)), RowChanges(), catcher.sieve)
    found = rows(work, records([b'{"id": 1}', b'{"id": 2}'], key=[b"k", None]))
    assert [row["id"] for row in found] == [1]
    assert catcher.told() == [(b'{"id": 2}', "null_key")]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (b"\0\0\0\1\2{", 258),
        (b"\0\xff\xff\xff\xff", -1),
        (b"\0\0\0", None),
        (b'{"a": 1}', None),
        (None, None),
    ],
)
def test_a_letter_keeps_the_id_that_its_record_begins_with(value, number):
    assert stated_id(value) == number
    catcher = Catcher()
    work = record_rows(JsonDecoder(SCHEMA), {}, Topics(("t",), headed=True), None, catcher.sieve)
    rows(work, records([value if value != b'{"a": 1}' else b"{"]))
    assert [letter.schema_id for letter in catcher.letters] == [number]


def test_without_a_registry_no_bytes_are_taken_for_an_id():
    catcher = Catcher()
    rows(record_rows(JsonDecoder(SCHEMA), {}, Topics(("t",)), None, catcher.sieve), records([b"\0\0\0\1\2{"]))
    assert [letter.schema_id for letter in catcher.letters] == [None]


def test_where_it_is_bare_a_sieve_carries_which_records_are_bad_and_no_bytes_of_them():
    lines = [b"x" * 10_000 for _ in range(1_000)]
    for bare in (False, True):
        catcher = Catcher(bare=bare)
        rows(record_rows(JsonDecoder(SCHEMA), {}, Topics(("t",)), None, catcher.sieve), records(lines))
        assert sum(report.bad for report in catcher.reports) == 1_000
        assert (len(catcher.letters) == 1_000) is bare
    assert {(one.value, one.reason) for one in catcher.letters} == {(None, "malformed")}
    assert len({one.position for one in catcher.letters}) == 1_000


def test_a_file_whose_name_is_no_text_has_letters_too(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    with open(path, "wb") as file:
        file.write(b"x")
    state = os.stat(path)
    catcher = Catcher()
    split = Split(path, 0, 1, 1, state.st_mtime_ns)
    work = file_rows(JsonDecoder(SCHEMA), [[split]], Layout(), None, catcher.sieve)
    assert rows(work, pa.RecordBatch.from_pydict({"id": [0]})) == []
    (letter,) = as_batch(catcher.letters).to_pylist()
    assert json.loads(letter["position"])["file"] == path


def test_what_names_tables_travels_to_workers():
    one = pickle.loads(pickle.dumps(route("orders_{region}", allowed_tables=["orders_eu"])))
    batch = pa.RecordBatch.from_pydict({"region": ["eu", "us"]})
    assert [bad.at for bad in one.unrouted(batch)] == [1]


def test_headers_that_came_as_text_are_what_they_were():
    reports: list[Any] = []
    told = '[{"key":"trace","value":"AQ=="},{"value":"AA=="},{"key":"empty"}]'
    work = record_rows(
        JsonDecoder(parse("id BIGINT")), {}, Topics(("orders",)), None, Sieve("b", "s", reports.extend)
    )
    assert rows(work, records([b"{", b"["], headers_as_json=[told, None])) == []
    assert [letter.headers for letter in reports[0].letters] == [
        [
            {"key": "trace", "value": b"\x01"},
            {"key": None, "value": b"\x00"},
            {"key": "empty", "value": None},
        ],
        None,
    ]
