"""The rows of the workloads: what a row holds follows from the seed, its id and its version alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq

SEED = 20_260_101
BLOCK = 100_000
_START = np.datetime64("2026-01-01T00:00:00.000", "ms").astype("int64")
_DAY = 86_400_000
_STATES = np.array(["new", "paid", "shipped", "returned", "lost"], dtype=object)
_CITIES = np.array(["Oslo", "Graz", "Lyon", "Bari", "Cork", "Porto"], dtype=object)
_UTC = pa.timestamp("ms", "UTC")
_ADDRESS = pa.struct([("street", pa.string()), ("city", pa.string()), ("zip", pa.int32())])
_ITEM = pa.struct([("sku", pa.string()), ("quantity", pa.int32()), ("price", pa.float64())])


def mixed(values: np.ndarray, salt: int) -> np.ndarray:
    """A number without pattern for each value, the same every time."""
    with np.errstate(over="ignore"):
        mix = values.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
        mix = (mix ^ (mix >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mix = (mix ^ (mix >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mix ^ (mix >> np.uint64(31))


@dataclass(frozen=True)
class Shape:
    """A kind of rows: orders, over some days, with more columns or a heavy one where it is asked for."""

    name: str = "orders"
    days: int = 30
    wide: int = 0
    """How many columns of numbers and how many of text come on top; with some, also a struct and a list."""
    payload: int = 0
    """The bytes of a column of text that hardly shrinks."""
    seed: int = SEED

    @property
    def columns(self) -> dict[str, str]:
        """The columns and their types, in the words of Spark's DDL."""
        found = {
            "id": "BIGINT",
            "customer": "STRING",
            "status": "STRING",
            "amount": "DECIMAL(12,2)",
            "ordered_at": "TIMESTAMP",
            "note": "STRING",
        }
        found |= {f"n{place:02}": "BIGINT" for place in range(self.wide)}
        found |= {f"t{place:02}": "STRING" for place in range(self.wide)}
        if self.wide:
            found["address"] = "STRUCT<street: STRING, city: STRING, zip: INT>"
            found["items"] = "ARRAY<STRUCT<sku: STRING, quantity: INT, price: DOUBLE>>"
        return found

    @property
    def ddl(self) -> str:
        """The columns as DDL."""
        required = {"id": " NOT NULL"}
        return ", ".join(f"{name} {kind}{required.get(name, '')}" for name, kind in self.columns.items())

    def rows(self, ids: np.ndarray, versions: np.ndarray | int = 0) -> pa.Table:
        """The rows with `ids`, in the version that each has."""
        salts = [mixed(ids, self.seed + place) for place in range(4)]
        cents = (salts[2] % np.uint64(500_000)).astype(np.int64) + np.asarray(versions, dtype=np.int64)
        moments = _START + (salts[3] % np.uint64(self.days * _DAY)).astype(np.int64)
        arrays: dict[str, Any] = {
            "id": pa.array(ids.astype(np.int64)),
            "customer": _numbered("customer-", salts[0] % np.uint64(50_000)),
            "status": pa.array(_STATES[(salts[1] % np.uint64(5)).astype(np.int64)], pa.string()),
            "amount": _decimals(cents),
            "ordered_at": pa.array(moments, pa.int64()).cast(pa.timestamp("ms")).cast(_UTC),
            "note": self._notes(ids),
        }
        return pa.table({**arrays, **self._more(ids)})

    def _notes(self, ids: np.ndarray) -> pa.Array:
        """Hexadecimal digits: 8, or as many as the payload has."""
        digits = self.payload or 8
        words = np.stack([mixed(ids, self.seed + 100 + place) for place in range(-(-digits // 16))], axis=1)
        text = words.astype(">u8").tobytes().hex()
        width = words.shape[1] * 16
        return pa.array([text[at : at + digits] for at in range(0, len(text), width)], pa.string())

    def _more(self, ids: np.ndarray) -> dict[str, pa.Array]:
        if not self.wide:
            return {}
        found: dict[str, pa.Array] = {}
        for place in range(self.wide):
            found[f"n{place:02}"] = pa.array((mixed(ids, 1000 + place) >> np.uint64(20)).astype(np.int64))
        for place in range(self.wide):
            found[f"t{place:02}"] = _numbered("word-", mixed(ids, 2000 + place) % np.uint64(10_000))
        return {**found, "address": _addresses(ids), "items": _items(ids)}

    def blocks(self, first: int, count: int, version: int = 0) -> Iterator[pa.Table]:
        """The rows from `first` on, in tables of at most `BLOCK` rows."""
        for begin in range(first, first + count, BLOCK):
            yield self.rows(np.arange(begin, min(begin + BLOCK, first + count)), version)


def _numbered(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pa.compute.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def _decimals(cents: np.ndarray) -> pa.Array:
    """Whole cents as DECIMAL(12,2), by their bits: Arrow has no faster way to shift the point."""
    wide = np.empty((len(cents), 2), dtype=np.int64)
    wide[:, 0], wide[:, 1] = cents, cents >> 63
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(wide.tobytes())])


def _addresses(ids: np.ndarray) -> pa.Array:
    chosen = mixed(ids, 3000)
    parts = [
        _numbered("Street ", chosen % np.uint64(900)),
        pa.array(_CITIES[(chosen % np.uint64(6)).astype(np.int64)], pa.string()),
        pa.array((chosen % np.uint64(90_000)).astype(np.int32)),
    ]
    return pa.StructArray.from_arrays(parts, fields=list(_ADDRESS))


def _items(ids: np.ndarray) -> pa.Array:
    counts = (mixed(ids, 3001) % np.uint64(4)).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    which = mixed(np.arange(ends[-1]) + (int(ids[0]) if len(ids) else 0), 3002)
    parts = [
        _numbered("sku-", which % np.uint64(5000)),
        pa.array((which % np.uint64(9)).astype(np.int32)),
        pa.array((which % np.uint64(10_000)).astype(np.float64) / 4),
    ]
    return pa.ListArray.from_arrays(pa.array(ends), pa.StructArray.from_arrays(parts, fields=list(_ITEM)))


@dataclass
class Expected:
    """What a right table holds."""

    rows: int = 0
    distinct: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    """Of `id`, of `amount` in cents, of `ordered_at` in ms, and of the lengths of `customer`."""

    @classmethod
    def of(cls, tables: Iterable[pa.Table]) -> Expected:
        """Count rows whose ids differ."""
        found = cls(sums=dict.fromkeys(("id", "amount", "ordered_at", "customer"), 0))
        for table in tables:
            found.rows += table.num_rows
            for name, total in sums(table).items():
                found.sums[name] += total
        found.distinct = found.rows
        return found


def sums(table: pa.Table) -> dict[str, int]:
    """The sums of a table of generated rows."""
    compute: Any = pa.compute
    cents = compute.multiply(table["amount"], pa.scalar(100, pa.decimal128(5, 0)))
    return {
        "id": _total(table["id"]),
        "amount": int(compute.sum(cents).as_py() or 0),
        "ordered_at": _total(table["ordered_at"].cast(pa.int64())),
        "customer": _total(compute.utf8_length(table["customer"])),
    }


def _total(column: pa.ChunkedArray) -> int:
    return int(pa.compute.sum(column).as_py() or 0)


@dataclass(frozen=True)
class Upserts:
    """A table and batches of changes to it: half of each replaces rows all over the table, half is new."""

    shape: Shape
    base: int
    size: int
    count: int

    def ids(self, number: int) -> np.ndarray:
        """The ids of a batch; they differ."""
        half = self.size // 2
        step = max(self.base // half, 1)
        old = np.arange(half) * step + number % step
        first = self.base + number * half
        return np.concatenate([old % self.base, np.arange(first, first + half)])

    def batch(self, number: int) -> pa.Table:
        """The rows of a batch, in the order in which they come."""
        return self.shape.rows(self.ids(number), number + 1)

    def expected(self) -> Expected:
        """What is there after all batches."""
        versions = np.zeros(self.base + self.count * (self.size // 2), dtype=np.int64)
        for number in range(self.count):
            versions[self.ids(number)] = number + 1
        starts = range(0, len(versions), BLOCK)
        ids = (np.arange(begin, min(begin + BLOCK, len(versions))) for begin in starts)
        return Expected.of(self.shape.rows(some, versions[some]) for some in ids)


def as_text(table: pa.Table) -> pa.Table:
    """The same rows with moments as ISO text, which every peer reads."""
    place = table.schema.get_field_index("ordered_at")
    moments = table["ordered_at"].cast(pa.int64()).to_numpy().astype("datetime64[ms]")
    texts = np.char.add(np.datetime_as_string(moments, unit="ms"), "Z")
    return table.set_column(place, "ordered_at", pa.array(texts.tolist(), pa.string()))


def json_lines(table: pa.Table, bad_every: int = 0, first: int = 0) -> list[bytes]:
    """A JSON object for each row; every `bad_every`th is one whose id is no number."""
    texts = {name: _as_json(column) for name, column in zip(table.column_names, as_text(table), strict=True)}
    if bad_every:
        texts["id"] = pa.compute.if_else(
            pa.array(_is_bad(table, bad_every, first)), pa.scalar('"not a number"'), texts["id"]
        )
    parts: list[Any] = []
    for number, (name, column) in enumerate(texts.items()):
        parts += [f'{"," if number else "{"}"{name}":', column]
    return pa.compute.binary_join_element_wise(*parts, "}", "").cast(pa.binary()).to_pylist()


def _as_json(column: pa.ChunkedArray) -> pa.Array:
    """Values as JSON; text that is generated has nothing to escape."""
    if pa.types.is_nested(column.type):
        return pa.array([json.dumps(value, separators=(",", ":")) for value in column.to_pylist()])
    plain = column.combine_chunks().cast(pa.string())
    if pa.types.is_string(column.type):
        return pa.compute.binary_join_element_wise('"', plain, '"', "")
    return plain


def _is_bad(table: pa.Table, bad_every: int, first: int) -> np.ndarray:
    return np.arange(first, first + table.num_rows) % bad_every == bad_every // 2


def good_of(table: pa.Table, bad_every: int, first: int = 0) -> pa.Table:
    """The rows that `json_lines` does not break."""
    if not bad_every:
        return table
    return table.filter(pa.array(~_is_bad(table, bad_every, first)))


def write_parquet(tables: Iterable[pa.Table], file: Path) -> Path:
    """One Parquet file; moments in microseconds, which every engine reads."""
    file.parent.mkdir(parents=True, exist_ok=True)
    writer = None
    for table in tables:
        place = table.schema.get_field_index("ordered_at")
        exact = table.set_column(place, "ordered_at", table["ordered_at"].cast(pa.timestamp("us", "UTC")))
        writer = writer or pq.ParquetWriter(file, exact.schema, compression="snappy")
        writer.write_table(exact)
    if writer is not None:
        writer.close()
    return file


def write_csv(tables: Iterable[pa.Table], file: Path) -> Path:
    """One CSV file with a header."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        for number, table in enumerate(tables):
            plain = pyarrow.csv.WriteOptions(include_header=number == 0, quoting_style="needed")
            pyarrow.csv.write_csv(as_text(table), out, plain)
    return file


def produce(broker: Any, topic: str, lines: Sequence[bytes], partitions: int) -> None:
    """Spread lines over the partitions of a topic, each in its order."""
    for partition in range(partitions):
        broker.produce(topic, lines[partition::partitions], partition=partition)


def trickle(
    producer: Any, topic: str, shape: Shape, rows_per_second: int, seconds: float, first: int = 0
) -> list[float]:
    """Produce rows evenly, ten times a second; the moments at which the broker had each of them."""
    produced: list[float] = []
    begun = time.time()
    chunk = max(rows_per_second // 10, 1)
    for number in range(int(seconds * 10)):
        time.sleep(max(begun + number / 10 - time.time(), 0))
        table = shape.rows(np.arange(first + len(produced), first + len(produced) + chunk))
        sent = time.time()
        for line in json_lines(table):
            producer.produce(topic, line, partition=0)
        assert producer.flush(30) == 0, "the broker did not take every record"
        produced += [sent] * chunk
    return produced
