"""Rows of Avro files, by the rules for Avro records."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from calve import changes
from calve.decode.avro_files import avro_rows, columns_of, headers
from calve.decode.changes import RowChanges
from calve.decode.reading import Split
from calve.errors import BadRecord
from calve.gateway import WorkerError
from calve.schema import parse

UTC = dt.timezone.utc


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def schema(**fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def plain(type_: Any) -> Any:
    """Without logical types, so that values are written as they are."""
    if isinstance(type_, dict):
        return {key: plain(value) for key, value in type_.items() if key != "logicalType"}
    return [plain(one) for one in type_] if isinstance(type_, list) else type_


@pytest.fixture
def write(tmp_path):
    def written(told: dict[str, Any], *rows: dict[str, Any], name: str = "a.avro", **options: Any) -> str:
        path = tmp_path / name
        # The header has the logical types, and the values are given as Avro has them.
        with path.open("wb") as file:
            fastavro.writer(file, plain(told), rows, metadata={"x": "y"}, **options)
        data = path.read_bytes()
        old, new = (json.dumps(one).encode() for one in (_header(data), told))
        begin = data.index(b"avro.schema") + len(b"avro.schema")
        length, rest = _long(data, begin)
        path.write_bytes(data[:begin] + _varint(len(new)) + new + data[rest + length :])
        assert old
        return str(path)

    return written


def _header(data: bytes) -> Any:
    begin = data.index(b"avro.schema") + len(b"avro.schema")
    length, rest = _long(data, begin)
    return json.loads(data[rest : rest + length])


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at


def _varint(number: int) -> bytes:
    value, made = number << 1, bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def read(path: str, columns: Any, *keys: Any) -> pa.Table:
    state = os.stat(path)
    tasks = [[Split(path, 0, state.st_size, state.st_size, state.st_mtime_ns, None, 3)]]
    numbers = pa.RecordBatch.from_arrays([pa.array([0])], names=["id"])
    return pa.Table.from_batches(list(avro_rows(tasks, columns, *keys)([numbers])))


def test_files_follow_the_table_of_the_docs(write):
    told = schema(
        i="int", day=logical("int", "date"), clock=logical("long", "time-micros"),
        at=logical("long", "timestamp-nanos"), local=logical("long", "local-timestamp-millis"),
        price=logical("bytes", "decimal", precision=9, scale=2), s=["null", "string"],
        m={"type": "map", "values": "long"}, l={"type": "array", "items": "string"},
    )  # fmt: skip
    row = {"i": 1, "day": 1, "clock": 250, "at": 1_000_000, "local": 1, "price": b"\x01\x00", "s": None,
           "m": {"k": 1}, "l": ["x"]}  # fmt: skip
    for codec in ("null", "deflate"):
        path = write(told, row, codec=codec)
        columns = columns_of(headers([path]), None, None)
        assert columns == parse(
            "i INT, day DATE, clock STRING, at TIMESTAMP, local TIMESTAMP_NTZ, price DECIMAL(9,2), s STRING, "
            "m MAP<STRING, BIGINT>, l ARRAY<STRING>"
        )
        assert read(path, columns).to_pylist() == [
            {
                "i": 1, "day": dt.date(1970, 1, 2), "clock": "00:00:00.000250",
                "at": dt.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC),
                "local": dt.datetime(1970, 1, 1, 0, 0, 0, 1000), "price": Decimal("2.56"), "s": None,
                "m": [("k", 1)], "l": ["x"],
            }
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "declared", "why"),
    [
        (logical("long", "timestamp-nanos"), 1, "TIMESTAMP", "record 2: column 'v': finer"),
        ("long", 300, "TINYINT", "record 2: column 'v'"),
        (logical("bytes", "decimal", precision=38, scale=0), (10**28).to_bytes(13, "big"), "DECIMAL(38,18)",
         "record 2: column 'v'"),
        (logical("int", "date"), 2932897, "DATE", "record 2: column 'v': out of the calendar"),
        (logical("int", "time-millis"), -1, "STRING", "record 2: column 'v': no time of a day"),
        (["null", "long"], None, "BIGINT NOT NULL", "record 2: column 'v': NULL"),
    ],
)  # fmt: skip
def test_a_value_that_the_column_does_not_hold_is_told_with_its_record(write, kind, value, declared, why):
    good = {"bytes": b"\0"}.get(kind["type"] if isinstance(kind, dict) else "", 0)
    path, columns = write(schema(v=kind), {"v": good}, {"v": value}), parse(f"v {declared}")
    assert columns_of(headers([path]), columns, None) == columns
    with pytest.raises(WorkerError, match=rf"a\.avro.*{why}"):
        read(path, columns)


def test_texts_that_are_no_utf8_and_bytes_that_are_cut_are_refused(write):
    path = Path(write(schema(v="string"), {"v": "abcdef" * 10}))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"abc", b"\xff\xfe\xfd"))
    with pytest.raises(WorkerError, match="a text is not valid UTF-8"):
        read(str(path), parse("v STRING"))
    path.write_bytes(data[:-20])
    with pytest.raises(WorkerError, match="damaged or cut off"):
        read(str(path), parse("v STRING"))
    path.write_bytes(b"nothing")
    with pytest.raises(BadRecord, match="damaged or cut off"):
        headers([str(path)])


@pytest.mark.parametrize(
    ("told", "declared", "why"),
    [
        (schema(v=["int", "string"]), None, "a union of int, string; only a type and null can be a column"),
        (schema(v=["null", "R"]), None, "a record inside itself"),
        (schema(v="string"), "v BIGINT", "column 'v': the file says string, which is not a BIGINT"),
        (schema(V="string"), "v STRING", "it has no column 'v', but one called 'V'"),
        (schema(w="string"), "v STRING NOT NULL", "column 'v': not in the schema of the writer"),
    ],
)
def test_a_file_of_another_kind_is_refused_before_it_is_read(write, told, declared, why):
    with pytest.raises(BadRecord, match=rf"a\.avro.*{why}"):
        columns_of(headers([write(told)]), parse(declared) if declared else None, None)


def test_without_a_schema_files_have_the_columns_of_all_of_them(write):
    paths = [write(schema(a="int")), write(schema(a="long", b="string"), name="b.avro")]
    for order in (paths, paths[::-1]):
        found = columns_of(headers(order), None, None)
        assert {one.name: one.type.ddl() for one in found.columns} == {"a": "BIGINT", "b": "STRING"}
    assert read(write(schema(a="int"), {"a": 1}), parse("a BIGINT, b STRING")).to_pylist() == [
        {"a": 1, "b": None}
    ]


def test_defaults_and_aliases_of_the_declared_schema_count(write):
    own = json.dumps(
        {"type": "record", "name": "R", "fields": [
            {"name": "a", "type": "int", "aliases": ["old"]}, {"name": "b", "type": "string", "default": "x"},
        ]}
    )  # fmt: skip
    path, columns = write(schema(old="int"), {"old": 5}), parse("a INT NOT NULL, b STRING NOT NULL")
    assert columns_of(headers([path]), columns, own) == columns
    assert read(path, columns, None, own).to_pylist() == [{"a": 5, "b": "x"}]


def test_changes_are_in_the_order_of_their_file(write):
    path = write(schema(id="int", op="string"), *({"id": n, "op": "d" if n == 2 else "i"} for n in range(4)))
    found = read(path, parse("id INT, op STRING"), RowChanges("op", {"i": "i", "d": "d"}, ("id",)))
    assert found.column(changes.OPERATION).to_pylist() == ["i", "i", "d", "i"]
    assert [(one["lane"], one["at"]) for one in found.column(changes.ORDER).to_pylist()] == [
        (3, n) for n in range(4)
    ]
