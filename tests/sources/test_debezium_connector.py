"""Debezium's own connector: what is in PostgreSQL is in the table, by way of Kafka."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calve import declare
from calve.errors import CalveError
from calve.verify.opening import opened
from tests.cli.conftest import to_the_end
from tests.servers.connect import CONVERTER
from tests.servers.process import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.apicurio import Apicurio
    from tests.servers.connect import Connect
    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Postgres

TABLE = """
  id BIGINT PRIMARY KEY, name TEXT NOT NULL, large TEXT, amount NUMERIC(12,2), ratio DOUBLE PRECISION,
  small SMALLINT, flag BOOLEAN, day DATE, placed TIMESTAMP, seen TIMESTAMPTZ, data BYTEA, tags TEXT[],
  doc JSONB, ident UUID
"""
COLUMNS = """
  id BIGINT NOT NULL, name STRING NOT NULL, large STRING, amount DECIMAL(12,2), ratio DOUBLE,
  small SMALLINT, flag BOOLEAN, day DATE, placed TIMESTAMP_NTZ, seen TIMESTAMP, data BINARY,
  tags ARRAY<STRING>, doc STRING, ident STRING
"""
SELECT = """
  SELECT id, name, large, amount, ratio, small, flag, day, placed, seen, data, tags, doc::text, ident::text
"""
ROWS = """
  INSERT INTO {table} SELECT n, 'name ' || n,
    (SELECT string_agg(md5(n || ':' || i), '') FROM generate_series(1, 400) i),
    n * 1.25 - 3, n / 7.0, n % 100, n % 2 = 0, DATE '1969-12-20' + n,
    TIMESTAMP '1969-12-31 23:59:59.123456' + n * INTERVAL '7 h',
    TIMESTAMPTZ '2026-03-29 00:59:59.999999+02' + n * INTERVAL '1 h', decode(md5(n::text), 'hex'),
    ARRAY['a' || n, NULL, ''], jsonb_build_object('n', n, 'ü', NULL), md5(n::text)::uuid
  FROM generate_series(1, 300) n
"""
MANY = """
  INSERT INTO {table} (id, name, amount, placed)
  SELECT n, 'one of many', n / 100.0, TIMESTAMP '2026-01-01' + n * INTERVAL '1 s'
  FROM generate_series(1000001, 1100000) n
