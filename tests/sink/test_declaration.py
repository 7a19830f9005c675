"""The Iceberg sink as declared."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from calve.model import documentation
from calve.partitioning import PartitionField, SortField
from calve.sink.declaration import CODECS, DeadLetter, IcebergSink

DEFAULTS = {
    "allowed_tables": [],
    "max_tables": 1000,
    "branch": "main",
    "sink_id": None,
    "batch_size": 10_000,
    "flush_interval_secs": 60,
    "minimum_size": None,
    "max_batch_size": 1_000_000,
    "format": "parquet",
    "format_version": 2,
    "compression": "snappy",
    "target_file_size_mb": 128,
    "partitioning": "none",
    "partition_fields": [],
    "num_buckets": 16,
    "time_granularity": "day",
    "partition_by": [],
    "sort_by": [],
    "commit_mode": "append",
    "key_fields": [],
    "deletes": "position",
    "order_by": None,
    "tombstone_retention": 604_800.0,
    "truncate": "refuse",
    "change_columns": False,
    "overwrite": "partitions",
    "overwrite_conflicts": "refuse",
    "schema_evolution": "add_columns",
    "renames": {},
    "type_change": "new_column",
    "partition_evolution": False,
    "dead_letter": DeadLetter(),
    "table_properties": {},
    "snapshot_properties": {},
    "retry_for": 600.0,
    "maintenance": None,
    "s3": None,
    "gcs": None,
    "azure": None,
}


def sink(**keys: Any) -> IcebergSink:
    return IcebergSink.model_validate({"namespace": "shop", "table": "orders", **keys})


def flaws(**keys: Any) -> list[tuple[tuple[str | int, ...], str]]:
    return [(flaw.path, flaw.message) for flaw in sink(**keys).flaws()]


def test_every_key_has_the_default_of_the_reference() -> None:
    found = sink()
    assert {key: getattr(found, key) for key in DEFAULTS} == DEFAULTS
    assert set(IcebergSink.model_fields) == {*DEFAULTS, "catalog", "namespace", "table"}
    assert found.catalog.type is None


def test_every_key_is_documented() -> None:
    assert set(documentation(IcebergSink)) == {*IcebergSink.model_fields, "connector"} - {"connector"}


def test_namespace_and_table_are_required() -> None:
    with pytest.raises(ValidationError) as caught:
        IcebergSink.model_validate({})
    assert {error["loc"] for error in caught.value.errors()} == {("namespace",), ("table",)}


def test_a_sink_without_flaws_has_none() -> None:
    assert flaws() == []


@pytest.mark.parametrize(
    ("keys", "fields"),
    [
        ({}, ()),
        ({"partitioning": "none"}, ()),
        ({"partitioning": "table_default"}, None),
        (
            {"partitioning": "identity", "partition_fields": ["a", "b"]},
            (PartitionField("identity", "a"), PartitionField("identity", "b")),
        ),
        ({"partitioning": "bucket", "partition_fields": ["a"]}, (PartitionField("bucket", "a", 16),)),
        (
            {"partitioning": "bucket", "partition_fields": ["a"], "num_buckets": 64},
            (PartitionField("bucket", "a", 64),),
        ),
        ({"partitioning": "time", "partition_fields": ["a"]}, (PartitionField("day", "a"),)),
        (
            {"partitioning": "time", "partition_fields": ["a"], "time_granularity": "hour"},
            (PartitionField("hour", "a"),),
        ),
        (
            {"partition_by": ["day(a)", "bucket(8, b)", "truncate(4, c)", "d"]},
            (
                PartitionField("day", "a"),
                PartitionField("bucket", "b", 8),
                PartitionField("truncate", "c", 4),
                PartitionField("identity", "d"),
            ),
        ),
    ],
)
def test_partition_fields_come_from_either_way_to_declare(keys: dict[str, Any], fields: Any) -> None:
    assert sink(**keys).partition_fields_declared() == fields
    assert flaws(**keys) == []


def test_the_sort_order_comes_from_all_entries() -> None:
    assert sink(sort_by=["a desc, b", "c"]).sort_fields() == (
        SortField("a", descending=True, nulls_first=False),
        SortField("b"),
        SortField("c"),
    )


def test_the_sink_id_is_the_pipeline_unless_given() -> None:
    assert sink().sink_id_of("orders") == "orders"
    assert sink(sink_id="me").sink_id_of("orders") == "me"


@pytest.mark.parametrize("format_", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "lz4", "zstd", "brotli"])
def test_a_codec_is_offered_or_refused_with_those_there_are(format_: str, compression: str) -> None:
    found = flaws(format=format_, compression=compression)
    if compression in CODECS[format_]:
        assert found == []
    else:
        possible = ", ".join(CODECS[format_])
        message = f"Iceberg's {format_} writer has no {compression} codec; expected one of {possible}"
        assert found == [(("compression",), message)]


def test_no_format_has_brotli_and_avro_has_no_lz4() -> None:
    offered = {format_: set(codecs) for format_, codecs in CODECS.items()}
    every = {"none", "snappy", "gzip", "zstd"}
    assert offered == {"parquet": every | {"lz4"}, "avro": every, "orc": every | {"lz4"}}


@pytest.mark.parametrize(
    ("keys", "path", "part"),
    [
        ({"partitioning": "identity"}, ("partitioning",), "needs at least one of 'partition_fields'"),
        ({"partitioning": "bucket", "partition_fields": []}, ("partition_fields",), "needs at least one"),
        (
            {"partitioning": "table_default", "partition_fields": ["a"]},
            ("partition_fields",),
            "has no effect with",
        ),
        ({"num_buckets": 16}, ("num_buckets",), "has no effect without 'partitioning: bucket'"),
        ({"time_granularity": "day"}, ("time_granularity",), "has no effect without 'partitioning: time'"),
        ({"partition_by": ["a"], "partitioning": "none"}, ("partitioning",), "stands beside 'partition_by'"),
        ({"partition_by": ["a", "a"]}, ("partition_by", 1), "uses column 'a' again"),
        ({"partition_by": ["bucket(4, a)", "bucket(8, a)"]}, ("partition_by", 1), "uses column 'a' again"),
        ({"partitioning": "identity", "partition_fields": ["a", "a"]}, ("partition_fields", 1), "again"),
        ({"sort_by": ["a, a desc"]}, ("sort_by", 0), "uses column 'a' again"),
        ({"key_fields": ["id"]}, ("key_fields",), "has no effect without 'commit_mode: upsert'"),
        ({"commit_mode": "upsert"}, ("commit_mode",), "needs 'key_fields'"),
        ({"deletes": "position"}, ("deletes",), "has no effect without 'commit_mode: upsert'"),
        ({"overwrite": "table"}, ("overwrite",), "has no effect without 'commit_mode: overwrite'"),
        ({"renames": {"a": "b"}}, ("renames",), "has no effect without 'schema_evolution: full'"),
        ({"type_change": "refuse"}, ("type_change",), "has no effect without 'schema_evolution: full'"),
        (
            {"schema_evolution": "full", "renames": {"a": "b", "b": "c"}},
            ("renames", "a"),
            "is renamed itself",
        ),
        (
            {"commit_mode": "overwrite", "partition_evolution": True},
            ("partition_evolution",),
            "cannot stand beside 'overwrite: partitions'",
        ),
        ({"max_batch_size": 10}, ("max_batch_size",), "is below 'batch_size' (10000)"),
        ({"catalog": {"type": "rest"}}, ("catalog", "rest"), "required key is missing"),
        (
            {"table_properties": {"format-version": 3}},
            ("table_properties", "format-version"),
            "'format_version'",
        ),
        (
            {"table_properties": {"commit.retry.num-retries": 3}},
            ("table_properties", "commit.retry.num-retries"),
            "use 'retry_for'",
        ),
        (
            {"snapshot_properties": {"operation": "x"}},
            ("snapshot_properties", "operation"),
            "Iceberg sets it",
        ),
    ],
)
def test_what_contradicts_or_has_no_effect_is_a_flaw(keys: dict[str, Any], path: Any, part: str) -> None:
    (found,) = flaws(**keys)
    assert found[0] == path
    assert part in found[1]


def test_two_transforms_of_one_column_may_differ_in_kind() -> None:
    assert flaws(partition_by=["day(a)", "bucket(4, a)", "a"]) == []


def test_other_table_properties_are_passed_on_as_text() -> None:
    given = {"write.metadata.delete-after-commit.enabled": False, "history.expire.min-snapshots-to-keep": 5}
    found = sink(table_properties=given)
    assert found.flaws() == []
    assert found.table_properties == {
        "write.metadata.delete-after-commit.enabled": "false",
        "history.expire.min-snapshots-to-keep": "5",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("namespace", "a..b"),
        ("namespace", ""),
        ("table", "a.b"),
        ("table", "../x"),
        ("sink_id", "a.b"),
        ("branch", ""),
        ("branch", "-x"),
        ("format_version", 4),
        ("partition_by", ["day()"]),
        ("sort_by", ["a down"]),
        ("key_fields", [""]),
        ("dead_letter", {"max_ratio": 2}),
        ("dead_letter", {"max_count": -1}),
        ("dead_letter", "on"),
        ("overwrite", "rows"),
    ],
)
def test_values_that_cannot_be_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        sink(**{key: value})


@pytest.mark.parametrize("value", ["off", {"table": "bad", "max_ratio": 0.5}, {}])
def test_dead_letters_have_a_table_or_are_off(value: Any) -> None:
    assert sink(dead_letter=value).dead_letter is not None


@pytest.mark.parametrize("value", ["partitions", "table", ["day = '2026-01-01'"]])
def test_overwrite_names_what_is_replaced(value: Any) -> None:
    assert sink(commit_mode="overwrite", overwrite=value).flaws() == []
