"""The schema of a source in a file or a registry: which columns it gives, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calve.decode.avro import AvroDecoder
from calve.decode.headed import HeadedDecoder
from calve.errors import ConfigurationError
from calve.schema import parse
from calve.sources.files import FilesSource
from calve.sources.kafka import KafkaSource
from calve.sources.written_schema import RegistryPlace
from tests.subjects import Subjects, record

ORDER = record(("id", "long"), ("name", ["null", "string"]))
DESCRIBED = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["id"],
}
COLUMNS = "id BIGINT NOT NULL, name STRING"
FILES = {
    "o.avsc": json.dumps(ORDER),
    "o.schema.json": json.dumps(DESCRIBED),
    "o.sql": f"-- ours\n{COLUMNS}\n",
}


def kafka(**keys: Any) -> KafkaSource:
    source = KafkaSource.model_validate({"bootstrap_servers": "localhost:9092", "topics": ["orders"], **keys})
    assert source.flaws() == []
    return source


@pytest.fixture
def subjects() -> Iterator[Subjects]:
    with Subjects("Bearer let-me-in") as running:
        yield running


def place(subjects: Subjects, **more: Any) -> dict[str, Any]:
    return {"registry": {"url": subjects.url, "token": "let-me-in", **more}}


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_the_columns(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    here = {"directory": str(tmp_path)}
    for source in (
        KafkaSource.model_validate(
            {"bootstrap_servers": "h:1", "topics": ["t"], "schema": {"file": name}}, context=here
        ),
        FilesSource.model_validate({"path": "in", "schema": {"file": name}}, context=here),
    ):
        assert source.flaws() == []
        assert source.columns() == parse(COLUMNS)


def test_columns_of_ones_own_leave_out_what_can_be_no_column(tmp_path: Path) -> None:
    file = tmp_path / "o.avsc"
    file.write_text(json.dumps(record(("id", "long"), ("odd", ["int", "string"]))))
    source = kafka(format="avro", schema={"file": str(file), "columns": "id BIGINT NOT NULL"})
    assert source.columns() == parse("id BIGINT NOT NULL")


def test_a_registry_is_asked_when_the_source_is_used_and_only_once(subjects: Subjects) -> None:
    subjects.register("orders-value", record(("id", "long")))
    subjects.register("orders-value", ORDER)
    source = kafka(format="avro", schema=place(subjects))
    assert (source.columns(), subjects.asked) == (None, [])
    assert isinstance(source._decoder(), AvroDecoder)
    assert source.columns() == parse(COLUMNS)
    assert subjects.asked == ["/subjects/orders-value/versions/latest"]
    first = kafka(format="avro", schema=place(subjects, version=1))
    first._decoder()
    assert first.columns() == parse("id BIGINT NOT NULL")


def test_with_columns_of_ones_own_no_subject_is_needed(subjects: Subjects) -> None:
    source = kafka(format="avro", topics=["a", "b"], schema={**place(subjects), "columns": COLUMNS})
    assert isinstance(source._decoder(), AvroDecoder)
    assert (source.columns(), subjects.asked) == (parse(COLUMNS), [])


def test_json_schema_describes_json(subjects: Subjects) -> None:
    subjects.register("orders-value", DESCRIBED, kind="JSON")
    source = kafka(schema=place(subjects))
    assert isinstance(source._decoder(), HeadedDecoder)
    assert source.columns() == parse(COLUMNS)


@pytest.mark.parametrize(
    ("keys", "schema", "kind", "why"),
    [
        ({"format": "json"}, ORDER, "AVRO", "it is one of AVRO, which does not describe format json"),
        ({"format": "avro"}, DESCRIBED, "JSON", "it is one of JSON, which does not describe format avro"),
        ({"format": "avro"}, "syntax", "PROTOBUF", "it is one of PROTOBUF"),
        (
            {"format": "avro"},
            record(("x", ["int", "string"])),
            "AVRO",
            "a union .*; name the columns to read",
        ),
        (
            {"format": "avro", "operation": {"field": "op"}},
            ORDER,
            "AVRO",
            "operation.field: 'op' is not a column",
        ),
        (
            {"format": "avro", "metadata": ["offset"]},
            record(("_offset", "long")),
            "AVRO",
            "metadata: the schema has",
        ),
        ({"format": "debezium"}, ORDER, "AVRO", "no envelope of Debezium"),
    ],
)
def test_a_subject_that_does_not_fit_is_refused(
    subjects: Subjects, keys: dict[str, Any], schema: Any, kind: str, why: str
) -> None:
    subjects.register("orders-value", schema, kind=kind)
    source = kafka(schema=place(subjects), **keys)
    with pytest.raises(ConfigurationError, match=why) as caught:
        source._value_columns()
    assert "Cannot use the schema of subject 'orders-value'" in str(caught.value)
    assert "let-me-in" not in repr(source)


def test_a_server_that_is_no_registry_is_told(subjects: Subjects) -> None:
    subjects.register("orders-value", "{}")
    subjects.registered[0].pop("schema")
    with pytest.raises(ConfigurationError, match="as a schema registry: it does not answer like one"):
        kafka(format="avro", schema=place(subjects))._value_columns()


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"url": "http://registry.lan", "token": "x"}, "would go to 'registry.lan' by plain http"),
        ({"url": "http://r.lan", "username": "u", "password": "p"}, "would go to 'r.lan' by plain http"),
        ({"url": "http://169.254.169.254/latest"}, "tells its machines their credentials"),
        ({"url": "http://registry.lan", "token": "x", "allow_insecure": True}, None),
        ({"url": "http://registry.lan"}, None),
        ({"url": "http://localhost:8081", "token": "x"}, None),
        ({"url": "https://registry.lan", "token": "x"}, None),
    ],
)
def test_credentials_go_to_a_registry_where_nobody_else_can_read_them(
    keys: dict[str, Any], why: str | None
) -> None:
    found = [flaw.message for flaw in RegistryPlace.model_validate(keys).flaws()]
    assert len(found) == (why is not None)
    assert all(why in message for message in found if why)
