"""Records whose schemas are in a file or a registry, from a real broker to a table."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calve import declare
from calve.errors import BadRecord, CalveError, ConfigurationError
from calve.verify.opening import opened
from tests.cli.conftest import to_the_end
from tests.subjects import Subjects, datum, headed, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.apicurio import Apicurio
    from tests.servers.kafka import KafkaBroker

PRICE = record(("cents", "long"), name="Price", namespace="shop")
FIRST = record(("id", "long"), ("name", ["null", "string"]), ("price", ["null", "shop.Price"]), name="Order")
SECOND = record(
    ("price", ["null", "shop.Price"]),
    ("id", "long"),
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
    name="Order",
)


class Stream:
    """A topic, and the project that reads it."""

    def __init__(self, kafka: KafkaBroker, spark: SparkSession, folder: Path) -> None:
        self.kafka, self.spark, self.file = kafka, spark, folder / "calve.yaml"
        self.topic = f"registered-{uuid.uuid4().hex[:8]}"
        kafka.create_topic(self.topic, partitions=2)

    def declare(self, sink: dict[str, Any] | None = None, **keys: Any) -> None:
        source = {"bootstrap_servers": self.kafka.bootstrap, "topics": [self.topic], **keys}
        target = {"namespace": "shop", "table": "orders", **(sink or {})}
        whole = {
            "version": "1.0",
            "sources": {"rows": {"connector": "kafka", "config": source}},
            "sinks": {"lake": {"connector": "iceberg", "config": target}},
            "pipelines": {"orders": {"source": "rows", "sink": "lake"}},
        }
        self.file.write_text(json.dumps(whole))

    def error(self) -> BaseException | None:
        (run,) = to_the_end(self.file, self.spark, once=True)
        return run.error

    def rows(self) -> list[dict[str, Any]]:
        error = self.error()
        if error is not None:
            raise error
        catalog = declare.load(self.file).pipeline("orders").sink.catalog
        with opened(catalog, ("shop", "orders")) as load:
            table = load()
            assert table is not None
            return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.fixture
def stream(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(kafka, spark, tmp_path)


def test_records_of_two_versions_in_a_real_registry_become_rows(stream: Stream, apicurio: Apicurio) -> None:
    subject = f"{stream.topic}-value"
    apicurio.register("shop.Price", PRICE)
    old = apicurio.register(subject, FIRST, references=["shop.Price"])
    new = apicurio.register(subject, SECOND, references=["shop.Price"])
    first = json.loads(json.dumps(FIRST).replace('"shop.Price"', json.dumps(PRICE), 1))
    second = json.loads(json.dumps(SECOND).replace('"shop.Price"', json.dumps(PRICE), 1))
    stream.kafka.produce(
        stream.topic,
        [headed(old, datum(first, {"id": n, "name": "x", "price": {"cents": n}})) for n in range(100)]
        + [headed(new, datum(second, {"id": 100, "price": None, "at": 1_700_000_000_123}))],
    )
    stream.declare(format="avro", schema={"registry": {"url": apicurio.url}})
    rows = stream.rows()
    assert [row["id"] for row in rows] == list(range(101))
    assert set(rows[0]) == {"price", "id", "at"}
    assert (rows[7]["price"], rows[7]["at"], rows[100]["price"]) == ({"cents": 7}, None, None)
    assert rows[100]["at"].isoformat() == "2023-11-14T22:13:20.123000+00:00"


def test_json_with_the_ids_of_a_real_registry_becomes_rows(stream: Stream, apicurio: Apicurio) -> None:
    described = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    number = apicurio.register(f"{stream.topic}-value", described, kind="JSON")
    stream.kafka.produce(stream.topic, [headed(number, b'{"id": %d, "name": "x"}' % n) for n in range(5)])
    stream.declare(schema={"registry": {"url": apicurio.url}})
    assert stream.rows() == [{"id": n, "name": "x"} for n in range(5)]
    stream.kafka.produce(stream.topic, [b'{"id": 9}'])
    stream.declare(sink={"dead_letter": "off"}, schema={"registry": {"url": apicurio.url}})
    error = stream.error()
    assert isinstance(error, BadRecord)
    assert error.reason == "it does not begin with the id of a schema"


def test_records_of_a_schema_file_become_rows(stream: Stream) -> None:
    schema = record(("id", "long"), ("name", ["null", "string"]), ("odd", ["int", "string"]))
    stream.file.with_name("order.avsc").write_text(json.dumps(schema))
    stream.kafka.produce(stream.topic, [datum(schema, {"id": n, "name": None, "odd": 1}) for n in range(5)])
    stream.declare(format="avro", schema={"file": "order.avsc", "columns": "id BIGINT NOT NULL, name STRING"})
    assert stream.rows() == [{"id": n, "name": None} for n in range(5)]


def test_a_registry_that_fails_for_a_while_is_waited_for_and_its_secrets_are_kept(stream: Stream) -> None:
    schema = record(("id", "long"))
    with Subjects("Basic bWU6c2VjcmV0") as subjects:
        number = subjects.register("orders", schema)
        stream.kafka.produce(stream.topic, [headed(number, datum(schema, {"id": 1}))])
        place = {"url": subjects.url, "username": "me", "password": "secret"}
        stream.declare(format="avro", schema={"registry": place, "columns": "id BIGINT NOT NULL"})
        subjects.failing = 2
        assert stream.rows() == [{"id": 1}]
        assert subjects.failing == 0
        stream.kafka.produce(stream.topic, [headed(number, datum(schema, {"id": 2}))])
        stream.declare(format="avro", schema={"registry": place | {"subject": "nothing"}})
        error = stream.error()
        assert isinstance(error, ConfigurationError)
        assert "Cannot find subject 'nothing'" in str(error)
        stream.declare(format="avro", schema={"registry": place | {"password": "wrong", "subject": "orders"}})
        error = stream.error()
        assert isinstance(error, CalveError)
        assert error.exit_code == 77
        assert "wrong" not in str(error)