"""
CHANGES = [
    [
        "UPDATE {table} SET name = 'changed', amount = NULL, tags = '{{}}' WHERE id % 3 = 0",
        "DELETE FROM {table} WHERE id % 10 = 0",
    ],
    ["UPDATE {table} SET id = id + 5000, large = 'sent' WHERE id BETWEEN 1 AND 9"],
    ["INSERT INTO {table} (id, name) VALUES (1, 'again'), (10, 'again')"],
    ["UPDATE {table} SET large = NULL WHERE id = 11", "UPDATE {table} SET flag = NULL WHERE id = 11"],
]
LAST = -1

JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN = {"decimals": "base64"}
"""What must be declared of records without a schema part."""


@dataclass
class Capture:
    """A table of PostgreSQL on its way to a table of Iceberg."""

    database: Postgres
    broker: KafkaBroker
    spark: SparkSession
    name: str
    file: Path

    @property
    def topic(self) -> str:
        return f"{self.name}.public.{self.name}"

    def execute(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self.database.connect() as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement.format(table=self.name).encode())

    def source(self) -> list[tuple[Any, ...]]:
        with self.database.connect() as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            return sorted(connection.execute(f"{SELECT} FROM {self.name}".encode()))

    def arrive(self) -> None:
        """Wait until everything so far is in the topic: a last row tells."""
        self.execute(f"DELETE FROM {{table}} WHERE id = {LAST}")
        self.execute(f"INSERT INTO {{table}} (id, name) VALUES ({LAST}, '{uuid.uuid4()}')")
        with self.database.connect() as connection:
            found = connection.execute(f"SELECT name FROM {self.name} WHERE id = {LAST}".encode()).fetchone()
        assert found is not None
        wait_until(lambda: self._has_arrived(found[0]), f"the last row in '{self.topic}'")

    def _has_arrived(self, text: str) -> bool:
        last = self.broker.last(self.topic)
        return last is not None and last.value() is not None and text.encode() in last.value()

    def run(self) -> None:
        """`calve run --once`."""
        for run in to_the_end(self.file, self.spark, once=True):
            if run.error is not None:
                raise run.error

    def table(self) -> list[tuple[Any, ...]]:
        """What PyIceberg reads."""
        catalog = declare.load(self.file).pipeline("orders").sink.catalog
        with opened(catalog, ("shop", "orders")) as load:
            table = load()
            assert table is not None
            return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())

    def take(self) -> None:
        """Everything so far is in the table, value by value."""
        self.arrive()
        self.run()
        found, expected = self.table(), self.source()
        assert len(found) == len(expected)
        for row, wanted in zip(found, expected, strict=True):
            assert row == wanted


def _declaration(broker: KafkaBroker, topic: str, **more: Any) -> str:
    source = {
        "bootstrap_servers": broker.bootstrap,
        "topics": [topic],
        "format": "debezium",
        "schema": COLUMNS,
    }
    sink = {"namespace": "shop", "table": "orders", "commit_mode": "upsert", "key_fields": ["id"]}
    return json.dumps(
        {
            "version": "1.0",
            "sources": {"rows": {"connector": "kafka", "config": {**source, **more}}},
            "sinks": {"lake": {"connector": "iceberg", "config": sink}},
            "pipelines": {"orders": {"source": "rows", "sink": "lake"}},
        }
    )


@contextmanager
def captured(
    made: Capture, connect: Connect, converter: dict[str, str], **declared: Any
) -> Iterator[Capture]:
    """Debezium makes a snapshot of a table with 300 rows, and then follows its changes."""
    large = "ALTER TABLE {table} ALTER large SET STORAGE EXTERNAL"
    made.execute(f"CREATE TABLE {{table}} ({TABLE})", large, ROWS)
    made.broker.create_topic(made.topic)
    both = {f"{part}.converter{key}": value for part in ("key", "value") for key, value in converter.items()}
    connect.capture(made.name, made.database, [f"public.{made.name}"], **both)
    made.file.write_text(_declaration(made.broker, made.topic, **declared))
    yield made
    connect.end(made.name)


@pytest.fixture
def table(spark: SparkSession, postgres: Postgres, kafka: KafkaBroker, tmp_path: Path) -> Capture:
    return Capture(postgres, kafka, spark, f"t{uuid.uuid4().hex[:8]}", tmp_path / "calve.yaml")


@pytest.fixture
def capture(request: pytest.FixtureRequest, table: Capture, connect: Connect) -> Iterator[Capture]:
    """A table on its way in JSON."""
    told = request.param == "with schema parts"
    converter = {"": JSON, ".schemas.enable": str(told).lower()}
    with captured(table, connect, converter, **({} if told else {"debezium": PLAIN})) as made:
        yield made


@pytest.fixture
def avro_capture(table: Capture, connect: Connect, apicurio: Apicurio) -> Iterator[Capture]:
    """A table on its way in Avro, its columns in the registry."""
    converter = {
        "": CONVERTER,
        ".apicurio.registry.url": apicurio.own_url,
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.headers.enabled": "false",
    }
    registry = {"url": apicurio.url, "version": 1}
    with captured(table, connect, converter, schema={"registry": registry}) as made:
        yield made


@pytest.mark.parametrize("capture", ["with schema parts"], indirect=True)
def test_the_table_is_what_the_database_has_after_every_kind_of_change(capture: Capture) -> None:
    capture.take()
    for transaction in CHANGES:
        capture.execute(*transaction)
    # The value of `large` is neither in this batch nor in its records: it is the table's.
    capture.execute("UPDATE {table} SET small = -1 WHERE id BETWEEN 20 AND 40")
    capture.take()
    assert sum(len(row[2] or "") for row in capture.table()) > 1_000_000


@pytest.mark.parametrize("capture", ["without"], indirect=True)
def test_a_transaction_of_100_000_rows_arrives_whole(capture: Capture) -> None:
    capture.execute(
        MANY,
        "UPDATE {table} SET name = 'changed' WHERE id BETWEEN 1000001 AND 1000100",
        "DELETE FROM {table} WHERE id > 1000000 AND id % 1000 = 0",
        "UPDATE {table} SET id = -id WHERE id BETWEEN 1000201 AND 1000300",
    )
    capture.take()
    assert sum(row[0] > 1_000_000 or row[0] < LAST for row in capture.table()) == 100_000 - 100


@pytest.mark.parametrize("capture", ["with schema parts"], indirect=True)
def test_a_new_key_needs_the_values_that_are_not_sent(capture: Capture) -> None:
    capture.execute("ALTER TABLE {table} REPLICA IDENTITY FULL", "UPDATE {table} SET id = 5002 WHERE id = 2")
    capture.take()
    capture.execute(
        "ALTER TABLE {table} REPLICA IDENTITY DEFAULT", "UPDATE {table} SET id = 5001 WHERE id = 1"
    )
    capture.arrive()
    with pytest.raises(CalveError, match="leave columns out whose values the table does not have"):
        capture.run()


def test_envelopes_in_avro_give_the_same_table(avro_capture: Capture) -> None:
    """The columns stay those of the first version, also where records are written with the second."""
    avro_capture.take()
    for transaction in CHANGES:
        avro_capture.execute(*transaction)
    avro_capture.execute("UPDATE {table} SET small = -1 WHERE id BETWEEN 20 AND 40")
    avro_capture.execute(
        "ALTER TABLE {table} ADD COLUMN later INT DEFAULT 7", "UPDATE {table} SET flag = NOT flag"
    )
    avro_capture.take()
