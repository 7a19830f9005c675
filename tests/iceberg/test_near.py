"""Keys and deletes in files of this machine, found with Arrow."""

from __future__ import annotations

import datetime as dt
import uuid
import zlib
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from calve.errors import Unavailable
from calve.iceberg import near

DAMAGE = {
    "its length": lambda blob: b"\0\0\0\1" + blob[4:],
    "its first bytes": lambda blob: blob[:4] + b"none" + blob[8:],
    "its checksum": lambda blob: blob[:-1] + bytes([blob[-1] ^ 1]),
}


ID, NAME = near.KeyColumn(7), near.KeyColumn(3)


def field(name, kind, number):
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("near")


def write(path, rows, group=4):
    schema = pa.schema([field("id", pa.int32(), 7), field("name", pa.string(), 3)])
    ids, names = zip(*rows, strict=True)
    pq.write_table(
        pa.table([pa.array(ids, pa.int32()), pa.array(names)], schema=schema), path, row_group_size=group
    )
    return str(path)


ROW = st.tuples(st.integers(0, 30), st.sampled_from(["a", "b", None]))


@given(
    st.lists(ROW, min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["a", "b"])), min_size=1, max_size=10),
)
def test_rows_are_found_by_one_column_and_by_two(folder, rows, keys):
    # No file is written twice, as in a table.
    path = write(folder / f"{uuid.uuid4()}.parquet", rows)
    numbers = pa.table({"id": pa.array([one for one, _ in keys], pa.int64())})
    both = numbers.append_column("name", pa.array([name for _, name in keys]))
    by_one = [at for at, row in enumerate(rows) if row[0] in {one for one, _ in keys}]
    by_two = [at for at, row in enumerate(rows) if row in keys]
    assert [*near.find([path], [ID], numbers).get(path, pa.array([])).to_pylist()] == by_one
    assert [*near.find([path], [ID, NAME], both).get(path, pa.array([])).to_pylist()] == by_two


def test_a_file_that_is_older_than_a_key_column_has_none_of_the_keys(tmp_path):
    path = write(tmp_path / "old.parquet", [(1, "a")])
    assert near.find([path], [near.KeyColumn(99)], pa.table({"id": [1]})) == {}


def plain(path, **columns):
    """A file that Iceberg did not write: no column has a field id."""
    pq.write_table(pa.table(columns), path)
    return str(path)


def test_a_file_without_field_ids_is_read_by_the_name_mapping(tmp_path):
    path = plain(tmp_path / "hive.parquet", number=[1, 2, 3], name=["a", "b", "c"])
    mapped = near.KeyColumn(7, ("id", "number"))
    found = near.find([path], [mapped], pa.table({"id": pa.array([2, 9], pa.int64())}))
    assert {name: positions.to_pylist() for name, positions in found.items()} == {path: [1]}
    assert near.find([path], [near.KeyColumn(7, ())], pa.table({"id": [2]})) == {}


def test_a_file_without_field_ids_and_a_table_without_a_name_mapping_are_left_to_spark(tmp_path):
    path = plain(tmp_path / "hive.parquet", id=[1, 2])
    with pytest.raises(near.NeedsSpark, match="no field ids"):
        near.find([path], [near.KeyColumn(7)], pa.table({"id": [1]}))


def test_field_ids_inside_of_a_struct_are_ids_of_the_file(tmp_path):
    inside = pa.struct([field("x", pa.int32(), 5)])
    pq.write_table(pa.table({"s": pa.array([{"x": 1}], inside), "id": [1]}), tmp_path / "ids.parquet")
    path = str(tmp_path / "ids.parquet")
    assert near.find([path], [near.KeyColumn(7, ("id",))], pa.table({"id": [1]})) == {}


def test_values_that_arrow_cannot_convert_are_left_to_spark(tmp_path):
    path = plain(tmp_path / "texts.parquet", id=["one"])
    with pytest.raises(near.NeedsSpark):
        near.find([path], [near.KeyColumn(7, ("id",))], pa.table({"id": pa.array([1], pa.int64())}))


KINDS = [
    (pa.int32(), 5, 5, 6),
    (pa.string(), "eu", "eu", "us"),
    (pa.date32(), "2026-11-18", dt.date(2026, 11, 18), dt.date(2026, 11, 19)),
    (pa.timestamp("us"), "2026-11-18T01:02:03.5", dt.datetime(2026, 11, 18, 1, 2, 3, 500_000), None),
    (pa.decimal128(9, 2), "12.50", Decimal("12.50"), Decimal("12.51")),
    (pa.binary(), "00FF", b"\x00\xff", b""),
    (pa.bool_(), True, True, False),
]


@pytest.mark.parametrize(("kind", "told", "value", "other"), KINDS, ids=[str(kind) for kind, *_ in KINDS])
def test_a_key_column_that_only_the_partition_or_the_initial_default_has(tmp_path, kind, told, value, other):
    path = write(tmp_path / "rows.parquet", [(1, "a"), (2, "b"), (1, "c")])
    keys = pa.table({"id": pa.array([1, 2], pa.int64()), "p": pa.array([value, other], kind)})
    of_partition, of_default = near.KeyColumn(99, is_partition=True), near.KeyColumn(99, default=told)
    for column in (of_partition, of_default):
        both = near.find([path], [ID, column], keys, lambda path: {99: told})
        assert both[path].to_pylist() == [0, 2]
        assert near.find([path], [column], keys.select(["p"]), lambda path: {99: told})[path].to_pylist() == [
            0,
            1,
            2,
        ]


def test_the_partition_comes_before_the_initial_default_also_where_it_is_null(tmp_path):
    path = write(tmp_path / "rows.parquet", [(1, "a")])
    column = near.KeyColumn(99, default=5, is_partition=True)
    keys = pa.table({"p": pa.array([5], pa.int32())})
    assert near.find([path], [column], keys, lambda path: {99: None}) == {}
    assert near.find([path], [column], keys, lambda path: {99: 6}) == {}
    assert near.find([path], [column], keys, lambda path: {})[path].to_pylist() == [0]


def test_position_deletes_about_several_files_are_told_apart(tmp_path):
    path = tmp_path / "deletes.parquet"
    pq.write_table(pa.table({"file_path": ["x", "y", "x"], "pos": [5, 6, 7]}), path)
    assert near.deleted("x", [near.DeleteFile(str(path))]).to_pylist() == [5, 7]
    assert near.deleted("y", [near.DeleteFile(str(path), about="y")]).to_pylist() == [5, 6, 7]


def vector(path, positions, damage=lambda blob: blob):
    told = bytes.fromhex("d1d33964") + BitMap64(positions).serialize()
    blob = len(told).to_bytes(4, "big") + told + zlib.crc32(told).to_bytes(4, "big")
    path.write_bytes(b"PFA1" + damage(blob) + b"footer")
    return near.DeleteFile(str(path), "x", 4, len(blob))


def test_positions_of_a_deletion_vector(tmp_path):
    positions = [0, 3, 2**17, 2**33]
    assert near.deleted("x", [vector(tmp_path / "v.puffin", positions)]).to_pylist() == positions


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_vector_is_refused(tmp_path, damage):
    with pytest.raises(Unavailable, match="is damaged"):
        near.deleted("x", [vector(tmp_path / "v.puffin", [1], damage)])


def test_what_is_gone_already_is_taken_off():
    assert near.without(pa.array([1, 2, 3]), pa.array([2])).to_pylist() == [1, 3]
