"""Files written with Arrow beside those of Spark's writer: the same rows, partitions and bounds."""

from __future__ import annotations

import pyarrow as pa
import pytest

from calve.iceberg import arrow
from calve.iceberg.parquet import Format
from calve.iceberg.stage import stage
from tests.test_readers import with_duckdb, with_polars, with_pyiceberg

pytestmark = pytest.mark.spark

COLUMNS = """
    id BIGINT NOT NULL, flag BOOLEAN, small INT, f FLOAT, d DOUBLE, text STRING, raw BINARY, day DATE,
    at TIMESTAMP, local TIMESTAMP_NTZ, d9 DECIMAL(9,2), d18 DECIMAL(18,4), d38 DECIMAL(38,10),
    point STRUCT<x: INT, inner: STRUCT<y: STRING>>, tags ARRAY<STRING>, points ARRAY<STRUCT<x: INT>>,
    names MAP<STRING, INT>, deep MAP<STRING, ARRAY<STRUCT<a: DECIMAL(9,2)>>>
"""
ROWS = """
SELECT 1L, true, -1, float('NaN'), double('-Infinity'), 'größe 🧊', X'00ff', DATE'1066-10-14',
  TIMESTAMP'1969-12-31 23:59:59.999999', TIMESTAMP_NTZ'2026-02-28 12:00:00.000001', 1234567.89bd,
  -99999999999999.9999bd, cast('12345678901234567890.0123456789' AS DECIMAL(38,10)),
  named_struct('x', 1, 'inner', named_struct('y', 'z')),
  array('a', NULL, ''), array(named_struct('x', 5)), map('k', 1, 'n', NULL),
  map('m', array(named_struct('a', cast(1.25 AS DECIMAL(9,2)))))
UNION ALL SELECT 2L, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL
UNION ALL SELECT 3L, false, 2147483647, float(1.5), double('NaN'), '', X'', DATE'2026-11-15',
  TIMESTAMP'2026-11-15 10:00:00', TIMESTAMP_NTZ'1500-01-01 00:00:00', -0.01bd, 0bd, cast(0 AS DECIMAL(38,10)),
  named_struct('x', NULL, 'inner', NULL), array(), array(NULL), map(), map()
UNION ALL SELECT 4L, true, -2147483648, float(-0.5), double(1e300), repeat('x', 100), X'80', DATE'1970-01-01',
  TIMESTAMP'1900-01-01 00:00:00', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 0.5bd, 1bd,
  cast(-1 AS DECIMAL(38,10)), NULL, NULL, NULL, NULL, NULL
"""
SPECS = {
    "unpartitioned": "",
    "identity": "flag, small, text, day, d9",
    "bucket": "bucket(4, id), bucket(3, text), bucket(5, d18), bucket(7, day)",
    "truncate": "truncate(10, id), truncate(2, text), truncate(50, d9)",
    "time": "hours(at), days(local)",
    "years and months": "years(day), months(at)",
    "inside a struct": "truncate(1, point.inner.y)",
}
LEFT_TO_SPARK = {"binary": "raw", "timestamp": "at"}
FORM = Format("zstd", 2**20)


@pytest.fixture(autouse=True)
def plan_with_pyiceberg(monkeypatch):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture
def rows(lake):
    frame = lake.spark.sql(ROWS).toDF(*[field.split()[0] for field in _split(COLUMNS)])
    return lake.spark.createDataFrame(frame.rdd, COLUMNS)


def _split(ddl):
    depth, part = 0, ""
    for letter in ddl:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    yield part


def table(lake, name, spec):
    lake.catalog.create_namespace(("shop",))
    by = f"PARTITIONED BY ({spec})" if spec else ""
    full = lake.name(name)
    lake.spark.sql(
        f"CREATE TABLE {full.sql()} ({COLUMNS}) USING iceberg {by} TBLPROPERTIES ('format-version' = '2')"
    )
    return lake.catalog.load(full)


def written(table, frame):
    return arrow.write(table, frame.toArrow(), FORM)


def append(table, staged):
    staged.update(table.java).commit()
    table.refresh()


