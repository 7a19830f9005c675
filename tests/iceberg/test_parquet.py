"""Files that Python workers write, without Spark."""

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from calve import changes
from calve.decode.bad import Sieve
from calve.decode.json import JsonDecoder
from calve.decode.rows import Topics, record_rows
from calve.errors import NotPermitted
from calve.gateway import WorkerError, classify
from calve.iceberg import parquet
from calve.iceberg.parquet import Format, Target, Told, as_rows, format_of, written
from calve.iceberg.partitions import Field
from calve.iceberg.places import Bucket
from calve.schema import parse


def field(name, kind, number, nullable=True):
    return pa.field(name, kind, nullable, {b"PARQUET:field_id": str(number).encode()})


SCHEMA = pa.schema(
    [
        field("id", pa.int64(), 1, nullable=False),
        field("x", pa.float64(), 2),
        field("point", pa.struct([field("y", pa.float32(), 4)]), 3),
        field("tags", pa.list_(field("element", pa.float64(), 6)), 5),
        field("day", pa.date32(), 7),
        field("amount", pa.decimal128(9, 2), 8),
    ]
)
LENGTHS = dict.fromkeys((1, 2, 4, 6, 7, 8), 16)
NAN = float("nan")
POINT = pa.struct([("y", pa.float32())])


def rows(count, first=0, days=1):
    found = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(found, pa.int64()),
            "x": [NAN if number % 4 == 0 else 0.5 for number in found],
            "point": pa.array([None if n % 2 else {"y": NAN} for n in found], POINT),
            "tags": [[NAN, 1.0]] * count,
            "day": [dt.date(2026, 1, 1 + number % days) for number in found],
        }
    )


def as_they_are(batches):
    yield from batches


def target(tmp_path, *fields, size=2**20, **keys):
    form = Format("zstd", size)
    return Target(SCHEMA, f"file:{tmp_path}/data", form, fields, lengths=LENGTHS, **keys)


def told(work, place, batches):
    return Told.of(line for batch in written(work, place)(batches) for line in batch.column(0).to_pylist())


def path(file):
    return Path(file.location.removeprefix("file:"))


def said(file, name):
    return dict(zip(*file.metrics[name].values(), strict=True))


def left(tmp_path):
    return [one for one in tmp_path.rglob("*") if one.is_file()]


def test_rows_become_a_file_with_field_ids_and_icebergs_types(tmp_path):
    found = told(as_they_are, target(tmp_path), [rows(8)])
    (file,) = found.files
    assert (found.rows, found.dropped, file.rows, file.partition) == (8, 0, 8, [])
    assert file.bytes == path(file).stat().st_size
    assert said(file, "nan-value-counts") == {2: 2, 4: 4}
    footer = pq.read_metadata(path(file))
    assert file.splits == [4]
    assert "field_id=6 element" in str(footer.schema)
    assert str(footer.schema.column(4).physical_type) == "INT32"
    columns = [footer.row_group(0).column(index) for index in range(footer.num_columns)]
    coded = {one.path_in_schema for one in columns if one.has_dictionary_page}
    assert coded == {"x", "point.y", "tags.list.element", "day", "amount"}
    table = pq.read_table(path(file))
    assert table.column("id").to_pylist() == list(range(8))
    assert table.column("amount").null_count == 8
    assert left(tmp_path) == [path(file)]


def test_values_that_repeat_are_written_once():
    nested = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.map_(pa.string(), pa.int32())))])
    held = pa.table(
        {
            "own": range(100),
            "few": [n % 5 for n in range(100)],
            "s": pa.nulls(100, nested),
            "no": pa.nulls(100),
        }
    )
    inside = ("s.a", "s.b.list.element.key_value.key", "s.b.list.element.key_value.value")
    assert list(parquet.repeating(held)) == ["few", *inside, "no"]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4", "zstd"])
