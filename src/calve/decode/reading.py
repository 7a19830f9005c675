"""Files → records, in a Python worker: blocks of lines with bounded memory, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import IO, Any, cast

import pyarrow as pa

from calve.decode.bad import Bad, Raw, Sieve, raise_first
from calve.decode.changes import Records, RowChanges
from calve.decode.csv import CsvDecoder
from calve.decode.decoder import Decoder, utf8
from calve.decode.dialect import Dialect
from calve.decode.division import Mismatch
from calve.decode.rows import checked, sifted
from calve.decode.worker import settle
from calve.errors import BadRecord, CalveError
from calve.gateway import WorkerError

BLOCK = 4 * 1024 * 1024
LONGEST_LINE = 256 * 1024 * 1024
_RECORDS = 20_000
_SPACE = re.compile(r"[ \t\r\n]*")
_SCANNER = json.JSONDecoder(parse_float=str, parse_int=str)
_MARK = b"\xef\xbb\xbf"
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowInvalid)


@dataclass(frozen=True)
class Split:
    """A part of file `number` of a batch: the lines that begin from `start` up to, not including, `end`."""

    path: str
    start: int
    end: int
    size: int
    mtime: int
    compression: str | None = None
    number: int = 0


@dataclass(frozen=True)
class Layout:
    """How records lie in files."""

    header: bool = False
    multi_line: bool = False


@dataclass(frozen=True)
class Block:
    """Some records of a file, and the line that each begins at, counted from 0 behind `before` bytes.

    `first` is the number of the first record in the file, where several may begin in one line.
    """

    records: list[bytes]
    lines: list[int]
    before: int
    first: int | None = None
    header: str | None = None

    def ats(self) -> list[int]:
        """How far in the file each record is: more lines than bytes no file has, so both can be added."""
        if self.first is not None:
            return list(range(self.first, self.first + len(self.records)))
        return [self.before + line for line in self.lines]


def file_rows(
    decoder: Decoder,
    tasks: list[list[Split]],
    layout: Layout,
    changes: RowChanges | None = None,
    sieve: Sieve | None = None,
) -> Callable[[Any], Any]:
    """A function for `mapInArrow` over the numbers of tasks. Without a `sieve` a bad record is an error."""
    return over_tasks(tasks, lambda split: _rows(decoder, split, layout, changes, sieve))


def over_tasks(
    tasks: list[list[Split]], read: Callable[[Split], Iterator[pa.RecordBatch]]
) -> Callable[[Any], Any]:
    """A function for `mapInArrow` over the numbers of tasks: what `read` gives of the splits of each."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for split in tasks[int(str(task))]:
                    try:
                        yield from read(split)
                    except CalveError as error:
                        raise WorkerError(error) from None

    return rows


def _rows(
    decoder: Decoder, split: Split, layout: Layout, changes: RowChanges | None, sieve: Sieve | None
) -> Iterator[pa.RecordBatch]:
    refuse_change(split)
    try:
        decoder, header = _headed(decoder, split, layout)
        for block in _blocks(decoder, split, layout):
            if block.records:
                yield _sifted(decoder, split, replace(block, header=header), changes, sieve)
        if sieve is not None and not sieve.letters:
            sieve.done((split.path, split.start))
    except json.JSONDecodeError as error:
        place = f"file '{split.path}' line {error.lineno}"
        raise BadRecord(place, f"not valid JSON: {error.msg}, column {error.colno}") from None
    except Mismatch as error:
        raise BadRecord(f"file '{split.path}'", str(error)) from None
    except RecursionError:
        raise BadRecord(f"file '{split.path}'", "nested too deeply") from None
    except _DAMAGED as error:
        raise BadRecord(f"file '{split.path}'", f"it is damaged or cut off: {error}") from None


def _sifted(
    decoder: Decoder, split: Split, block: Block, changes: RowChanges | None, sieve: Sieve | None
) -> pa.RecordBatch:
    values, place = pa.array(block.records, pa.binary()), _place(split, block)
    made = sifted(decoder, values, lambda: _records(split, block), changes)
    if sieve is None:
        raise_first(made.bad, place)
        return made.rows
    made = checked(made, len(values), sieve)
    if sieve.letters:
        return sieve.batch_of(made.bad, _raw(split, block, values))
    begin = (split.path, block.before, block.first, block.lines[0])
    sieve.take(made.bad, _raw(split, block, values), begin, place)
    return made.rows