def held(lake, table):
    """What the manifests say of the files, whatever their names and sizes are."""
    files = lake.spark.table(f"{table.name.sql()}.files").where("content = 0")
    rows = [row.asDict(recursive=True) for row in files.collect()]
    return sorted(
        (str(row.get("partition")), row["record_count"], _metrics(row["readable_metrics"])) for row in rows
    )


def _metrics(columns):
    """Bounds and counts of each column; how many NaNs there are, only Iceberg's own writers tell."""
    told = ("value_count", "null_value_count", "lower_bound", "upper_bound")
    return [(name, *(str(metrics[one]) for one in told)) for name, metrics in columns.items()]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_the_files_are_what_sparks_writer_makes_of_the_same_rows(lake, rows, spec):
    ours, sparks = table(lake, "ours", spec), table(lake, "sparks", spec)
    append(ours, written(ours, rows))
    append(sparks, stage(sparks, rows.coalesce(1), {}))
    assert held(lake, ours) == held(lake, sparks)
    read = [str(row) for row in lake.spark.table(ours.name.sql()).orderBy("id").collect()]
    assert read == [str(row) for row in lake.spark.table(sparks.name.sql()).orderBy("id").collect()]
    for reader in (with_pyiceberg, with_duckdb):
        found = [sorted(map(repr, reader(one.metadata().file))) for one in (ours, sparks)]
        assert found[0] == found[1], reader.__name__
    assert lake.spark.table(ours.name.sql()).where("id = 3 AND day = DATE'2026-11-15'").count() == 1


RAW = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
MODES = {
    "default": {},
    "counts": {"write.metadata.metrics.default": "counts"},
    "none but one": {
        "write.metadata.metrics.default": "none",
        "write.metadata.metrics.column.text": "truncate(3)",
        "write.metadata.metrics.column.f": "full",
    },
}


def as_they_are(batches):
    return batches


def where_made(table, frame, form=FORM):
    return arrow.write_where_made(table, frame.coalesce(1), as_they_are, arrow.target(table, form))


def raw(lake, table):
    """What the manifests say of the columns of each file, by field id."""
    files = lake.spark.table(f"{table.name.sql()}.files").where("content = 0")
    rows = [row.asDict(recursive=True) for row in files.collect()]
    return sorted(
        (
            str(row.get("partition")),
            row["record_count"],
            sorted(row["column_sizes"]),
            len(row["split_offsets"]),
            *(str(sorted(row[name].items())) for name in RAW),
        )
        for row in rows
    )


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_workers_write_what_sparks_writer_makes_of_the_same_rows(lake, rows, spec):
    ours, sparks = table(lake, "ours", spec), table(lake, "sparks", spec)
    staged, count = where_made(ours, rows)
    assert count == staged.rows == 4
    append(ours, staged)
    append(sparks, stage(sparks, rows.coalesce(1), {}))
    assert raw(lake, ours) == raw(lake, sparks)
    read = [str(row) for row in lake.spark.table(ours.name.sql()).orderBy("id").collect()]
    assert read == [str(row) for row in lake.spark.table(sparks.name.sql()).orderBy("id").collect()]
    for reader in (with_pyiceberg, with_duckdb, with_polars):
        found = [sorted(map(repr, reader(one.metadata().file))) for one in (ours, sparks)]
        assert found[0] == found[1], reader.__name__
    for where in (
        "id = 3 AND day = DATE'2026-11-15'",
        "text = ''",
        "at < '1950-01-01'",
        "d9 = 0.5",
        "isnan(d)",
    ):
        assert lake.spark.table(ours.name.sql()).where(where).count() == 1, where
    theirs = stage(sparks, rows, {})
    assert _folders(staged) == _folders(theirs)


def _folders(staged):
    return {file.location().rpartition("/data/")[2].rpartition("/")[0] for file in staged.files}