def test_every_compression_of_the_sink_is_written(tmp_path, codec):
    given = {"write.parquet.compression-level": "1"}
    place = replace(target(tmp_path), form=format_of(codec, 2**20, given))
    (file,) = told(as_they_are, place, [rows(8)]).files
    names = {"none": "UNCOMPRESSED"}
    assert pq.read_metadata(path(file)).row_group(0).column(0).compression == names.get(codec, codec.upper())
    assert pq.read_table(path(file)).num_rows == 8


def test_no_rows_make_no_file(tmp_path):
    found = told(as_they_are, target(tmp_path), [rows(0)])
    assert (found.files, found.rows, left(tmp_path)) == ((), 0, [])


def test_a_file_is_closed_before_it_is_larger_than_wanted(tmp_path):
    batches = [rows(20_000, first) for first in range(0, 100_000, 20_000)]
    found = told(as_they_are, target(tmp_path, size=2**15), batches)
    assert len(found.files) > 2
    footers = [pq.read_metadata(path(file)).serialized_size for file in found.files]
    sizes = [file.bytes - footer for file, footer in zip(found.files, footers, strict=True)]
    assert all(2**14 < size < 2**15 + 64 for size in sizes[:-1])
    ids = [one for file in found.files for one in pq.read_table(path(file)).column("id").to_pylist()]
    assert sorted(ids) == list(range(100_000))
    for file in found.files:
        footer = pq.read_metadata(path(file))
        begins = [footer.row_group(index).column(0) for index in range(footer.num_row_groups)]
        assert file.splits == [one.dictionary_page_offset or one.data_page_offset for one in begins]


def test_rows_lie_in_the_folders_of_their_partitions(tmp_path):
    place = target(tmp_path, Field("day", ("day",), "identity"), Field("b", ("id",), "bucket", 2))
    found = told(as_they_are, place, [rows(100, first, days=3) for first in (0, 100)])
    assert len(found.files) == 6
    assert sum(file.rows for file in found.files) == 200
    for file in found.files:
        day, bucket = file.partition
        assert path(file).parent == tmp_path / "data" / f"day={day}" / f"b={bucket}"
        assert {str(one) for one in pq.read_table(path(file)).column("day").to_pylist()} == {day}


def test_no_more_is_held_and_open_than_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "HELD", 4_000)
    monkeypatch.setattr(parquet, "MOST_OPEN", 3)
    files = parquet.Files(target(tmp_path, Field("day", ("day",), "identity")))
    for first in range(0, 5_000, 100):
        files.add(rows(100, first, days=10))
        assert files._bytes == sum(batch.nbytes for batch in files._held) < 4_000
        assert len(files._open) <= 3
    found = Told.of(files.close())
    assert sum(file.rows for file in found.files) == found.rows == 5_000


def broken(batches):
    yield from batches
    raise RuntimeError("lost")


def test_an_attempt_that_fails_leaves_nothing(tmp_path):
    work = written(broken, target(tmp_path, Field("day", ("day",), "identity"), size=2**10))
    with pytest.raises(RuntimeError, match="lost"):
        list(work([rows(5_000, days=3)]))
    assert left(tmp_path) == []


def test_keys_of_a_store_are_not_shown(tmp_path):
    assert "hidden" not in repr(target(tmp_path, bucket=Bucket("hidden", "hidden", "hidden")))


def test_an_attempt_that_is_given_up_leaves_nothing(tmp_path):
    files = parquet.Files(target(tmp_path, size=2**10))
    files.add(rows(5_000))
    assert left(tmp_path)
    files.abandon()
    assert left(tmp_path) == []


