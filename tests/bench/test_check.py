"""Tables that PyIceberg writes; deletes are put in by hand, as engines write them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.manifest import ManifestEntryStatus as Status
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from bench import check
from bench.data import Expected, Shape, json_lines
from bench.peers.ingestr import ENVELOPE
from bench.table import Facts, InCatalog, InFolder


class _Deletes(ManifestWriterV2):
    def content(self):
        return ManifestContent.DELETES

    @property
    def _meta(self):
        return {**super()._meta, "content": "deletes"}


@pytest.fixture
def table(tmp_path):
    catalog = SqlCatalog("bench", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("bench")
    return catalog.create_table("bench.orders", next(Shape().blocks(0, 1)).schema.set(4, moment()))


def moment():
    return pa.field("ordered_at", pa.timestamp("us", "UTC"))


def append(table, ids, version=0):
    rows = Shape().rows(np.array(ids), version)
    table.append(rows.set_column(4, moment(), rows["ordered_at"].cast(moment().type)))


def delete(table, content, rows, folder, equality=None):
    """Commit a delete file the way a row delta does."""
    file = folder / f"{content.name}-{len(table.metadata.snapshots)}.parquet"
    pq.write_table(rows, file)
    number, sequence = len(table.metadata.snapshots) + 1, table.metadata.last_sequence_number + 1
    made = DataFile.from_args(
        content=content, file_path=f"file://{file}", file_format=FileFormat.PARQUET, partition=Record(),
        record_count=rows.num_rows, file_size_in_bytes=file.stat().st_size, equality_ids=equality,
    )  # fmt: skip
    made.spec_id = 0
    listed, manifest = str(folder / f"list-{number}.avro"), str(folder / f"manifest-{number}.avro")
    with _Deletes(table.spec(), table.schema(), table.io.new_output(manifest), number, "null") as writer:
        writer.add(ManifestEntry.from_args(status=Status.ADDED, snapshot_id=number, data_file=made))
    before = table.current_snapshot()
    with write_manifest_list(
        2, table.io.new_output(listed), number, before.snapshot_id, sequence, "null"
    ) as lists:
        lists.add_manifests([*before.manifests(table.io), writer.to_manifest_file()])
    snapshot = Snapshot(
        snapshot_id=number, parent_snapshot_id=before.snapshot_id, sequence_number=sequence,
        manifest_list=listed, summary=Summary(Operation.DELETE), schema_id=0,
    )  # fmt: skip
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId(ref="main", snapshot_id=before.snapshot_id),),
        (
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=number),
        ),
    )
    table.refresh()


def keys(*ids):
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    return pa.table({"id": list(ids)}, pa.schema([field]))


def found(table):
    return check.found(Path(table.metadata_location.removeprefix("file://")))


def test_a_right_table_has_no_differences(table):
    append(table, range(100))
    append(table, range(100, 150))
    assert check.differences(Expected.of(Shape().blocks(0, 150)), found(table)) == []


def test_a_table_without_rows_is_counted(table):
    assert found(table).rows == 0


def test_what_is_wrong_is_named(table):
    append(table, [*range(99), 98])
    lines = check.differences(Expected.of(Shape().blocks(0, 100)), found(table))
    assert [line.split(":")[0] for line in lines][:4] == [
        "distinct ids", "sum of id", "sum of amount", "sum of ordered_at"
    ]  # fmt: skip
    assert check.differences(Expected(3, 3, {}), Expected(2, 3, {})) == ["rows: 2 instead of 3"]


def test_equality_deletes_take_out_what_was_there_before_them(table, tmp_path):
    append(table, range(100))
    delete(table, DataFileContent.EQUALITY_DELETES, keys(5, 6, 7), tmp_path, [1])
    append(table, [5, 6], version=3)
    wanted = Shape().rows(np.array([one for one in range(100) if one not in (5, 6, 7)]))
    new = Shape().rows(np.array([5, 6]), 3)
    assert check.differences(Expected.of([wanted, new]), found(table)) == []


def test_position_deletes_count_beside_equality_deletes(table, tmp_path):
    append(table, range(10))
    file = table.inspect.data_files()["file_path"][0].as_py()
    delete(table, DataFileContent.EQUALITY_DELETES, keys(1), tmp_path, [1])
    places = pa.table({"file_path": [file], "pos": pa.array([0], pa.int64())})
    delete(table, DataFileContent.POSITION_DELETES, places, tmp_path)
    assert (found(table).rows, found(table).sums["id"]) == (8, 44)


def test_a_peer_may_have_other_columns(tmp_path):
    catalog = SqlCatalog("bench", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("bench")
    texts = catalog.create_table("bench.raw", pa.schema([("data", pa.string()), ("other", pa.int64())]))
    texts.append(pa.table({"data": ['{"id": 7}', '{"id": 8}'], "other": [1, 2]}))
    told = check.found(
        Path(texts.metadata_location.removeprefix("file://")), {"id": "CAST(data->>'id' AS BIGINT)"}
    )
    assert told == Expected(2, 2, {"id": 15})
    assert check.differences(Expected(2, 2, {"id": 15, "amount": 1}), told) == []


def test_the_text_of_records_in_an_envelope_is_read(tmp_path):
    catalog = SqlCatalog("bench", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("bench")
    raw = catalog.create_table("bench.raw", pa.schema([("msg_id", pa.string()), ("data", pa.string())]))
    lines = [f'{{"data":{line.decode()},"key":null}}' for line in json_lines(next(Shape().blocks(0, 50)))]
    raw.append(pa.table({"msg_id": lines, "data": lines}))
    told = check.found(Path(raw.metadata_location.removeprefix("file://")), ENVELOPE)
    assert check.differences(Expected.of(Shape().blocks(0, 50)), told) == []


def test_the_metadata_of_a_table_is_found_in_its_catalog_and_in_its_folder(table, tmp_path):
    append(table, range(10))
    append(table, range(10, 30))
    places = [InCatalog(tmp_path / "catalog.db", "orders"), InFolder(tmp_path / "bench" / "orders")]
    for place in places:
        assert place.rows() == 30
        facts = Facts.of(place.read())
        assert (facts.files, facts.delete_files, facts.snapshots) == (2, 0, 2)
        assert len(facts.per_batch(1)) == 1
    assert InCatalog(tmp_path / "catalog.db", "nothing").rows() == 0
    assert InCatalog(tmp_path / "none.db", "orders").rows() == InFolder(tmp_path / "none").rows() == 0


def test_the_tenth_version_is_newer_than_the_ninth(tmp_path):
    (tmp_path / "metadata").mkdir()
    for name in ("v9", "v10", "v1"):
        (tmp_path / "metadata" / f"{name}.metadata.json").write_text("{}")
    assert InFolder(tmp_path).metadata().name == "v10.metadata.json"
    (tmp_path / "metadata" / "v11.metadata.json").write_text('{"half":')
    assert InFolder(tmp_path).read() is None
