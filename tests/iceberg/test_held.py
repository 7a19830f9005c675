import pyarrow as pa
import pyarrow.parquet as pq

from calve.iceberg import near
from calve.iceberg.held import Held

ROWS = pa.table({"id": pa.array(range(100), pa.int64())})


def test_what_is_held_is_not_read_again():
    held, read = Held(), []

    def reading():
        read.append(1)
        return ROWS

    assert held.get("a", reading) is held.get("a", reading) is ROWS
    assert len(read) == 1
    held.get("b", reading)
    assert len(read) == 2


def test_no_more_is_held_than_allowed_and_what_was_asked_for_last_stays():
    held, read = Held(2 * ROWS.nbytes), []

    def reading(name):
        return lambda: read.append(name) or ROWS

    for name in ("a", "b", "a", "c", "a", "b"):
        held.get(name, reading(name))
    assert read == ["a", "b", "c", "b"]
    assert held.bytes == 2 * ROWS.nbytes


def test_columns_that_are_larger_than_all_that_may_be_held_are_not_held():
    held = Held(ROWS.nbytes - 1)
    assert held.get("a", lambda: ROWS) is ROWS
    assert held.bytes == 0


def test_a_second_look_up_reads_no_key_again(tmp_path, monkeypatch):
    monkeypatch.setattr(near, "_held", Held())
    path = str(tmp_path / "rows.parquet")
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(ROWS.cast(schema), path, row_group_size=50)
    read = []
    keys = near._keys
    monkeypatch.setattr(
        near, "_keys", lambda file, group, names: read.append(group) or keys(file, group, names)
    )
    for wanted, positions in (([3, 70], [3, 70]), ([4], [4]), ([99, 200], [99])):
        found = near.find([path], [near.KeyColumn(1)], pa.table({"id": pa.array(wanted, pa.int64())}))
        assert found[path].to_pylist() == positions
    assert read == [0, 1]