def test_records_are_decoded_and_written_in_one_pass_and_bad_ones_reported(tmp_path):
    reports = []
    values = [b'{"id": 1, "x": 0.5}', b"{", b'{"id": 2, "amount": "1.25"}', None]
    records = pa.RecordBatch.from_pydict(
        {
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([0] * 4, pa.int32()),
            "offset": pa.array(range(4), pa.int64()),
            "key": pa.nulls(4, pa.binary()),
            "timestamp": pa.nulls(4, pa.timestamp("us", "UTC")),
            "headers_as_json": pa.nulls(4, pa.string()),
        }
    )
    decoder = JsonDecoder(parse("id BIGINT NOT NULL, x DOUBLE, amount DECIMAL(9,2)"))
    work = record_rows(decoder, {}, Topics(("orders",)), None, Sieve("batch", "salt", reports.extend))
    found = told(work, target(tmp_path), [records])
    (file,) = found.files
    assert [(one.records, one.bad) for one in reports] == [(4, 2)]
    assert pq.read_table(path(file)).select(["id", "amount"]).to_pydict() == {
        "id": [1, 2],
        "amount": [None, Decimal("1.25")],
    }
    assert (found.rows, file.rows) == (2, 2)
    (again,) = cloudpickle.loads(cloudpickle.dumps(written(work, target(tmp_path))))([records])
    assert Told.of(again.column(0).to_pylist()).rows == 2


def test_two_attempts_write_two_files(tmp_path):
    one, two = (told(as_they_are, target(tmp_path), [rows(1)]).files[0] for _ in range(2))
    assert one.location != two.location


def test_a_null_where_none_may_be_is_refused(tmp_path):
    lacking = pa.RecordBatch.from_pydict({"id": pa.array([1, None], pa.int64())})
    with pytest.raises(WorkerError, match="column 'id' is NOT NULL") as refused:
        told(as_they_are, target(tmp_path), [lacking])
    assert type(classify(str(refused.value), "write")).__name__ == "DataRefused"
    assert left(tmp_path) == []


def test_a_folder_that_may_not_be_written_to_is_told(tmp_path, monkeypatch):
    def denied(*values, **named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(WorkerError, match="Permission denied") as refused:
        told(as_they_are, target(tmp_path), [rows(1)])
    assert isinstance(classify(str(refused.value), "write"), NotPermitted)


def change_rows(operations):
    count = len(operations)
    order = [{"seq": None if n == 0 else 100 + n, "lane": 0, "at": n, "part": 0} for n in range(count)]
    kinds = pa.struct([("seq", pa.int64()), ("lane", pa.int64()), ("at", pa.int64()), ("part", pa.int32())])
    return pa.RecordBatch.from_pydict(
        {
            "id": list(range(count)),
            changes.OPERATION: operations,
            changes.ORDER: pa.array(order, kinds),
            changes.TIME: pa.nulls(count, pa.timestamp("us", "UTC")),
            changes.UNKNOWN: pa.nulls(count, pa.list_(pa.string())),
        }
    )


def test_changes_that_take_rows_out_are_passed_over(tmp_path):
    assert as_rows(change_rows(["i", "d", "u", "t"]), False).to_pydict() == {"id": [0, 2]}
    found = told(as_they_are, target(tmp_path), [change_rows(["i", "d", "u", "t"])])
    assert (found.rows, found.dropped) == (2, 2)


def test_changes_are_kept_where_the_table_is_one_of_changes():
    made = as_rows(change_rows(["i", "d"]), True).to_pydict()
    assert made == {"id": [0, 1], "_op": ["i", "d"], "_ts": [None, None], "_seq": [0, 101]}


def test_properties_of_the_table_are_heeded():
    assert format_of("zstd", 5, {}) == Format("zstd", 5)
    given = {"write.parquet.row-group-size-bytes": "7", "write.parquet.compression-level": "3"}
    assert format_of("zstd", 5, given) == Format("zstd", 5, 7, 3)
    assert format_of("snappy", 5, given).level is None
    assert Format("zstd", 5, 7).held_bytes == 5
    assert Format("zstd", 2**40).held_bytes == parquet.HELD


def test_what_is_told_can_be_read_again(tmp_path):
    (batch,) = written(as_they_are, target(tmp_path))([rows(3)])
    lines = batch.column(0).to_pylist()
    assert json.loads(lines[-1]) == {"made": 3, "dropped": 0}
    assert Told.of([*lines, *lines]).rows == 6
