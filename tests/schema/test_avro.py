"""Avro's schemas become columns, or are refused with the reason."""

import json
from typing import Any

import pytest

from calve.schema import SchemaError, parse
from calve.schema.avro import columns, envelope_columns, load
from tests.subjects import record

FIXED = {"type": "fixed", "name": "F", "size": 16}

TYPES = [
    ("boolean", "BOOLEAN"),
    ("int", "INT"),
    ("long", "BIGINT"),
    ("float", "FLOAT"),
    ("double", "DOUBLE"),
    ("bytes", "BINARY"),
    ("string", "STRING"),
    (FIXED, "BINARY"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, "STRING"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}, "DECIMAL(12,2)"),
    ({**FIXED, "logicalType": "decimal", "precision": 38}, "DECIMAL(38,0)"),
    ({"type": "int", "logicalType": "date"}, "DATE"),
    ({"type": "int", "logicalType": "time-millis"}, "STRING"),
    ({"type": "long", "logicalType": "time-micros"}, "STRING"),
    *(
        ({"type": "long", "logicalType": f"timestamp-{u}"}, "TIMESTAMP")
        for u in ("millis", "micros", "nanos")
    ),
    *(
        ({"type": "long", "logicalType": f"local-timestamp-{u}"}, "TIMESTAMP_NTZ")
        for u in ("millis", "micros", "nanos")
    ),
    ({"type": "string", "logicalType": "uuid"}, "STRING"),
    ({**FIXED, "logicalType": "uuid"}, "STRING"),
    ({"type": "string", "logicalType": "something-new"}, "STRING"),
    ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, "TIMESTAMP_NTZ"),
    (record(("a", "int"), ("b", ["null", "string"]), name="R"), "STRUCT<a: INT NOT NULL, b: STRING>"),
    ({"type": "array", "items": ["null", "long"]}, "ARRAY<BIGINT>"),
    ({"type": "map", "values": {"type": "array", "items": "string"}}, "MAP<STRING, ARRAY<STRING>>"),
    ({"type": {"type": "string"}}, "STRING"),
]


@pytest.mark.parametrize(("type_", "ddl"), TYPES, ids=[f"{ddl}-{n}" for n, (_, ddl) in enumerate(TYPES)])
def test_a_type_becomes_a_column(type_: Any, ddl: str) -> None:
    assert columns(load(json.dumps(record(("x", type_))))) == parse(f"x {ddl} NOT NULL")
    assert columns(load(json.dumps(record(("x", [type_, "null"]))))) == parse(f"x {ddl}")


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ("null", "null can be no column"),
        (["int", "string"], "a union of int, string; only a type and null can be a column"),
        (["null", "int", "string"], "a union of null, int, string"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "39 digits; a column has 38"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "a scale below it"),
        ({"type": "bytes", "logicalType": "decimal"}, "without a precision"),
        (["null", "Row"], "a record inside itself"),
        ("Nobody", "there is no type 'Nobody'"),
        (7, "7 is no type"),
    ],
)
def test_what_can_be_no_column_is_refused(type_: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        columns(load(json.dumps(record(("x", type_)))))


def test_names_are_found_in_their_namespaces_and_in_references() -> None:
    inner = record(("a", "int"), name="Inner", namespace="other")
    text = record(("x", "other.Inner"), ("y", ["null", "other.Inner"]), name="shop.Row")
    found = columns(load(json.dumps(text), [json.dumps(inner)]))
    assert found.ddl() == "x STRUCT<a: INT NOT NULL> NOT NULL, y STRUCT<a: INT NOT NULL>"
    nested = record(("x", record(("a", "int"), name="Inner")), ("y", "Inner"), name="Row", namespace="shop")
    assert columns(load(json.dumps(nested))).names == ("x", "y")


def test_a_comment_comes_from_the_documentation() -> None:
    found = columns(load(json.dumps(record({"name": "x", "type": "int", "doc": "how many"}))))
    assert found == parse("x INT NOT NULL COMMENT 'how many'")


def test_aliases_tell_what_a_column_was_called_before() -> None:
    inner = record({"name": "y", "type": "int", "aliases": ["z"]}, name="Inner")
    found = columns(load(json.dumps(record({"name": "x", "type": inner, "aliases": ["a", "b"]}))))
    assert found.columns[0].aliases == ("a", "b")
    assert found.column("x.y").aliases == ("z",)
    assert found == parse("x STRUCT<y: INT NOT NULL> NOT NULL")


def test_the_columns_of_an_envelope_are_those_of_its_rows() -> None:
    row = record(("id", "long"), ("at", {"type": "int", "logicalType": "date"}), name="Value")
    envelope = record(("before", ["null", row]), ("after", ["null", "Value"]), ("op", "string"))
    assert envelope_columns(load(json.dumps(envelope))) == parse("id BIGINT NOT NULL, at DATE NOT NULL")
    with pytest.raises(SchemaError, match="no envelope of Debezium"):
        envelope_columns(load(json.dumps(row)))


@pytest.mark.parametrize("text", ["", "{", '"string"', "[]", '{"type": "record"'])
def test_a_text_that_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        columns(load(text))
