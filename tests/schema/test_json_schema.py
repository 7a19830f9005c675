"""JSON Schema becomes columns, or is refused with the reason."""

import json
from typing import Any

import pytest

from calve.schema import SchemaError, parse
from calve.schema.json_schema import columns


def of(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": ["x"], "$defs": DEFINED})


DEFINED = {
    "Money": {"type": "object", "properties": {"cents": {"type": "integer"}}},
    "Loop": {"$ref": "#/$defs/Loop"},
}


@pytest.mark.parametrize(
    ("type_", "ddl"),
    [
        ({"type": "string"}, "STRING NOT NULL"),
        ({"type": ["null", "string"]}, "STRING"),
        ({"type": "string", "format": "date-time"}, "TIMESTAMP NOT NULL"),
        ({"type": "string", "format": "date"}, "DATE NOT NULL"),
        ({"type": "string", "contentEncoding": "base64"}, "BINARY NOT NULL"),
        ({"enum": ["a", "b"]}, "STRING NOT NULL"),
        ({"type": "integer"}, "BIGINT NOT NULL"),
        ({"type": "integer", "format": "int32"}, "INT NOT NULL"),
        ({"type": "integer", "connect.type": "int16"}, "SMALLINT NOT NULL"),
        ({"type": "number"}, "DOUBLE NOT NULL"),
        ({"type": "boolean"}, "BOOLEAN NOT NULL"),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT> NOT NULL"),
        ({"oneOf": [{"type": "null"}, {"type": "number"}]}, "DOUBLE"),
        ({"anyOf": [{"$ref": "#/$defs/Money"}, {"type": "null"}]}, "STRUCT<cents: BIGINT>"),
        ({"$ref": "other.json"}, "STRUCT<y: STRING> NOT NULL"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "MAP<STRING, STRING> NOT NULL"),
    ],
)
def test_a_property_becomes_a_column(type_: Any, ddl: str) -> None:
    other = json.dumps({"type": "object", "properties": {"y": {"type": "string"}}})
    assert columns(of(x=type_), {"other.json": other}) == parse(f"x {ddl}")


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ({"type": ["string", "integer"]}, "one of string, integer"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "a choice of 2 types"),
        ({"allOf": [{"type": "string"}]}, "allOf"),
        ({"type": "object"}, "an object whose properties are not told"),
        ({"type": "array"}, "a schema that says nothing"),
        ({}, "no type can be no column"),
        (True, "a schema that says nothing"),
        ({"$ref": "#/$defs/None"}, "there is no"),
        ({"$ref": "#/$defs/Loop"}, "inside itself"),
        ({"type": "null"}, "null can be no column"),
    ],
)
def test_what_can_be_no_column_is_refused(type_: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        columns(of(x=type_))


def test_what_is_not_required_may_be_missing() -> None:
    found = columns(of(x={"type": "string"}, y={"type": "string", "description": "why"}))
    assert found == parse("x STRING NOT NULL, y STRING COMMENT 'why'")


@pytest.mark.parametrize("text", ["", "[", "[]", "true", '{"type": "string"}'])
def test_a_text_that_describes_no_object_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        columns(text)
