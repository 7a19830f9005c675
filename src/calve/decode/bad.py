"""Records that cannot be taken: what is wrong with them, and how they leave a Python worker.

Rows leave a worker as Arrow batches. What is bad leaves it beside them, in an accumulator of Spark's, with
the raw record and what was wrong. So good rows carry no column for it, nothing is decoded twice, and
transforms see good rows only. Where that would be much, only counts leave this way, and a second pass over
the records gives nothing but the bad ones (`Sieve.only_letters`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from calve import changes
from calve.decode.arrow import Values, arrow_schema, compute
from calve.errors import BadRecord
from calve.schema import Array, Column, Primitive, Schema, Struct

if TYPE_CHECKING:
    from calve.decode.route import Route

DECODE, CAST, KEY, ROUTE = "decode", "cast", "key", "route"

REASONS: dict[str, tuple[str, str]] = {
    "null_value": (DECODE, "the record has no value, and the format needs one"),
    "not_utf8": (DECODE, "the bytes are no UTF-8"),
    "malformed": (DECODE, "the bytes are not what the format says: no JSON, no line of CSV, no envelope"),
    "too_deep": (DECODE, "objects or arrays are inside each other more often than can be read"),
    "unknown_schema": (DECODE, "the schema that the record was written with cannot be had or used"),
    "bad_operation": (DECODE, "the record says an operation that is none"),
    "wrong_type": (CAST, "a value is not one of the declared type"),
    "out_of_range": (CAST, "a value is of the kind, and the declared type cannot hold it exactly"),
    "null": (CAST, "a value is NULL or missing, and the column is NOT NULL"),
    "duplicate": (CAST, "a column, a field of a struct or a key of a map comes twice in the record"),
    "null_key": (KEY, "a column of `key_fields` is NULL"),
    "no_route": (ROUTE, "its values name no table that rows may go to"),
}
"""Every reason code: the stage that it belongs to, and what it says."""

HEADERS = Array(Struct((Column("key", Primitive("string")), Column("value", Primitive("binary")))))

RECORD = Schema(
    (
        Column("letter_id", Primitive("string"), nullable=False),
        Column("position", Primitive("string"), nullable=False),
        Column("event_time", Primitive("timestamp")),
        Column("stage", Primitive("string"), nullable=False),
        Column("reason", Primitive("string"), nullable=False),
        Column("message", Primitive("string"), nullable=False),
        Column("key", Primitive("binary")),
        Column("value", Primitive("binary")),
        Column("headers", HEADERS),
        Column("schema_id", Primitive("int")),
    )
)
"""What is kept of a bad record."""

_LONGEST_MESSAGE = 1_000
_AT_ONCE = 1_000


class Bad(NamedTuple):
    """One of the records of a block that cannot be taken, and why."""

    at: int
    reason: str
    message: str


class Letter(NamedTuple):
    """A bad record with all that is kept of it, in the order of `RECORD`."""

    letter_id: str
    position: str
    event_time: int | None
    stage: str
    reason: str
    message: str
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None
    schema_id: int | None

    @property
    def size(self) -> int:
        held = sum(len(one["value"] or b"") for one in self.headers or ())
        return len(self.key or b"") + len(self.value or b"") + held + len(self.message) + len(self.position)


class Report(NamedTuple):
    """What became of the records of one block: of `records`, those behind `letters` were bad.

    `place` tells the block apart from the others of the batch; `more` bad ones are counted and not carried.
    """

    batch: str
    place: tuple[Any, ...]
    records: int
    letters: list[Letter]
    more: int = 0
    witness: int = 0
    """What is also counted by somebody else: the records of Kafka, the parts of files."""

    @property
    def bad(self) -> int:
        return len(self.letters) + self.more


def raise_first(bad: Sequence[Bad], place: Callable[[int], str]) -> None:
    """Raise BadRecord for the first of the bad records, if there is one."""
    if bad:
        first = min(bad)
        raise BadRecord(place(first.at), first.message)


def others(count: int, bad: Iterable[Bad]) -> Values:
    """The indices of the records that are not bad."""
    flags = [True] * count
    for one in bad:
        flags[one.at] = False
    return compute.indices_nonzero(pa.array(flags, pa.bool_())).cast(pa.int64())


def at_origins(bad: Iterable[Bad], origins: Values) -> list[Bad]:
    """`bad`, whose indices are those of rows, with the indices of the records that the rows come from."""
    return [one._replace(at=origins[one.at].as_py()) for one in bad]


def null_keys(rows: pa.RecordBatch, names: Iterable[str], exempt: Values | None = None) -> list[Bad]:
    """Rows in which a column of the key is NULL; `exempt` tells those that need no key."""
    found: dict[int, Bad] = {}
    for name in names:
        # A column that only a transform makes is looked at by the sink.
        column = rows.column(name) if name in rows.schema.names else None
        if column is not None and column.null_count:
            flags = column.is_null() if exempt is None else compute.and_not(column.is_null(), exempt)
            for index in compute.indices_nonzero(flags).to_pylist():
                why = f"column '{name}': NULL, and it is part of the key"
                found.setdefault(index, Bad(index, "null_key", why))
    return list(found.values())


@dataclass(frozen=True)
class Raw:
    """The raw records of a block, column by column."""

    positions: Callable[[int], Mapping[str, Any]]
    values: Values
    keys: Values | None = None
    headers: Callable[[int], list[dict[str, Any]] | None] = lambda index: None
    times: Callable[[int], int | None] = lambda index: None
    schema_ids: Callable[[int], int | None] = lambda index: None

    def letters(self, bad: Sequence[Bad], salt: str) -> Iterator[Letter]:
        """All that is kept of bad records, in their order."""
        ordered = sorted(bad)
        for begin in range(0, len(ordered), _AT_ONCE):
            some = ordered[begin : begin + _AT_ONCE]
            places = pa.array([one.at for one in some], pa.int64())
            kept = (_items(column, places) for column in (self.keys, self.values))
            for one, *raw in zip(some, *kept, strict=True):
                yield self._letter(one, salt, *raw)

    def _letter(self, bad: Bad, salt: str, key: Any, value: Any) -> Letter:
        position = _json(self.positions(bad.at))
        name = hashlib.sha256(f"{salt}\0{position}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return Letter(
            name,
            position,
            self.times(bad.at),
            REASONS[bad.reason][0],
            bad.reason,
            bad.message[:_LONGEST_MESSAGE].encode("utf-8", "replace").decode(),
            key,
            value,
            self.headers(bad.at),
            self.schema_ids(bad.at),
        )


def _json(position: Mapping[str, Any]) -> str:
    """As text; the name of a file need not be one."""
    text = json.dumps(position, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(position, separators=(",", ":"))
    return text


def _items(column: Values | None, places: Values) -> list[Any]:
    found: list[Any] = [None] * len(places) if column is None else column.take(places).to_pylist()
    return found


@dataclass
class Sieve:
    """Keeps bad records back. Travels to Python workers, each of which has its own.

    `keys` are columns that no row may lack, and `route` names the table of a row where there are several. A
    worker that meets more than `most` bad records gives up. It carries `carried` of them and `bytes`, and
    counts the others. Where it is `bare` it carries nothing but which they are, and why.
    """

    batch: str
    salt: str
    report: Callable[[list[Report]], object]
    keys: tuple[str, ...] = ()
    most: int | None = None
    carried: int = 10_000
    bytes: int = 4 * 2**20
    letters: bool = False
    route: Route | None = None
    bare: bool = False
    _records: int = field(default=0, compare=False)
    _bytes: int = field(default=0, compare=False)
    _bad: int = field(default=0, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are asked of every row."""
        return (*self.keys, *(self.route.fields if self.route else ()))

    def wrong(self, rows: pa.RecordBatch) -> list[Bad]:
        """Rows that were decoded and still cannot be taken: those without a key, or without a table."""
        found = {one.at: one for one in self.route.unrouted(rows)} if self.route else {}
        exempt = None
        if changes.OPERATION in rows.schema.names:
            exempt = compute.equal(rows.column(changes.OPERATION), changes.TRUNCATE)
        return list((found | {one.at: one for one in null_keys(rows, self.keys, exempt)}).values())

    def only_letters(self) -> Sieve:
        """A sieve that gives nothing but the bad records, as rows."""
        return replace(self, letters=True)

    def take(
        self,
        bad: Sequence[Bad],
        raw: Raw,
        place: tuple[Any, ...],
        where: Callable[[int], str],
        witness: int = 0,
    ) -> None:
        """Report a block of records; `where` is for words about the first bad one."""
        self._bad += len(bad)
        if self.most is not None and self._bad > self.most:
            first = min(bad)
            raise BadRecord(where(first.at), f"{first.message}; it is one more than max_count")
        carried = self._carried(bad, raw) if bad and self._fits_more else []
        more = len(bad) - len(carried)
        self.report([Report(self.batch, place, len(raw.values), carried, more, witness)])

    def done(self, place: tuple[Any, ...]) -> None:
        """Report that a part was read to its end."""
        self.report([Report(self.batch, place, 0, [], witness=1)])

    def _carried(self, bad: Sequence[Bad], raw: Raw) -> list[Letter]:
        """The letters of bad records, up to the first that is too much."""
        carried = []
        for letter in raw.letters(bad, self.salt):
            bare = letter._replace(message="", key=None, value=None, headers=None) if self.bare else letter
            self._records += 1
            self._bytes += bare.size
            if not self._fits_more:
                break
            carried.append(bare)
        return carried

    @property
    def _fits_more(self) -> bool:
        return self._records <= self.carried and self._bytes <= self.bytes

    def batch_of(self, bad: Sequence[Bad], raw: Raw) -> pa.RecordBatch:
        """The bad records of a block as rows of `RECORD`."""
        return as_batch(list(raw.letters(bad, self.salt)))


@dataclass
class Catch:
    """What the driver knows of the bad records of one reading: the sieve that finds them, and a count.

    `expected` is what the witnesses of all reports must add up to, counted by somebody else; the source that
    reads sets it.
    """

    sieve: Sieve
    expected: Callable[[], int | None] = lambda: None


def as_batch(letters: Sequence[Letter]) -> pa.RecordBatch:
    """Letters as rows of `RECORD`."""
    schema: Any = arrow_schema(RECORD)
    arrays = [pa.array([one[at] for one in letters], kind.type) for at, kind in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
