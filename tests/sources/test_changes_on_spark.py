"""Changes on Spark: rows of files in their order, operations, and transforms that keep both."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from calve import changes
from calve.errors import BadRecord, ConfigurationError
from calve.gateway import translated
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources import files as files_source
from calve.sources.datagen import DatagenSource
from calve.sources.files import FilesSource
from calve.sources.source import Limits, Source
from calve.transforms.carry import Carried, View, transformed
from calve.transforms.sql import SqlTransform
from tests.sources.test_presets import CANAL, MAXWELL, block, kafka_changes

COLUMNS = "id BIGINT NOT NULL, op STRING"
KEPT = "_calve_op, _calve_order, _calve_ts, _calve_unknown"


def files(path: Path, **keys: Any) -> FilesSource:
    source = FilesSource.model_validate({"path": str(path), "schema": COLUMNS, **keys})
    assert source.flaws() == []
    return source


def frame(spark: SparkSession, source: Source) -> DataFrame:
    start = source.start()
    return source.read_changes(spark, start, source.latest(start, Limits(1_000_000)).to)


def ordered(found: DataFrame) -> list[Any]:
    """The rows in the order of their changes, which has no ties."""
    with translated("read"):
        rows = found.collect()
    places = [tuple(row._calve_order)[1:4] for row in rows]
    assert len(set(places)) == len(rows)
    assert {row._calve_order.seq for row in rows} <= {None}
    return [row for _, row in sorted(zip(places, rows, strict=True))]


def written(folder: Path, *parts: Callable[[Path], None]) -> None:
    """Files of ascending age, whose names would sort the other way round."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(parts):
        path = folder / f"{9 - number} +é%20[x].data"
        part(path)
        os.utime(path, ns=(number + 1, 1_700_000_000_000_000_000 + number))


def parquet(
    ids: list[Any], ops: list[Any], rows_of_a_group: int = 1000, is_old: bool = False
) -> Callable[[Path], None]:
    table = pa.table({"id": ids, "op": ops}, pa.schema([("id", pa.int64()), ("op", pa.string())]))
    if is_old:
        table = table.append_column("at", pa.array([0] * len(ids), pa.timestamp("us")))
    options = {"row_group_size": rows_of_a_group, "use_deprecated_int96_timestamps": is_old}
    return lambda path: pq.write_table(table, path, **options)


