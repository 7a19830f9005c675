"""Which writer makes the data files."""

from dataclasses import replace

import pytest

from calve import schema
from calve.partitioning import partition_field
from calve.schema import Array, Column, Primitive, Schema
from calve.sink.choice import ARROW, HERE, JAVA, Held, Needs, described, passes_spark_by, types_of, why_java
from calve.sink.declaration import IcebergSink

COLUMNS = schema.parse(
    "id BIGINT NOT NULL, at TIMESTAMP, name STRING, x DOUBLE, raw BINARY, "
    "point STRUCT<x: INT, tags: ARRAY<STRING>>, names MAP<STRING, DECIMAL(9,2)>"
)
HELD = Held(COLUMNS, types_of(COLUMNS), location="file:/lake/shop/orders")


def sink(**keys):
    return IcebergSink.model_validate({"namespace": "shop", "table": "orders", **keys})


def needs(held=HELD, rows=COLUMNS, decodes=True, transforms=False, **keys):
    return Needs(sink(**keys), decodes, transforms, held, rows)


KEYS = {"access_key_id": "a", "secret_access_key": "b"}
IN_S3 = replace(HELD, location="s3://bucket/orders")
ELSEWHERE = {"endpoint": "https://store.example"}


def by(*fields):
    return replace(HELD, partition=tuple(map(partition_field, fields)))


def with_property(name, value="1"):
    return replace(HELD, properties={name: value})


def of_type(kind):
    return replace(HELD, types={**HELD.types, "point.x": kind})


def rows(ddl):
    return schema.parse(ddl)


ALLOWED = {
    "plain": needs(),
    "where nothing is known of the table": needs(held=None, rows=None),
    "overwrite": needs(commit_mode="overwrite"),
    "changes kept": needs(change_columns=True),
    "partitions": needs(by("day(at)", "bucket(4, id)", "truncate(2, name)", "name", "hour(at)", "year(at)")),
    "a partition inside a struct": needs(by("point.x")),
    "fewer columns": needs(rows=rows("id BIGINT NOT NULL, name STRING")),
    "a row group size": needs(with_property("write.parquet.row-group-size-bytes")),
    "what is known of columns": needs(with_property("write.metadata.metrics.default")),
    "S3 with keys": needs(IN_S3, s3={**KEYS, "region": "eu-central-1"}),
    "another store that speaks its protocol": needs(IN_S3, s3={**KEYS, "endpoint": "http://localhost:9"}),
    "S3, before there is a table": needs(None, s3={**KEYS, "region": "eu-central-1"}),
    "a bare path": needs(replace(HELD, location="/lake/shop/orders")),
    "object storage off": needs(with_property("write.object-storage.enabled", "false")),
}
LEFT_TO_JAVA = {
    "'commit_mode: upsert'": needs(commit_mode="upsert", key_fields=["id"], sort_by=["id"]),
    "several tables": needs(table="orders_{name}"),
    "transforms": needs(transforms=True),
    "made in Spark": needs(decodes=False),
    "'orc'": needs(format="orc"),
    "'avro'": needs(format="avro"),
    "sorted": needs(sort_by=["id"]),
    "files are sorted": needs(replace(HELD, is_sorted=True)),
    "renamed": needs(schema_evolution="full", renames={"a": "b"}),
    "keys of the store": needs(IN_S3, s3={"region": "eu-central-1"}),
    "keys of the store are": needs(IN_S3),
    "region of the store": needs(IN_S3, s3=KEYS),
    "tells it": needs(IN_S3, s3={**KEYS, "region": "eu-central-1", "sse": "kms"}),
    "for Java to decide": needs(IN_S3, s3={**KEYS, **ELSEWHERE}),
    "a store, 'gcs'": needs(None, gcs={}),
    "at 'gs:'": needs(replace(HELD, location="gs://bucket/orders")),
    "'point.x' is uuid": needs(of_type("uuid")),
    "'point.x' is timestamp_ns": needs(of_type("timestamp_ns")),
    "'point.x' is variant": needs(of_type("variant")),
    "'point.x' is geometry(srid:4326)": needs(of_type("geometry(srid:4326)")),
    "partition 'at'": needs(by("at")),
    "partition 'raw'": needs(by("raw")),
    "partition 'truncate(2, raw)'": needs(by("truncate(2, raw)")),
    "partition 'x'": needs(by("x")),
    "'write.parquet.bloom-filter-enabled.column.id'": needs(
        with_property("write.parquet.bloom-filter-enabled.column.id")
    ),
    "'write.location-provider.impl'": needs(with_property("write.location-provider.impl")),
    "'write.object-storage.enabled'": needs(with_property("write.object-storage.enabled", "true")),
    "'encryption.key-id'": needs(with_property("encryption.key-id")),
    "to be cast": needs(rows=rows("id INT NOT NULL")),
    "put elsewhere": needs(rows=rows("id BIGINT, other STRING")),
    "'name' has a default": needs(replace(HELD, defaults=frozenset({"name", "id"})), rows=rows("id BIGINT")),
    "inside column 'tags'": needs(
        replace(HELD, columns=Schema((Column("tags", Array(Primitive("string"), False)),))),
        rows=rows("tags ARRAY<STRING>"),
    ),
    "'point.x' is NOT NULL": needs(
        replace(HELD, columns=rows("point STRUCT<x: INT NOT NULL>")),
        rows=rows("point STRUCT<x: INT NOT NULL>"),
    ),
}


@pytest.mark.parametrize("given", ALLOWED.values(), ids=ALLOWED.keys())
def test_arrow_writes_where_nothing_stands_against_it(given):
    assert why_java(given) is None
    assert described(given) == ARROW


@pytest.mark.parametrize(("reason", "given"), LEFT_TO_JAVA.items(), ids=LEFT_TO_JAVA.keys())
def test_icebergs_own_writer_is_left_what_arrow_cannot_do(reason, given):
    assert reason in why_java(given)
    assert described(given).startswith(f"{JAVA}: ")


@pytest.mark.parametrize("keys", [{"sort_by": ["id"]}, {"order_by": "id"}, {"format": "orc"}], ids=str)
def test_changes_that_are_not_too_many_are_written_where_the_loop_runs(keys):
    upsert = {"commit_mode": "upsert", "key_fields": ["id"]}
    assert described(needs(**upsert)) == HERE
    assert described(needs(**upsert, **keys)).startswith(f"{JAVA}: ")


def test_a_column_with_a_default_that_the_rows_have_is_no_reason():
    assert why_java(needs(replace(HELD, defaults=frozenset({"name"})))) is None


def test_columns_have_icebergs_types_by_their_path():
    ddl = "a SMALLINT, b STRUCT<c: TIMESTAMP_NTZ>, d ARRAY<DATE>, e MAP<STRING, FLOAT>"
    assert types_of(schema.parse(ddl)) == {
        "a": "int",
        "b.c": "timestamp",
        "d.element": "date",
        "e.key": "string",
        "e.value": "float",
    }


UPSERT = {"commit_mode": "upsert", "key_fields": ["id"]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, True),
        ({"transforms": True}, False),
        ({"decodes": False}, False),
        ({"format": "orc"}, False),
        (UPSERT, True),
        ({**UPSERT, "decodes": False}, False),
        ({**UPSERT, "transforms": True}, False),
        ({**UPSERT, "order_by": "at"}, False),
    ],
)
def test_rows_pass_spark_by_where_python_does_all_with_them(given, expected):
    assert passes_spark_by(needs(held=None, rows=None, **given)) is expected
