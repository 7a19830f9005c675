"""Files become rows: lines, blocks, parts, compression, and the line that is wrong."""

import bz2
import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calve.decode import reading
from calve.decode.csv import CsvDecoder
from calve.decode.decoder import Decoder
from calve.decode.dialect import Dialect
from calve.decode.json import JsonDecoder
from calve.decode.reading import Layout, Split, file_rows
from calve.decode.text import TextDecoder
from calve.errors import BadRecord
from calve.gateway import WorkerError, classify
from calve.schema import parse

ROWS = parse("id BIGINT NOT NULL, s STRING")
JSON = JsonDecoder(ROWS)
CSV = CsvDecoder(ROWS, Dialect())


def whole(path: Path, compression: str | None = None) -> Split:
    state = path.stat()
    return Split(str(path), 0, state.st_size, state.st_size, state.st_mtime_ns, compression)


def rows(decoder: Decoder, splits: list[Split], layout: Layout = Layout()) -> list[Any]:  # noqa: B008
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    batches = file_rows(decoder, [splits], layout)([numbers])
    return [list(row.values()) for batch in batches for row in batch.to_pylist()]


def read(tmp_path: Path, data: bytes, decoder: Decoder = JSON, **layout: bool) -> list[Any]:
    path = tmp_path / "data"
    path.write_bytes(data)
    return rows(decoder, [whole(path)], Layout(**layout))


def refusal(tmp_path: Path, data: bytes, decoder: Decoder = JSON, **layout: bool) -> BadRecord:
    with pytest.raises(WorkerError) as caught:
        read(tmp_path, data, decoder, **layout)
    error = classify(str(caught.value), "read")
    assert isinstance(error, BadRecord)
    return error


def test_each_line_is_a_record_and_blank_ones_are_none(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"id": 1}\r\n\n  \n{"id": 2, "s": "x"}'
    assert read(tmp_path, data) == [[1, None], [2, "x"]]


def test_in_text_blank_lines_are_records(tmp_path: Path) -> None:
    assert read(tmp_path, b"a\r\n\nb", TextDecoder()) == [["a"], [""], ["b"]]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path, b"") == []
    assert read(tmp_path, b"", CSV, header=True) == []
    assert read(tmp_path, b"", multi_line=True) == []


@pytest.mark.parametrize("cut", [1, 7, 16, 100])
def test_parts_of_a_file_hold_each_line_once(
    tmp_path: Path, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BLOCK", 13)
    path = tmp_path / "data"
    path.write_bytes(b"".join(b'{"id": %d}\n' % number for number in range(40)) + b'{"id": 40}')
    size, mtime = path.stat().st_size, path.stat().st_mtime_ns
    splits = [Split(str(path), at, min(at + cut, size), size, mtime) for at in range(0, size, cut)]
    assert rows(JSON, splits) == [[number, None] for number in range(41)]


def test_a_bad_line_in_a_later_part_is_named_by_its_number_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BLOCK", 50)
    path = tmp_path / "data"
    path.write_bytes(b'{"id": 1}\n\n' * 50 + b'{"id": "x"}\n')
    size, mtime = path.stat().st_size, path.stat().st_mtime_ns
    with pytest.raises(WorkerError, match="line 101"):
        rows(JSON, [Split(str(path), 300, size, size, mtime)])


@pytest.mark.parametrize(
    ("kind", "pack"),
    [
        ("gzip", gzip.compress),
        ("bzip2", bz2.compress),
        ("xz", lzma.compress),
        ("zstd", lambda data: pa.compress(data, codec="zstd", asbytes=True)),
        ("lz4", lambda data: pa.compress(data, codec="lz4", asbytes=True)),
    ],
)
def test_compressed_files_are_read_and_cut_off_ones_refused(tmp_path: Path, kind: str, pack: Any) -> None:
    data = pack(b"".join(b'{"id": %d}\n' % number for number in range(5000)))
    path = tmp_path / "data"
    path.write_bytes(data)
    assert len(rows(JSON, [whole(path, kind)])) == 5000
    path.write_bytes(data[:-20])
    with pytest.raises(WorkerError, match="damaged or cut off"):
        rows(JSON, [whole(path, kind)])


def test_gzip_files_put_together_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(b'{"id": 1}\n') + gzip.compress(b'{"id": 2}\n'))
    assert rows(JSON, [whole(path, "gzip")]) == [[1, None], [2, None]]


@pytest.mark.parametrize(
    "data",
    [
        b'[{"id": 1}, {"id":\n2}\n]\n',
        b'{"id": 1}\n{\n"id": 2}',
        b'{"id": 1}{"id": 2}',
        b' [ {"id": 1} , {"id": 2} ] ',
    ],
)
def test_json_over_several_lines_is_an_array_or_one_object_behind_the_other(
    tmp_path: Path, data: bytes
) -> None:
    assert read(tmp_path, data, multi_line=True) == [[1, None], [2, None]]


