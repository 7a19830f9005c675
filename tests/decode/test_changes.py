"""Rows become changes: what a column says, and the place that puts them in order."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calve.decode import reading
from calve.decode.changes import Records, RowChanges
from calve.decode.json import JsonDecoder
from calve.decode.reading import Layout, Split, file_rows
from calve.decode.rows import Topics, record_rows
from calve.decode.text import TextDecoder
from calve.errors import BadRecord
from calve.gateway import WorkerError
from calve.schema import parse

CODES = {"I": "i", "U": "u", "D": "d", "T": "t"}


def place(index: int) -> str:
    return f"record {index}"


def changed(rows: pa.RecordBatch, changes: RowChanges) -> list[dict[str, Any]]:
    count = rows.num_rows
    there = Records(pa.array([7] * count, pa.int64()), pa.array(range(count), pa.int64()), place)
    return changes.of(rows, there).to_pylist()


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_plain_rows_are_upserts_in_the_order_of_their_places() -> None:
    assert changed(batch(id=[5, 6]), RowChanges()) == [
        {
            "id": number,
            "_calve_op": "u",
            "_calve_order": {"seq": None, "lane": 7, "at": at, "part": 0, "time": None},
            "_calve_ts": None,
            "_calve_unknown": None,
        }
        for at, number in enumerate((5, 6))
    ]


def test_a_column_that_says_the_operation_is_no_value() -> None:
    rows = changed(batch(id=[1, 2, 3, 4], op=["I", "U", "D", "T"]), RowChanges("op", CODES))
    assert [row["_calve_op"] for row in rows] == ["i", "u", "d", "t"]
    assert "op" not in rows[0]


@pytest.mark.parametrize(("said", "shown"), [("x", "'x'"), (None, "NULL"), ("i", "'i'")])
def test_an_operation_that_is_not_known_is_a_bad_record(said: str | None, shown: str) -> None:
    with pytest.raises(BadRecord) as caught:
        changed(batch(id=[1, 2], op=["I", said]), RowChanges("op", CODES))
    assert caught.value.place == "record 1"
    assert caught.value.reason == f"column 'op': {shown} is none of the operations"


def test_only_rows_that_are_gone_may_leave_out_what_is_not_null() -> None:
    made = RowChanges("op", CODES, ["id"])
    assert len(changed(batch(id=[1, None, None], op=["I", "D", "T"]), made)) == 3
    with pytest.raises(BadRecord, match="record 2: column 'id': NULL, and the column is NOT NULL"):
        changed(batch(id=[1, None, None], op=["I", "D", "U"]), made)


def test_partitions_of_several_topics_are_lanes_of_their_own() -> None:
    records = batch(value=[b"x", b"y", b"z"], partition=[1, 1, 0], offset=[9, 9, 3], topic=["b", "a", "b"])
    work = record_rows(TextDecoder(), {}, Topics(("a", "b")), RowChanges())
    [made] = work([records.set_column(1, "partition", records.column("partition").cast(pa.int32()))])
    orders = [(row["_calve_order"]["lane"], row["_calve_order"]["at"]) for row in made.to_pylist()]
    assert orders == [(1 << 32 | 1, 9), (1, 9), (1 << 32, 3)]


def ordered(splits: list[Split], decoder: Any, **layout: bool) -> list[tuple[int, int, Any]]:
    """Lane, place and first value of each row, as they come."""
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(splits)))})
    work = file_rows(decoder, [[split] for split in splits], Layout(**layout), RowChanges())
    rows = [row for made in work([numbers]) for row in made.to_pylist()]
    return [
        (row["_calve_order"]["lane"], row["_calve_order"]["at"], next(iter(row.values()))) for row in rows
    ]


def cut(path: Path, size: int, number: int = 0) -> list[Split]:
    state = path.stat()
    whole, mtime = state.st_size, state.st_mtime_ns
    return [
        Split(str(path), at, min(at + size, whole), whole, mtime, None, number)
        for at in range(0, whole, size)
    ]


@pytest.mark.parametrize("size", [1, 5, 13, 100, 10_000])
def test_lines_are_in_order_however_a_file_is_cut(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BLOCK", 7)
    path = tmp_path / "data"
    lines = [str(number) * (number % 4) for number in range(60)]
    path.write_text("\n".join(lines))
    found = ordered(list(reversed(cut(path, size, 3))), TextDecoder())
    assert [text for _, _, text in sorted(found)] == lines
    assert len({at for _, at, _ in found}) == len(lines)
    assert {lane for lane, _, _ in found} == {3}


def test_documents_in_one_line_are_in_order_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_RECORDS", 3)
    path = tmp_path / "data"
    path.write_text("".join(f'{{"id": {number}}}' for number in range(10)))
    found = ordered(cut(path, 10_000), JsonDecoder(parse("id BIGINT")), multi_line=True)
    assert [number for _, _, number in sorted(found)] == list(range(10))
    assert len({at for _, at, _ in found}) == 10


def test_a_bad_operation_in_a_file_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text('{"op": "I"}\n\n{"op": "x"}\n')
    work = file_rows(JsonDecoder(parse("op STRING")), [cut(path, 1000)], Layout(), RowChanges("op", CODES))
    with pytest.raises(WorkerError, match=r"line 3.*'x' is none of the operations"):
        list(work([pa.RecordBatch.from_pydict({"id": [0]})]))