@pytest.fixture
def small_parts(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files are read in parts of a few KiB, by workers and by Spark."""
    monkeypatch.setattr(files_source, "SPLIT", 4096)
    monkeypatch.setattr(files_source, "_SMALL", 4096)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4096")
    yield
    spark.conf.unset("spark.sql.files.maxPartitionBytes")


@pytest.mark.parametrize("is_old", [False, True])
def test_rows_of_parquet_files_are_ordered_by_file_and_row(
    spark: SparkSession, tmp_path: Path, small_parts: None, is_old: bool
) -> None:
    size = 5000
    written(
        tmp_path / "in",
        parquet(list(range(size)), ["c"] * size, 500, is_old),
        parquet(list(range(size, size + 3)), ["d", "u", "t"], is_old=is_old),
    )
    source = files(tmp_path / "in", format="parquet", operation={"field": "op"})
    found = frame(spark, source)
    assert found.rdd.getNumPartitions() > 1
    rows = ordered(found)
    assert [row.id for row in rows] == list(range(size + 3))
    assert [row._calve_op for row in rows[-4:]] == ["i", "d", "u", "t"]
    assert found.columns == ["id", *changes.NAMES]


def avro(ids: Iterable[int]) -> Callable[[Path], None]:
    fields = [{"name": "id", "type": "long"}, {"name": "op", "type": "string"}]

    def write(path: Path) -> None:
        with path.open("wb") as file:
            rows = [{"id": number, "op": "u"} for number in ids]
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, rows)

    return write


def test_rows_of_avro_files_are_ordered_by_file_and_row(
    spark: SparkSession, tmp_path: Path, small_parts: None
) -> None:
    written(tmp_path / "in", avro(range(5000)), avro(range(5000, 10_000)))
    found = frame(spark, files(tmp_path / "in", format="avro"))
    assert found.rdd.getNumPartitions() > 1
    rows = ordered(found)
    assert [row.id for row in rows] == list(range(10_000))
    assert {row._calve_op for row in rows} == {"u"}


@pytest.mark.parametrize(
    ("ids", "ops", "why"),
    [
        ([1, 2], ["c", "x"], "column 'op': 'x' is none of the operations"),
        ([1, 2], ["c", None], "column 'op': NULL is none of the operations"),
        ([1, None], ["d", "u"], "column 'id': NULL, and the column is NOT NULL"),
    ],
)
def test_a_parquet_file_with_a_bad_operation_is_named(
    spark: SparkSession, tmp_path: Path, ids: list[Any], ops: list[Any], why: str
) -> None:
    parquet(ids, ops)(tmp_path / "a.parquet")
    with pytest.raises(BadRecord) as caught:
        ordered(frame(spark, files(tmp_path, format="parquet", operation={"field": "op"})))
    assert caught.value.place == f"file '{tmp_path}/a.parquet'"
    assert caught.value.reason == why


def test_a_delete_in_parquet_may_leave_out_what_is_not_null(spark: SparkSession, tmp_path: Path) -> None:
    parquet([None, 1], ["d", "c"])(tmp_path / "a.parquet")
    rows = ordered(frame(spark, files(tmp_path, format="parquet", operation={"field": "op"})))
    assert [(row.id, row._calve_op) for row in rows] == [(None, "d"), (1, "i")]


def test_lines_of_files_are_changes_and_again_the_same(spark: SparkSession, tmp_path: Path) -> None:
    lines = ('{"id": 1, "op": "c"}\n{"id": 1, "op": "d"}\n', '{"op": "d"}\n')
    written(tmp_path / "in", *(lambda path, text=text: path.write_text(text) and None for text in lines))
    source = files(tmp_path / "in", operation={"field": "op"})
    found = frame(spark, source)
    rows = ordered(found)
    assert [(row.id, row._calve_op) for row in rows] == [(1, "i"), (1, "d"), (None, "d")]
    assert [tuple(row._calve_order)[1:4] for row in rows] == [(0, 0, 0), (0, 1, 0), (1, 0, 0)]
    assert ordered(frame(spark, source)) == rows
    start = source.start()
    assert source.read(spark, start, source.latest(start, Limits(10)).to).columns == ["id"]
    assert source.read_changes(spark, start, start).collect() == []


def test_generated_rows_are_upserts_in_their_sequence(spark: SparkSession) -> None:
    rows = ordered(frame(spark, DatagenSource(rows=100, seed=1)))
    assert [(row.id, row._calve_order.at, row._calve_op) for row in rows] == [
        (n + 1, n, "u") for n in range(100)
    ]


def test_without_a_schema_parquet_rows_are_upserts(spark: SparkSession, tmp_path: Path) -> None:
    parquet([3, 1], ["x", "y"])(tmp_path / "a.parquet")
    source = FilesSource.model_validate({"path": str(tmp_path), "format": "parquet"})
    assert [(row.id, row.op, row._calve_op) for row in ordered(frame(spark, source))] == [
        (3, "x", "u"),
        (1, "y", "u"),
    ]


def runner(spark: SparkSession, source: Source, *queries: str) -> Runner:
    sink = IcebergSink.model_validate({"namespace": "shop", "table": "orders"})
    transforms = tuple(SqlTransform(sql=query) for query in queries)
    pipeline = ResolvedPipeline("orders", source, sink, transforms, "orders", True)
    return Runner(pipeline, spark, Stop(), Report("orders"))


def test_transforms_keep_the_changes_and_the_sink_gets_value_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"id": 7, "op": "d"}\n')
    source = files(tmp_path, operation={"field": "op"})
    start = source.start()
    to = source.latest(start, Limits(10)).to
    whole = runner(spark, source, f"SELECT id * 2 AS twice, id, {KEPT} FROM input", "SELECT * FROM input")
    assert whole.columns(start).ddl() == "twice BIGINT NOT NULL, id BIGINT NOT NULL"
    [row] = whole._reading(start, to).rows.frame.collect()
    assert (row.twice, row.id, row._calve_op, row._calve_order.lane) == (14, 7, "d", 0)
    assert runner(spark, source).columns(start).ddl() == "id BIGINT NOT NULL"
    undeclared = FilesSource.model_validate({"path": str(tmp_path), "schema": COLUMNS})
    assert runner(spark, undeclared)._reading(start, to).rows.frame.columns == ["id", "op"]


def test_transforms_that_drop_columns_of_changes_are_refused_at_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = files(tmp_path, operation={"field": "op"})
    with pytest.raises(ConfigurationError) as caught:
        runner(spark, source, "SELECT id, _calve_op, _calve_ts FROM input").columns(source.start())
    assert str(caught.value) == (
        "Cannot run the transforms: they drop _calve_order, _calve_unknown, which every row needs; "
        "select them too, as in SELECT …, _calve_op, _calve_order, _calve_ts, _calve_unknown FROM input"
    )
    assert caught.value.exit_code == 78


@pytest.mark.parametrize(
    ("heading", "records", "expected"),
    [
        ("Maxwell", MAXWELL, [(1, "a", "i", 0, 0), (1, "b", "u", 1, 0), (1, "b", "d", 2, 0)]),
        (
            "Canal",
            CANAL,
            [
                (1, "a", "i", 0, 0),
                (2, None, "i", 0, 1),
                (1, "b", "u", 1, 0),
                (1, "b", "d", 2, 0),
                (None, None, "t", 3, 0),
            ],
        ),
    ],
)
def test_transforms_take_rows_out_of_where_they_are(
    spark: SparkSession, heading: str, records: list[str], expected: list[Any]
) -> None:
    frame = spark.createDataFrame(pa.Table.from_batches([kafka_changes(heading, records)]))
    transforms = [SqlTransform.model_validate(one) for one in block(heading, "pipeline")["transforms"]]
    frame = transformed(transforms, frame, Carried(changes.NAMES, View(("id",)))).frame
    assert frame.columns == ["id", "name", "_calve_op", "_calve_order", "_calve_ts", "_calve_unknown"]
    rows = sorted(frame.collect(), key=lambda row: (row._calve_order.at, row._calve_order.part))
    assert [
        (row.id, row.name, row._calve_op, row._calve_order.at, row._calve_order.part) for row in rows
    ] == expected