@pytest.mark.parametrize("properties", MODES.values(), ids=MODES.keys())
def test_workers_heed_what_a_table_wants_to_know_of_its_columns(lake, rows, properties):
    tables = [table(lake, name, "") for name in ("ours", "sparks")]
    for one in tables:
        for key, value in properties.items():
            lake.spark.sql(f"ALTER TABLE {one.name.sql()} SET TBLPROPERTIES ('{key}' = '{value}')")
        one.refresh()
    ours, sparks = tables
    append(ours, where_made(ours, rows)[0])
    append(sparks, stage(sparks, rows.coalesce(1), {}))
    assert raw(lake, ours) == raw(lake, sparks)


@pytest.mark.parametrize("write", [written, lambda table, frame: where_made(table, frame)[0]])
def test_a_text_that_looks_like_no_partition_is_a_text(lake, write):
    one = lake.table(columns="id BIGINT, name STRING")
    lake.spark.sql(f"ALTER TABLE {one.name.sql()} ADD PARTITION FIELD name")
    one.refresh()
    frame = lake.spark.sql("SELECT 1L AS id, '__HIVE_DEFAULT_PARTITION__' AS name UNION ALL SELECT 2L, NULL")
    append(one, write(one, frame.coalesce(1)))
    found = lake.spark.table(one.name.sql())
    assert [row.id for row in found.where("name IS NULL").collect()] == [2]
    assert [row.id for row in found.where("name = '__HIVE_DEFAULT_PARTITION__'").collect()] == [1]


def test_workers_that_get_no_rows_write_no_file(lake, rows):
    one = table(lake, "ours", "bucket(4, id)")
    staged, count = where_made(one, rows.where("false"))
    assert (staged.files, count) == ((), 0)


@pytest.mark.parametrize("column", LEFT_TO_SPARK.values(), ids=LEFT_TO_SPARK.keys())
def test_partitions_that_arrow_does_not_name_are_left_to_spark(lake, rows, column):
    one = table(lake, "ours", column)
    with pytest.raises(arrow.Unsupported):
        written(one, rows)


def test_many_partitions_are_left_to_spark(lake):
    one = lake.table(columns="id BIGINT, name STRING")
    lake.spark.sql(f"ALTER TABLE {one.name.sql()} ADD PARTITION FIELD id")
    one.refresh()
    frame = lake.spark.range(arrow.MOST_PARTITIONS + 1).selectExpr("id", "'n' AS name")
    with pytest.raises(arrow.Unsupported):
        written(one, frame)


def test_a_file_is_closed_when_it_has_the_target_size(lake):
    one = lake.table(columns="id BIGINT, name STRING")
    frame = lake.spark.range(50_000).selectExpr("id", "uuid() AS name").toArrow()
    staged = arrow.write(one, frame, Format("none", 2**19))
    assert len(staged.files) > 2
    assert staged.rows == 50_000
    assert all(2**18 < file.fileSizeInBytes() < 2**20 for file in staged.files[:-1])
    append(one, staged)
    assert lake.ids(one) == list(range(50_000))


def test_columns_that_the_rows_do_not_have_are_null(lake):
    one = lake.table(columns="id BIGINT, name STRING")
    append(one, arrow.write(one, pa.table({"id": pa.array([1], pa.int32())}), FORM))
    assert [tuple(row) for row in lake.spark.table(one.name.sql()).collect()] == [(1, None)]


def test_files_belong_to_the_spec_by_which_their_rows_were_divided(lake):
    one = lake.table(columns="id BIGINT, name STRING")
    lake.spark.sql(f"ALTER TABLE {one.name.sql()} ADD PARTITION FIELD name")
    one.refresh()
    known = arrow.target(one, FORM)
    lake.spark.sql(f"ALTER TABLE {one.name.sql()} REPLACE PARTITION FIELD name WITH bucket(4, id)")
    one.refresh()
    frame = lake.spark.sql("SELECT 1L AS id, 'a' AS name UNION ALL SELECT 2L, 'b'").coalesce(1)
    staged, _ = arrow.write_where_made(one, frame, as_they_are, known)
    assert {file.specId() for file in staged.files} == {known.spec_id} != {one.java.spec().specId()}
    append(one, staged)
    found = lake.spark.table(one.name.sql())
    assert [row.id for row in found.where("name = 'b'").collect()] == [2]
    assert lake.ids(one) == [1, 2]
