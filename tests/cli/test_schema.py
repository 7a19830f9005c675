import json

import pytest

from calve import registry
from calve.cli import schema

WORDS = {
    "$defs", "$ref", "$schema", "additionalProperties", "anyOf", "const", "default", "description",
    "discriminator", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems",
    "maxLength", "maximum", "minItems", "minLength", "minProperties", "minimum", "oneOf", "pattern",
    "patternProperties", "properties", "propertyNames", "required", "title", "type", "uniqueItems",
    "writeOnly",
}  # fmt: skip
TYPES = {"array", "boolean", "integer", "null", "number", "object", "string"}


@pytest.fixture(scope="module")
def whole():
    return schema.declaration()


def nodes(value):
    """Every schema inside a schema."""
    yield value
    for key in ("properties", "$defs", "patternProperties"):
        for inner in value.get(key, {}).values():
            yield from nodes(inner)
    for key in ("items", "additionalProperties", "propertyNames"):
        if isinstance(value.get(key), dict):
            yield from nodes(value[key])
    for key in ("anyOf", "oneOf"):
        for inner in value.get(key, []):
            yield from nodes(inner)


def test_it_is_printed_as_json(calve, whole):
    ended = calve("schema")
    assert ended.code == 0
    assert json.loads(ended.out) == whole


def test_every_word_of_it_is_one_of_json_schema(whole):
    for node in nodes(whole):
        assert set(node) <= WORDS
        assert node.get("type", "object") in TYPES
        assert isinstance(node.get("required", []), list)


def test_every_reference_leads_somewhere_and_nothing_is_left_over(whole):
    named = {node["$ref"].removeprefix("#/$defs/") for node in nodes(whole) if "$ref" in node}
    assert named == set(whole["$defs"])


def test_every_connector_is_one_of_the_choices(whole):
    for kind in ("source", "sink"):
        choices = whole["properties"][f"{kind}s"]["additionalProperties"]["oneOf"]
        assert [one["properties"]["connector"]["const"] for one in choices] == registry.names(kind)


def test_every_key_has_a_description(whole):
    for node in nodes(whole):
        for name, key in node.get("properties", {}).items():
            assert key.get("description"), name


def test_unknown_keys_are_refused_everywhere(whole):
    assert all("additionalProperties" in node for node in nodes(whole) if "properties" in node)


def test_version_and_pipelines_are_required(whole):
    assert sorted(whole["required"]) == ["pipelines", "version"]


def test_a_variable_may_stand_for_a_number_or_a_choice(whole):
    keys = whole["$defs"]["IcebergSink"]["properties"]
    assert schema.VARIABLE in keys["batch_size"]["anyOf"]
    assert schema.VARIABLE in keys["compression"]["anyOf"]