def letter_rows(decoder: Decoder, changes: RowChanges | None, sieve: Sieve) -> Callable[[Any], Any]:
    """A function for `mapInArrow` over dead letters that were lines of files."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for begin in range(len(batch)):
                yield _again(decoder, batch.slice(begin, 1), changes, sieve)

    return rows


def _again(
    decoder: Decoder, letter: pa.RecordBatch, changes: RowChanges | None, sieve: Sieve
) -> pa.RecordBatch:
    """The rows of one letter; the key of a line of CSV is the header of its file."""
    told = {name: letter.column(name)[0].as_py() for name in ("position", "key")}
    values: Any = letter.column("value")
    place = json.loads(told["position"])
    at = place.get("from", 0) + place.get("record", place.get("line"))
    records = Records(pa.array([0], pa.int64()), pa.array([at], pa.int64()), str)
    wrong: list[Bad] = []
    try:
        headed = told["key"] is not None and isinstance(decoder, CsvDecoder)
        own = cast(CsvDecoder, decoder).with_header(utf8(told["key"])) if headed else decoder
    except Mismatch as error:
        own, values, wrong = decoder, values.slice(0, 0), [Bad(0, error.reason, str(error))]
        records = records.take(pa.array([], pa.int64()))
    made = checked(sifted(own, values, lambda: records, changes), len(values), sieve)
    raw = Raw(lambda index: place, letter.column("value"), letter.column("key"))
    sieve.take([*made.bad, *wrong], raw, (told["position"],), str, witness=1)
    return made.rows


def _raw(split: Split, block: Block, values: Any) -> Raw:
    """The records as they are in the file; lines are counted from the byte `from`, or else from the first."""

    def position(index: int) -> dict[str, Any]:
        if block.first is not None:
            return {"file": split.path, "record": block.first + index + 1}
        begin = {"from": block.before} if block.before else {}
        return {"file": split.path, **begin, "line": block.lines[index] + 1}

    header = block.header
    keys = None if header is None else pa.repeat(pa.scalar(header.encode(), pa.binary()), len(values))
    return Raw(position, values, keys, times=lambda index: split.mtime // 1000)


def blocks(decoder: Decoder, split: Split, layout: Layout) -> Iterator[tuple[Decoder, Block]]:
    """The records of a file and the decoder that fits them, up to what cannot be read."""
    try:
        decoder, _ = _headed(decoder, split, layout)
        for block in _blocks(decoder, split, layout):
            if block.records:
                yield decoder, block
    except (json.JSONDecodeError, Mismatch, RecursionError, *_DAMAGED):
        return


def refuse_change(split: Split) -> None:
    """Raise BadRecord where the file is not as it was when the batch was planned."""
    try:
        now = os.stat(split.path)
    except OSError as error:
        raise BadRecord(f"file '{split.path}'", f"it is gone: {error.strerror}") from None
    if (now.st_size, now.st_mtime_ns) != (split.size, split.mtime):
        raise BadRecord(f"file '{split.path}'", "it was changed after the batch was planned")


def _records(split: Split, block: Block) -> Records:
    lanes = pa.array([split.number] * len(block.records), pa.int64())
    return Records(lanes, pa.array(block.ats(), pa.int64()), _place(split, block))


def _place(split: Split, block: Block) -> Callable[[int], str]:
    def place(index: int) -> str:
        line = _lines_before(split, block.before) + block.lines[index] + 1
        return f"file '{split.path}' line {line}"

    return place


def _lines_before(split: Split, count: int) -> int:
    """How many lines end in the first `count` bytes; only asked when something is wrong."""
    lines = 0
    with _opened(split) as file:
        while count > 0 and (data := file.read(min(BLOCK, count))):
            lines += data.count(b"\n")
            count -= len(data)
    return lines


def _blocks(decoder: Decoder, split: Split, layout: Layout) -> Iterator[Block]:
    with _opened(split) as file:
        if layout.multi_line and isinstance(decoder, CsvDecoder):
            yield from _quoted_lines(file, decoder.dialect, layout.header)
        elif layout.multi_line:
            yield from _documents(_whole(file))
        else:
            yield from _lines(file, split, layout, decoder.skips_blank)


def _whole(file: IO[bytes]) -> bytes:
    """All bytes of a file that cannot be read in parts; a small file may be compressed from a huge one."""
    data = file.read(LONGEST_LINE + 1)
    if len(data) > LONGEST_LINE:
        raise Mismatch(f"it is longer than {LONGEST_LINE} bytes, which is too long for multi_line JSON")
    return data


def _opened(split: Split) -> IO[bytes]:
    """The bytes of the file, without compression."""
    file = _regular(split.path)
    if split.compression is None:
        return file
    file.close()
    if split.compression == "gzip":
        return cast(IO[bytes], gzip.open(split.path))
    if split.compression == "bzip2":
        return bz2.open(split.path)
    if split.compression == "xz":
        return lzma.open(split.path)
    kind: Any = split.compression
    return io.BufferedReader(_Arrow(pa.input_stream(split.path, compression=kind)))


def _regular(path: str) -> IO[bytes]:
    """The file at `path`; raises BadRecord for a pipe, a device or a socket, and waits for none of them."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb")
    os.close(number)
    raise BadRecord(f"file '{path}'", "it is not a regular file")


