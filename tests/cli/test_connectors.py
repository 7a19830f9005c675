import json

import pytest

from calve import registry
from calve.cli import reference
from calve.model import Duration, Model, Size


def test_every_connector_is_listed_with_what_it_is(calve):
    ended = calve("connectors")
    lines = [line.split(maxsplit=2) for line in ended.out.splitlines()[1:]]
    assert [tuple(line[:2]) for line in lines] == reference.names()
    assert all(line[2] for line in lines)


@pytest.mark.parametrize(("kind", "name"), reference.names())
def test_every_key_says_what_it_means(kind, name):
    for key in reference.connector(kind, name).all_keys():
        assert key.doc, f"{name}.{key.name}"
        assert key.type, f"{name}.{key.name}"


def test_keys_have_type_and_default(calve):
    value = json.loads(calve("connectors", "iceberg", "-o", "json").out)
    assert [one["kind"] for one in value] == ["source", "sink"]
    keys = {key["name"]: key for key in value[1]["keys"]}
    assert keys["batch_size"]["type"] == "whole number"
    assert keys["batch_size"]["default"] == "10000"
    assert keys["namespace"]["default"] == "required"
    assert keys["retry_for"] == {**keys["retry_for"], "type": "duration", "default": "600s"}
    assert keys["catalog.rest.credential"]["type"] == "secret"
    assert keys["format"]["type"] == "parquet | avro | orc"


def test_keys_are_called_as_declarations_call_them(calve):
    out = calve("connectors", "kafka").out
    assert "\nstart " in out
    assert "\nschema " in out


def test_what_is_not_available_yet_is_said(calve):
    keys = {key.name: key.doc for key in reference.connector("sink", "iceberg").all_keys()}
    assert keys["maintenance"].endswith("Not available yet.")
    assert keys["s3.requester_pays"].endswith("Not available yet.")
    assert not keys["schema_evolution"].endswith("Not available yet.")


def test_the_choices_of_a_section_are_told_apart():
    keys = {key.name: key for key in reference.connector("source", "datagen").all_keys()}
    assert "sequence | int" in keys["fields"].type
    assert keys["fields.<name>(choice).values"].default == "required"


def test_an_unknown_connector_gets_a_suggestion(calve):
    ended = calve("connectors", "kafak")
    assert ended.code == 64
    assert ended.err.endswith("did you mean 'kafka'?\n")


def test_a_connector_that_cannot_be_loaded_does_not_hide_the_others(calve, monkeypatch):
    monkeypatch.setitem(registry.SOURCES, "absent", "calve.sources.absent:Absent")
    out = calve("connectors").out
    assert "cannot be loaded: No module named" in out
    assert "iceberg" in out


class Every(Model):
    """Keys of every shape."""

    size: Size | None = None
    wait: Duration = 1.5
    names: dict[str, list[bool]]


def test_types_are_told_in_plain_words():
    told = [(key.name, key.type, key.default) for key in reference.keys(Every)]
    assert told == [
        ("size", "size", ""),
        ("wait", "duration", "1.5s"),
        ("names", "names, each with list of true or false", "required"),
    ]
