"""The files source on Spark: every format, and the file that is wrong."""

import datetime
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from calve.errors import BadRecord
from calve.gateway import translated
from calve.sources.files import FilesSource
from calve.sources.source import Limits

COLUMNS = "id BIGINT NOT NULL, s STRING"


def read(spark: SparkSession, path: Path, **keys: Any) -> list[tuple[Any, ...]]:
    source = FilesSource.model_validate({"path": str(path), **keys})
    assert source.flaws() == []
    start = source.start()
    to = source.latest(start, Limits(1_000_000)).to
    with translated("read files"):
        frame = source.read(spark, start, to)
        rows = sorted(tuple(row) for row in frame.collect())
        assert source.read(spark, to, to).collect() == []
    declared = source.columns()
    if declared is not None:
        assert tuple(frame.columns) == declared.names
    return rows


def refusal(spark: SparkSession, path: Path, **keys: Any) -> BadRecord:
    with pytest.raises(BadRecord) as caught:
        read(spark, path, **keys)
    assert "\n" not in str(caught.value)
    return caught.value


def parquet(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path)


def test_json_is_read_plain_and_compressed_with_not_null_kept(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.json").write_text(f'{{"id": {number}}}\n')
    (tmp_path / "more.json.gz").write_bytes(gzip.compress(b'{"id": 20, "s": "x"}'))
    rows = read(spark, tmp_path, format="json", schema=COLUMNS)
    assert rows == [(number, None) for number in range(20)] + [(20, "x")]
    source = FilesSource.model_validate({"path": str(tmp_path), "schema": COLUMNS})
    frame = source.read(spark, source.start(), source.latest(source.start(), Limits(10)).to)
    assert [field.nullable for field in frame.schema] == [False, True]


def test_the_file_and_line_of_a_bad_record_come_out_of_the_worker(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a 'b'.json").write_text('{"id": 1}\n{"id": "\\"é"}\n')
    error = refusal(spark, tmp_path, schema=COLUMNS)
    assert error.place == f"file '{tmp_path}/a 'b'.json' line 2"
    assert error.reason == "column 'id': '\"é' is not a BIGINT: not a number"


def test_a_cut_off_gzip_file_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"id": 1}\n' * 1000)[:-9])
    assert "damaged or cut off" in refusal(spark, tmp_path, schema=COLUMNS).reason


def test_csv_and_text_are_read_with_their_options(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("s;id\nx;1\nNA;2\n")
    options = {"header": True, "delimiter": ";", "null_value": "NA"}
    assert read(spark, tmp_path, format="csv", schema=COLUMNS, options=options) == [(1, "x"), (2, None)]
    assert read(spark, tmp_path, format="text") == [("NA;2",), ("s;id",), ("x;1",)]


def test_parquet_columns_are_found_by_name(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", s=["a", None], id=[1, 2])
    parquet(tmp_path / "b.parquet", id=[3], other=[1.5])
    assert read(spark, tmp_path, format="parquet", schema=COLUMNS) == [(1, "a"), (2, None), (3, None)]


def test_names_of_files_are_no_patterns(spark: SparkSession, tmp_path: Path) -> None:
    for number, name in enumerate(("a", "[a]", "*", "{a,b}", "a b", "é%20", "back\\slash")):
        parquet(tmp_path / f"{name}.parquet", id=[number])
    assert read(spark, tmp_path, format="parquet", schema="id BIGINT") == [(number,) for number in range(7)]


def test_without_a_schema_the_columns_of_all_files_count(spark: SparkSession, tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", n=pa.array([1], pa.int32()))
    parquet(tmp_path / "b.parquet", n=[2**40], m=["x"])
    assert read(spark, tmp_path, format="parquet") == [(1, None), (2**40, "x")]


def test_times_of_the_old_form_are_read_by_spark_and_texts_are_looked_at(
    spark: SparkSession, tmp_path: Path
) -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    rows = pa.table({"at": pa.array([at], pa.timestamp("us", "UTC")), "b": pa.array([b"x"])})
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert read(spark, tmp_path, format="parquet", schema="at TIMESTAMP, b BINARY") == [
        (at.replace(tzinfo=None), b"x")
    ]
    rows = rows.set_column(1, "b", pa.array([b"\xff"]).view(pa.string()))
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    error = refusal(spark, tmp_path, format="parquet", schema="at TIMESTAMP, b STRING")
    assert (error.place, error.reason) == (
        f"file '{tmp_path}/a.parquet'", "column 'b': a text is not valid UTF-8"
    )  # fmt: skip


def _text(path: Path) -> None:
    parquet(path, id=["x"], s=["y"])


def _null(path: Path) -> None:
    parquet(path, id=[1, None], s=["y", "z"])


def _unsigned(path: Path) -> None:
    parquet(path, id=pa.array([2**64 - 1], pa.uint64()))


def _not_utf8(path: Path) -> None:
    parquet(path, id=[1], s=[b"\xff\xfe"])


def _missing(path: Path) -> None:
    parquet(path, s=["y"])


def _cut_off(path: Path) -> None:
    parquet(path, id=list(range(1000)))
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_text, "column 'id' is string in the file, which is not a BIGINT"),
        (_null, "NULL"),
        (_missing, "NULL"),
        (_unsigned, "column 'id': a value is not a BIGINT"),
        (_not_utf8, "column 's': a text is not valid UTF-8"),
        (_cut_off, "damaged or cut off"),
    ],
)
def test_a_parquet_file_that_does_not_fit_is_refused_by_its_name(
    spark: SparkSession, tmp_path: Path, make: Callable[[Path], None], why: str
) -> None:
    make(tmp_path / "bad.parquet")
    error = refusal(spark, tmp_path, format="parquet", schema=COLUMNS)
    assert error.place == f"file '{tmp_path}/bad.parquet'"
    assert why in error.reason


def test_avro_is_read_and_what_does_not_fit_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "long"}, {"name": "s", "type": "string"}]
    rows = [{"id": number, "s": str(number)} for number in range(3)]
    file = tmp_path / "a.avro"
    with file.open("wb") as opened:
        fastavro.writer(opened, {"type": "record", "name": "R", "fields": fields}, rows)
    assert read(spark, tmp_path, format="avro", schema=COLUMNS) == [(0, "0"), (1, "1"), (2, "2")]
    assert read(spark, tmp_path, format="avro") == [(0, "0"), (1, "1"), (2, "2")]
    assert "the file says long" in refusal(spark, tmp_path, format="avro", schema="id STRING").reason
    file.write_bytes(file.read_bytes()[:-20])
    assert refusal(spark, tmp_path, format="avro", schema=COLUMNS).place == f"file '{file}'"