class _Arrow(io.RawIOBase):
    """A stream of Arrow as one of Python."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _chunks(file: IO[bytes], start: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    """Whole lines that begin from `start` up to `end`, about a block at once, each with where it begins."""
    at = start
    if start:
        file.seek(start - 1)
        at = start - 1 + len(_line(file))
    while end is None or at < end:
        data = file.read(BLOCK if end is None else min(BLOCK, end - at))
        if not data:
            return
        if not data.endswith(b"\n"):
            data += _line(file)
        yield at, data
        at += len(data)


def _line(file: IO[bytes]) -> bytes:
    line = file.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE:
        raise Mismatch(f"a line is longer than {LONGEST_LINE} bytes")
    return line


def _lines(file: IO[bytes], split: Split, layout: Layout, skips_blank: bool) -> Iterator[Block]:
    for at, data in _chunks(file, split.start, None if split.compression else split.end):
        lines = _split(data, at)
        numbers = [
            number
            for number, line in enumerate(lines)
            if not (layout.header and at == number == 0) and not (skips_blank and not line.strip())
        ]
        yield Block([lines[number] for number in numbers], numbers, at)


def _split(data: bytes, at: int) -> list[bytes]:
    lines = (data.removeprefix(_MARK) if at == 0 else data).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines] if b"\r" in data else lines


def _quoted_lines(file: IO[bytes], dialect: Dialect, header: bool) -> Iterator[Block]:
    """Lines of CSV, where a line end between quotes does not end a record."""
    records: list[bytes] = []
    lines: list[int] = []
    for line, record in _quoted(file, dialect):
        if record.strip() and not (header and line == 0):
            records.append(record)
            lines.append(line)
        if len(records) == _RECORDS:
            yield Block(records, lines, 0)
            records, lines = [], []
    yield Block(records, lines, 0)


def _quoted(file: IO[bytes], dialect: Dialect) -> Iterator[tuple[int, bytes]]:
    """Each record, and the line that it begins at."""
    parts: list[bytes] = []
    begin, size, is_open = 0, 0, False
    for number, line in enumerate(iter(lambda: _line(file), b"")):
        if not is_open:
            begin, size, parts = number, 0, []
        parts.append(line)
        size += len(line)
        if size > LONGEST_LINE:
            raise Mismatch(f"the record in line {begin + 1} is longer than {LONGEST_LINE} bytes")
        is_open ^= _quotes(line, dialect) % 2 == 1
        if not is_open:
            yield begin, b"".join(parts).removeprefix(_MARK if begin == 0 else b"").rstrip(b"\r\n")
    if is_open:
        yield begin, b"".join(parts)


def _quotes(line: bytes, dialect: Dialect) -> int:
    if dialect.quote is None:
        return 0
    if dialect.escape is not None:
        line = re.sub(re.escape(dialect.escape.encode()) + b".", b"", line, flags=re.S)
    return line.count(dialect.quote.encode())


def _documents(data: bytes) -> Iterator[Block]:
    """The objects of a file that holds one, several one behind the other, or an array of them."""
    text, at, line, first = utf8(data.removeprefix(_MARK)), 0, 0, 0
    records: list[bytes] = []
    lines: list[int] = []
    for begin, end in _objects(text):
        line += text.count("\n", at, begin)
        at = begin
        records.append(text[begin:end].encode("utf-8", "surrogatepass"))
        lines.append(line)
        if len(records) == _RECORDS:
            yield Block(records, lines, 0, first)
            first += len(records)
            records, lines = [], []
    yield Block(records, lines, 0, first)


def _objects(text: str) -> Iterator[tuple[int, int]]:
    """Where each value of the file begins and ends."""
    at = _after_space(text, 0)
    is_array = text.startswith("[", at)
    at = _after_space(text, at + 1) if is_array else at
    while at < len(text) and not (is_array and text[at] == "]"):
        _, end = _SCANNER.raw_decode(text, at)
        yield at, end
        at = _after_space(text, end)
        if is_array and not text.startswith("]", at):
            if not text.startswith(",", at):
                raise json.JSONDecodeError("Expecting ',' or ']'", text, at)
            at = _after_space(text, at + 1)
    if is_array:
        end = _after_space(text, at + 1)
        if at == len(text) or end < len(text):
            why = "Expecting the end of the array and of the file"
            raise json.JSONDecodeError(why, text, min(end, len(text)))


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _headed(decoder: Decoder, split: Split, layout: Layout) -> tuple[Decoder, str | None]:
    """The decoder for a file, and the first line of it where that names the fields."""
    if not layout.header or not isinstance(decoder, CsvDecoder):
        return decoder, None
    header = _header(split)
    return (decoder.with_header(header) if header else decoder), header


def _header(split: Split) -> str:
    with _opened(split) as file:
        return utf8(_line(file).removeprefix(_MARK)).rstrip("\r\n")
