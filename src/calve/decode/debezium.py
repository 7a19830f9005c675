"""Debezium's envelopes → changes.

`DebeziumDecoder.record` is the definition of what is right; blocks that are uniform are read at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from calve import changes
from calve.decode import envelopes
from calve.decode.arrow import Values, arrow_schema, compute
from calve.decode.bad import Bad, raise_first
from calve.decode.changes import Details, Records, with_changes
from calve.decode.connect import Hints, Part, members, written
from calve.decode.decoder import shown
from calve.decode.division import FEW, LARGE, REFUSED, Division, Doubts, Mismatch, cut, suspect
from calve.decode.envelopes import BINLOG, FILE_BITS, POS_BITS, TIMES
from calve.decode.json import Number, member, named, parsed
from calve.decode.placeholder import is_placeholder
from calve.decode.scalars import FIRST_MICRO, LAST_MICRO, parse_integer
from calve.schema import Schema

OPERATIONS = {**envelopes.OPERATIONS, "t": changes.TRUNCATE}
MESSAGE = "m"


@dataclass(frozen=True)
class Change:
    """One change that a record holds."""

    operation: str
    row: list[Any]
    unknown: list[str] | None = None
    part: int = 0
    sequence: int | None = None
    time: int | None = None


@dataclass(frozen=True)
class Image:
    """A row before or after its change."""

    values: dict[str, Any]
    unknown: tuple[str, ...]

    def key(self, names: tuple[str, ...]) -> tuple[Any, ...] | None:
        """The values of the key; None where one of them is not known."""
        found = tuple(self.values.get(name) for name in names)
        return None if None in found else found


@dataclass(frozen=True)
class _Block:
    """Records that have values, and the index of each among all."""

    keys: Values
    values: Values
    origins: Values

    def part(self, begin: int, end: int) -> _Block:
        some = slice(begin, end)
        return _Block(self.keys[some], self.values[some], self.origins[some])


_Made: TypeAlias = tuple[pa.RecordBatch, Values]
"""Changes, and the record that each comes from."""


class DebeziumDecoder:
    """Makes changes of envelopes in JSON. Travels to Python workers: it holds values only.

    The fields of a key are `key_fields`, or else the fields of the record's key.
    """

    def __init__(self, schema: Schema, hints: Hints, key_fields: tuple[str, ...] | None = None) -> None:
        self.schema = schema
        self.hints = hints
        self.key_fields = key_fields
        self.is_fast = envelopes.is_fast(schema)
        self._division = Division()
        self._loose = Schema(tuple(replace(column, nullable=True) for column in schema.columns))

    def changes(self, keys: Values, values: Values, records: Records) -> tuple[pa.RecordBatch, Values]:
        """The changes of records, and the index of the record that each comes from; raises BadRecord."""
        made, origins, bad = self.sift(keys, values, records)
        raise_first(bad, records.place)
        return made, origins

    def sift(
        self, keys: Values, values: Values, records: Records
    ) -> tuple[pa.RecordBatch, Values, list[Bad]]:
        """The changes of records that are not bad, the record that each comes from, and the bad ones."""
        bad: list[Bad] = []
        there = compute.indices_nonzero(values.is_valid()).cast(pa.int64())
        block = _Block(keys.take(there), values.take(there), there)
        made = list(self._parts(block, records, bad))
        if len(made) == 1:
            return *made[0], bad
        whole = pa.Table.from_batches([batch for batch, _ in made]).combine_chunks().to_batches()
        return whole[0] if whole else made[0][0], pa.concat_arrays([origins for _, origins in made]), bad

    def _parts(self, block: _Block, records: Records, bad: list[Bad]) -> Iterator[_Made]:
        begin, count = 0, len(block.values)
        if not count:
            yield self._slow(block, records, bad)
        while begin < count:
            end = begin + min(LARGE, self._division.begin(count - begin))
            yield from self._made(block.part(begin, end), records, bad)
            self._division.end()
            begin = end

    def _made(self, block: _Block, records: Records, bad: list[Bad]) -> Iterator[_Made]:
        """The fast way for what it accepts; what it does not is divided, down to a few records."""
        count = len(block.values)
        if not self.is_fast or self._division.is_hopeless:
            yield self._slow(block, records, bad)
            return
        try:
            yield self._fast(block, records)
            return
        except (*REFUSED, RecursionError) as error:
            self._division.fail()
            failure = error
        if count <= FEW:
            yield self._slow(block, records, bad)
            return
        first = failure.places[0] if isinstance(failure, Doubts) else suspect(failure, count)
        for begin, end in cut(count, first):
            yield from self._made(block.part(begin, end), records, bad)

    def _fast(self, block: _Block, records: Records) -> tuple[pa.RecordBatch, Values]:
        found = envelopes.block(self.schema, self.hints, self.key_fields, block.keys, block.values)
        there = records.take(block.origins)
        return with_changes(found.rows, found.operations, there, found.details), block.origins

    def _slow(self, block: _Block, records: Records, bad: list[Bad]) -> tuple[pa.RecordBatch, Values]:
        found = list(self._found(block, bad))
        origins = pa.array([index for index, _ in found], pa.int64())
        made = [change for _, change in found]
        operations = pa.array([change.operation for change in made], pa.string())
        there = records.take(origins)
        return with_changes(_rows(made, self._loose), operations, there, _details(made)), origins

    def _found(self, block: _Block, bad: list[Bad]) -> Iterator[tuple[int, Change]]:
        columns = (block.origins, block.keys, block.values)
        for index, key, value in zip(*(column.to_pylist() for column in columns), strict=True):
            try:
                yield from ((index, change) for change in self.record(key, value))
            except Mismatch as error:
                bad.append(Bad(index, error.reason, str(error)))
            except RecursionError:
                bad.append(Bad(index, "too_deep", "nested too deeply"))

    def record(self, key: bytes | None, value: bytes | None) -> list[Change]:
        """The changes of one record: none of a tombstone or message; raises Mismatch or RecursionError."""
        if value is None:
            return []
        payload, part = unwrapped(parsed(value))
        if payload is None:
            return []
        operation = payload.get("op")
        if operation == MESSAGE:
            return []
        if type(operation) is not str or operation not in OPERATIONS:
            raise Mismatch(_no_operation(payload), "bad_operation" if payload.get("op") else "malformed")
        envelope = Envelope(payload, members(part) if part is not None else {})
        log, at = sequence(envelope.source), time(payload, envelope.source)
        made = self._changes(OPERATIONS[operation], envelope, key)
        return [replace(change, sequence=log, time=at) for change in made]

    def _changes(self, operation: str, envelope: Envelope, key: bytes | None) -> list[Change]:
        if operation == changes.TRUNCATE:
            return [Change(operation, [None] * len(self.schema.columns))]
        if operation == changes.DELETE:
            return [self._change(operation, self._deleted(envelope, key))]
        after = self._image(envelope, "after", self.schema)
        if after is None:
            raise Mismatch("there is no 'after'")
        before = self._image(envelope, "before", self._loose) if operation == changes.UPDATE else None
        names = self._key_fields(key) if before is not None else self.key_fields or ()
        _refuse_unknown(after, names)
        old = None if before is None else before.key(names)
        if before is None or old is None or old == after.key(names):
            return [self._change(operation, after)]
        moved = self._change(changes.DELETE, replace(before, unknown=()))
        return [moved, replace(self._change(operation, after), part=1)]

    def _change(self, operation: str, image: Image) -> Change:
        row = [image.values.get(name) for name in self.schema.names]
        return Change(operation, row, list(image.unknown) or None)

    def _deleted(self, envelope: Envelope, key: bytes | None) -> Image:
        """The row that is gone: what is left of it, and at least its key."""
        before = self._image(envelope, "before", self._loose)
        names = self._key_fields(key)
        if before is not None and before.key(names) is not None:
            return replace(before, unknown=())
        found = self._key(key)
        missing = [name for name in names or ("",) if found is None or found.values.get(name) is None]
        if missing:
            why = "a delete whose key is neither in 'before' nor in the key of the record"
            raise Mismatch(why, "null_key")
        assert found is not None
        known = {} if before is None else before.values
        return Image({**known, **{name: found.values[name] for name in names}}, ())

    def _image(self, envelope: Envelope, name: str, schema: Schema) -> Image | None:
        found, part = envelope.row(name)
        return None if found is None else self._read(found, written(schema, part, self.hints))

    def _read(self, found: dict[str, Any], schema: Schema) -> Image:
        values: dict[str, Any] = {}
        unknown = []
        for declared, column in zip(self.schema.columns, schema.columns, strict=True):
            if is_placeholder(found.get(column.name), declared.type):
                values[column.name] = None
                unknown.append(column.name)
            else:
                values[column.name] = member(found, column, "")
        return Image(values, tuple(unknown))

    def _key_fields(self, key: bytes | None) -> tuple[str, ...]:
        if self.key_fields is not None:
            return self.key_fields
        found, _ = _key_object(key)
        for name in found:
            if name not in self.schema.names:
                why = "is not a column of the schema; declare debezium.key_fields"
                raise Mismatch(f"the field {shown(name)} of the record's key {why}")
        return tuple(found)

    def _key(self, key: bytes | None) -> Image | None:
        found, part = _key_object(key)
        if not found:
            return None
        columns = tuple(column for column in self._loose.columns if column.name in found)
        told = written(Schema(columns), part, self.hints)
        return Image({column.name: member(found, column, "") for column in told.columns}, ())


def _refuse_unknown(image: Image, names: tuple[str, ...]) -> None:
    for name in names:
        if name in image.unknown:
            raise Mismatch(f"column '{name}': its value was not sent, and it is part of the key", "null_key")


@dataclass(frozen=True)
class Envelope:
    """What a record says of one change, and the schema parts of it."""

    payload: dict[str, Any]
    parts: dict[str, Part]

    @property
    def source(self) -> dict[str, Any]:
        found = self.payload.get("source")
        if type(found) is dict:
            return found
        if found is None:
            return {}
        raise Mismatch(f"'source' is {named(found)}, not an object")

    def row(self, name: str) -> tuple[dict[str, Any] | None, Part | None]:
        """The object called `name`, and the schema part of it."""
        found = self.payload.get(name)
        if found is not None and type(found) is not dict:
            raise Mismatch(f"'{name}' is {named(found)}, not an object")
        return found, self.parts.get(name)


def unwrapped(found: dict[str, Any]) -> tuple[dict[str, Any] | None, Part | None]:
    """What a record says, and the schema part of it, if it has one."""
    is_wrapped = found.keys() == {"schema", "payload"} and all(
        one is None or type(one) is dict for one in found.values()
    )
    return (found["payload"], found["schema"]) if is_wrapped else (found, None)


def _no_operation(payload: dict[str, Any]) -> str:
    found = payload.get("op")
    if found is not None:
        return f"{shown(str(found))} is no operation of Debezium"
    return "no envelope of Debezium: it has no 'op'; for rows without it use format json and 'operation'"


def _key_object(key: bytes | None) -> tuple[dict[str, Any], Part | None]:
    if key is None:
        return {}, None
    try:
        found, part = unwrapped(parsed(key))
    except Mismatch as error:
        raise Mismatch(f"the key of the record: {error}") from None
    return found or {}, part


def sequence(source: dict[str, Any]) -> int | None:
    """Where the change is in the log of its database; None where the log does not say."""
    if "lsn" in source:
        return _number(source, "lsn")
    if "file" in source and "pos" in source:
        return _binlog(source.get("file"), _number(source, "pos"))
    return _number(source, "ts_ms")


def _binlog(file: Any, pos: int | None) -> int | None:
    found = BINLOG.fullmatch(file) if type(file) is str else None
    if found is None or pos is None:
        return None
    number = int(found[1])
    if number >= 1 << FILE_BITS or not 0 <= pos < 1 << POS_BITS:
        raise Mismatch(f"position {pos} of binlog {shown(file)} is out of range")
    return number << POS_BITS | pos


def time(payload: dict[str, Any], source: dict[str, Any]) -> int | None:
    """When the change was made, or else when it was read, in microseconds since 1970."""
    for told in (source, payload):
        for name, times, per in TIMES:
            number = _number(told, name)
            if number is not None:
                return _in_calendar(number * times // per, name)
    return None


def _in_calendar(micros: int, name: str) -> int:
    if not FIRST_MICRO <= micros <= LAST_MICRO:
        raise Mismatch(f"'{name}' is out of range")
    return micros


def _number(found: dict[str, Any], name: str) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    try:
        return parse_integer(value if type(value) is Number else "", "bigint")
    except ValueError as error:
        raise Mismatch(f"'{name}' is {shown(str(value))}: {error}") from None


def _rows(found: list[Change], schema: Schema) -> pa.RecordBatch:
    fields: Any = arrow_schema(schema)
    arrays = [pa.array([one.row[at] for one in found], kind.type) for at, kind in enumerate(fields)]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)


def _details(found: list[Change]) -> Details:
    types: Any = arrow_schema(changes.COLUMNS)
    return Details(
        pa.array([change.sequence for change in found], pa.int64()),
        pa.array([change.part for change in found], pa.int32()),
        pa.array([change.time for change in found], types.field(changes.TIME).type),
        pa.array([change.unknown for change in found], types.field(changes.UNKNOWN).type),
    )
