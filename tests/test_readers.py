"""Other engines read what we write: for every codec, file format, partition strategy and format version."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import polars
import pytest
from pyiceberg.table import StaticTable

from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import CODECS, IcebergSink
from calve.sources.datagen import DatagenSource
from tests import duck

pytestmark = pytest.mark.spark

ROWS = 300
FIELDS: dict[str, Any] = {
    "id": "sequence",
    "quantity": {"type": "int", "min": -5, "max": 5, "nulls": 0.2},
    "weight": {"type": "double", "min": 0, "max": 100, "nulls": 0.1},
    "amount": {"type": "decimal", "precision": 12, "scale": 2, "min": -1000, "max": 1000},
    "paid": {"type": "boolean"},
    "region": {"type": "choice", "values": ["eu", "us", "asia"]},
    "note": {"type": "string", "template": "größe-{}", "nulls": 0.3},
    "ordered": {"type": "timestamp", "start": "2025-12-30T22:00:00", "step": "7m"},
    "day": {"type": "date", "start": "2025-12-20", "end": "2026-01-20"},
}
STRATEGIES: dict[str, dict[str, Any]] = {
    "none": {},
    "identity": {"partitioning": "identity", "partition_fields": ["region"]},
    "bucket": {"partitioning": "bucket", "partition_fields": ["id"], "num_buckets": 4},
    **{
        f"time-{unit}": {"partitioning": "time", "partition_fields": ["ordered"], "time_granularity": unit}
        for unit in ("year", "month", "day", "hour")
    },
    "partition_by": {"partition_by": ["day(ordered)", "bucket(3, id)", "truncate(2, note)", "region"]},
    "sorted": {"sort_by": ["region desc", "id"]},
}
UNREADABLE = {
    ("duckdb", "avro"): "DuckDB's Iceberg extension reads Parquet data files only",
    ("duckdb", "orc"): "DuckDB's Iceberg extension reads Parquet data files only",
    ("polars", "avro"): "Polars reads Parquet data files only",
    ("pyiceberg", "avro"): "PyIceberg reads data files through Arrow, which has no Avro reader",
}
UNREADABLE_FROM_FORMAT_3 = {
    (name, "orc"): "Arrow reads ORC's timestamps in ns, which PyIceberg takes for us in format 2 only"
    for name in ("pyiceberg", "polars")
}


def with_duckdb(metadata: str) -> list[dict[str, Any]]:
    return duck.connect().execute(f"SELECT * FROM iceberg_scan('{metadata}')").to_arrow_table().to_pylist()


def with_pyiceberg(metadata: str) -> list[dict[str, Any]]:
    return StaticTable.from_metadata(metadata).scan().to_arrow().to_pylist()


def with_polars(metadata: str) -> list[dict[str, Any]]:
    return polars.scan_iceberg(metadata).collect().to_dicts()


@pytest.fixture(autouse=True)
def plan_with_pyiceberg(monkeypatch):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


READERS = {"duckdb": with_duckdb, "pyiceberg": with_pyiceberg, "polars": with_polars}


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the order of their ids, with values that compare across engines."""
    found = ({name: _plain(value) for name, value in row.items()} for row in rows)
    return sorted(found, key=lambda row: row["id"])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return round(aware.timestamp() * 1_000_000)
    return str(value) if isinstance(value, Decimal) else value


def write(lake, **keys: Any) -> tuple[str, list[dict[str, Any]]]:
    """Run a pipeline of two commits; the metadata file, and the rows as Spark reads them."""
    source = DatagenSource.model_validate({"rows": ROWS, "fields": FIELDS})
    place = {"catalog": lake.declaration, "namespace": "shop", "table": "t"}
    sink = IcebergSink.model_validate({**place, "max_batch_size": ROWS // 2, "batch_size": 1, **keys})
    Runner(ResolvedPipeline("t", source, sink, (), "t", True), lake.spark, Stop(), Report("t")).run()
    rows = [row.asDict() for row in lake.spark.table(lake.name("t").sql()).collect()]
    return lake.catalog.load(lake.name("t")).metadata().file, plain(rows)


def check(lake, file_format: str, **keys: Any) -> None:
    metadata, expected = write(lake, format=file_format, **keys)
    assert len(expected) == ROWS
    for name, read in READERS.items():
        reason = UNREADABLE.get((name, file_format))
        if keys.get("format_version") == 3:
            reason = reason or UNREADABLE_FROM_FORMAT_3.get((name, file_format))
        if reason is None:
            found = plain(read(metadata))
            assert sum(row["id"] for row in found) == ROWS * (ROWS + 1) // 2, name
            assert found == expected, name
        else:
            assert not is_read(read, metadata, expected), f"{name} reads {file_format} now, although {reason}"


def is_read(read: Any, metadata: str, expected: list[dict[str, Any]]) -> bool:
    try:
        return plain(read(metadata)) == expected
    except Exception:
        return False


PAIRS = [(file_format, codec) for file_format, codecs in CODECS.items() for codec in codecs]


@pytest.mark.parametrize(("file_format", "codec"), PAIRS)
def test_every_codec_of_every_file_format_is_read_back(lake, file_format, codec):
    check(lake, file_format, compression=codec)


@pytest.mark.full
@pytest.mark.parametrize(("file_format", "codec"), PAIRS)
def test_every_codec_of_every_file_format_is_read_back_from_format_3(lake, file_format, codec):
    check(lake, file_format, compression=codec, format_version=3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_partition_strategy_is_read_back(lake, strategy):
    check(lake, "parquet", **STRATEGIES[strategy])


@pytest.mark.parametrize("strategy", ["none", "partition_by"])
def test_partition_strategies_are_read_back_from_format_3(lake, strategy):
    check(lake, "parquet", format_version=3, **STRATEGIES[strategy])


@pytest.mark.full
@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"none", "partition_by"}))
def test_every_partition_strategy_is_read_back_from_format_3(lake, strategy):
    check(lake, "parquet", format_version=3, **STRATEGIES[strategy])