@pytest.mark.parametrize(
    ("data", "line", "why"),
    [
        (b'[{"id": 1},\n{"id": "x"}]', 2, "'x' is not a BIGINT"),
        (b'[{"id": 1},\n3]', 2, "not a JSON object but a number"),
        (b'[{"id": 1},\n{"id"}]', 2, "Expecting ':' delimiter"),
        (b'[{"id": 1}\n{"id": 2}]', 2, "Expecting ',' or ']'"),
        (b'[{"id": 1}]\n{"id": 2}', 2, "Expecting the end"),
        (b'[{"id": 1},\n', 2, "Expecting"),
        (b"[", 1, "Expecting the end"),
    ],
)
def test_json_over_several_lines_names_the_line_that_is_wrong(
    tmp_path: Path, data: bytes, line: int, why: str
) -> None:
    error = refusal(tmp_path, data, multi_line=True)
    assert error.place == f"file '{tmp_path / 'data'}' line {line}"
    assert why in error.reason


def test_json_that_is_nested_too_deeply_is_a_bad_record(tmp_path: Path) -> None:
    assert "nested too deeply" in refusal(tmp_path, b"[" * 100_000, multi_line=True).reason
    assert "not valid UTF-8" in refusal(tmp_path, b"[\xff]", multi_line=True).reason


def test_a_header_is_no_record_and_names_the_columns(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfs,id\nx,1\n\ny,2", CSV, header=True) == [[1, "x"], [2, "y"]]
    error = refusal(tmp_path, b"s,id\nx,1\ny,z", CSV, header=True)
    assert error.place.endswith("line 3")
    assert "does not name column 'id'" in refusal(tmp_path, b"s\nx", CSV, header=True).reason


def test_a_header_counts_for_every_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"s,id\n" + b"x,1\n" * 10)
    size, mtime = path.stat().st_size, path.stat().st_mtime_ns
    splits = [Split(str(path), at, at + 15, size, mtime) for at in range(0, size, 15)]
    assert rows(CSV, splits, Layout(header=True)) == [[1, "x"]] * 10


def test_quoted_fields_may_hold_line_ends(tmp_path: Path) -> None:
    data = b'id,s\r\n1,"a\r\nb ""c"""\r\n\r\n2,d'
    assert read(tmp_path, data, CSV, header=True, multi_line=True) == [[1, 'a\r\nb "c"'], [2, "d"]]
    error = refusal(tmp_path, b'1,"a\nb"\n2,"c\nd', CSV, multi_line=True)
    assert error.place.endswith("line 3")
    assert "a quote is not closed" in error.reason


def test_an_escaped_quote_does_not_open_a_field_over_lines(tmp_path: Path) -> None:
    decoder = CsvDecoder(ROWS, Dialect(escape="\\"))
    assert read(tmp_path, b'1,a\\"\n2,b', decoder, multi_line=True) == [[1, 'a"'], [2, "b"]]


def test_a_line_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK", 4)
    monkeypatch.setattr(reading, "LONGEST_LINE", 8)
    assert "a line is longer than 8 bytes" in refusal(tmp_path, b'{"id": 1, "s": "xxxxxxxxx"}').reason


def test_a_file_that_changed_or_went_since_the_batch_was_planned_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b'{"id": 1}\n')
    planned = whole(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(WorkerError, match="changed after the batch was planned"):
        rows(JSON, [planned])
    path.unlink()
    with pytest.raises(WorkerError, match="it is gone"):
        rows(JSON, [planned])


def test_a_file_that_is_a_named_pipe_by_now_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "data"
    os.mkfifo(path)
    with pytest.raises(WorkerError, match="it is not a regular file"):
        rows(JSON, [whole(path)])
    with pytest.raises(WorkerError, match="it is not a regular file"):
        rows(JSON, [whole(path, "gzip")])


def test_what_is_read_whole_is_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST_LINE", 1000)
    reason = refusal(tmp_path, b'[{"id": 1}]' + b" " * 1000, multi_line=True).reason
    assert "it is longer than 1000 bytes" in reason
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 10_000_000 + b"]"))
    with pytest.raises(WorkerError, match="it is longer than 1000 bytes"):
        rows(JSON, [whole(path, "gzip")], Layout(multi_line=True))


def test_a_quote_that_is_never_closed_is_read_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST_LINE", 1000)
    reason = refusal(tmp_path, b'1,a\n2,"' + b"x\n" * 1000, CSV, multi_line=True).reason
    assert reason == "the record in line 2 is longer than 1000 bytes"
