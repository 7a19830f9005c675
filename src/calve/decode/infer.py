"""Which columns records have, found out from the records themselves; all of them are looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa

from calve.decode.arrow import Values, compute
from calve.decode.csv import CsvDecoder
from calve.decode.decoder import Decoder, utf8
from calve.decode.division import Mismatch
from calve.decode.json import TEXTUAL, Number, Watch, objects, parsed
from calve.decode.reading import Layout, Split, blocks
from calve.errors import Unfit
from calve.schema import (
    Array,
    Column,
    Decimal,
    Map,
    Primitive,
    Schema,
    Struct,
    Type,
    from_spark_json,
    parts,
    storable,
)

BIGINT, DOUBLE, BOOLEAN, STRING, VOID = map(Primitive, ("bigint", "double", "boolean", "string", "void"))
NOTHING = Struct(())

TYPES = "lane BIGINT, at BIGINT, type STRING"
"""What workers tell: where the records are, and the columns that they have."""

DEEPEST = 100
"""How much may be inside each other in a table that records tell the columns of."""

_FEW = 64
_MIXED = "mixed "
_WHOLE = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_TAKES = {
    "bigint": ("tinyint", "smallint", "int", "bigint", "float", "double"),
    "double": ("float", "double"),
    "boolean": ("boolean",),
    "string": TEXTUAL,
}


class Mixed(Exception):
    """A field of which records have values that no one type can hold; its text says which."""


def merged(one: Type, other: Type) -> Type:
    """The type that holds values of both; where there is none, one that says so."""
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    if {one, other} == {BIGINT, DOUBLE}:
        return DOUBLE
    if isinstance(one, Array) and isinstance(other, Array):
        return Array(merged(one.element, other.element))
    if isinstance(one, Struct) and isinstance(other, Struct):
        return _merged_structs(one, other)
    return Primitive(f"{_MIXED}{' and '.join(dict.fromkeys([*_words(one), *_words(other)]))}")


def _merged_structs(one: Struct, other: Struct) -> Struct:
    columns = {column.name: column for column in one.columns}
    for column in other.columns:
        held = columns.get(column.name)
        columns[column.name] = replace(column, type=merged(held.type, column.type)) if held else column
    return Struct(tuple(columns.values()))


def _words(kind: Type) -> list[str]:
    if isinstance(kind, Primitive):
        return kind.name.removeprefix(_MIXED).split(" and ")
    return [type(kind).__name__.lower()]


def json_type(values: Values) -> Struct:
    """The columns of records that are JSON objects; what is none is left to the decoder."""
    if len(values) and not values.null_count:
        try:
            return Struct(tuple(_from_arrow(objects(values).schema)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, Mismatch):
            pass
    if len(values) > _FEW:
        half = len(values) // 2
        return _merged_structs(json_type(values.slice(0, half)), json_type(values.slice(half)))
    return reduce(_merged_structs, (_of_record(value) for value in values.to_pylist()), NOTHING)


def _of_record(value: bytes | None) -> Struct:
    try:
        found = _of_value(parsed(value or b""))
    except (Mismatch, RecursionError):
        return NOTHING
    assert isinstance(found, Struct)
    return NOTHING if _is_deep(found) else found


def _is_deep(kind: Type, left: int = DEEPEST) -> bool:
    """Whether more is inside each other than a table is given; such a record is bad."""
    return left < 0 or any(_is_deep(one.type, left - 1) for one in parts(kind))


class Fields(Watch):
    """Tells which records have fields that are none of `columns`.

    Where the columns are a guess, such a record, or one whose values they cannot hold, ends the reading. Else
    all records were looked at before, and what they told nothing of is too deep.
    """

    def __init__(self, columns: Schema, is_guess: bool) -> None:
        self.columns = columns
        self.is_guess = is_guess

    def block(self, read: pa.Schema) -> None:
        if _has_more(read, self.columns.columns):
            self._refuse()

    def record(self, found: dict[str, Any]) -> None:
        try:
            kind = _of_value(found)
        except RecursionError:
            raise Mismatch("nested too deeply", "too_deep") from None
        if not self.holds(storable(Schema(parts(kind)))):
            self._refuse()

    def holds(self, found: Schema) -> bool:
        """Whether the columns have all that was found or, where they are sure, at least its names."""
        try:
            told = settled(found, self.columns) if self.is_guess else found
        except Mixed:
            return False
        return _is_within(Struct(told.columns), Struct(self.columns.columns), self.is_guess)

    def _refuse(self) -> None:
        if self.is_guess:
            raise Unfit("Cannot decode records: they have other columns than the table")
        raise Mismatch("nested too deeply", "too_deep")


def _has_more(read: Iterable[Any], columns: Iterable[Column]) -> bool:
    """Whether Arrow read fields that no column is for, and in which there is something."""
    known = {column.name: column.type for column in columns}
    return any(_is_more(field.type, known.get(field.name)) for field in read)


def _is_more(read: Any, known: Type | None) -> bool:
    if known is None:
        return not _is_nothing(read)
    if pa.types.is_struct(read) and isinstance(known, Struct):
        return _has_more(read, known.columns)
    if pa.types.is_list(read) and isinstance(known, Array):
        return _is_more(read.value_type, known.element)
    return False


def _is_nothing(read: Any) -> bool:
    """Whether a type that Arrow found tells that there are NULLs only."""
    while pa.types.is_list(read):
        read = read.value_type
    if pa.types.is_struct(read):
        return all(_is_nothing(field.type) for field in read)
    return bool(pa.types.is_null(read))


def _is_within(found: Type, known: Type, by_type: bool) -> bool:
    """Whether `known` has all that is in `found`, with the same types or at least the same names."""
    if isinstance(found, Struct) and isinstance(known, Struct):
        there = {one.name: one.type for one in known.columns}
        return all(
            one.name in there and _is_within(one.type, there[one.name], by_type) for one in found.columns
        )
    if isinstance(found, Array) and isinstance(known, Array):
        return _is_within(found.element, known.element, by_type)
    return not by_type or found == known


def _of_value(value: Any) -> Type:
    if isinstance(value, dict):
        return Struct(tuple(Column(name, _of_value(inner)) for name, inner in value.items()))
    if isinstance(value, list):
        element: Type = VOID
        for one in value:
            element = merged(element, _of_value(one))
        return Array(element)
    if isinstance(value, Number):
        return BIGINT if value.lstrip("-").isdigit() and -(2**63) <= int(value) < 2**63 else DOUBLE
    kinds: dict[type, Type] = {bool: BOOLEAN, str: STRING}
    return kinds.get(type(value), VOID)


def _from_arrow(fields: Iterable[Any], left: int = DEEPEST) -> Iterator[Column]:
    for field in fields:
        yield Column(field.name, _of_arrow(field.type, left - 1))


def _of_arrow(kind: Any, left: int) -> Type:
    if left < 0:
        raise Mismatch("nested too deeply", "too_deep")
    if pa.types.is_struct(kind):
        return Struct(tuple(_from_arrow(kind, left)))
    if pa.types.is_list(kind):
        return Array(_of_arrow(kind.value_type, left - 1))
    names: dict[Any, Type] = {pa.null(): VOID, pa.int64(): BIGINT, pa.float64(): DOUBLE, pa.bool_(): BOOLEAN}
    # Arrow takes texts that look like times for times.
    return names.get(kind, STRING)


def csv_type(values: Values, decoder: CsvDecoder) -> Struct:
    """The columns of lines of CSV whose fields `decoder` knows the names of."""
    try:
        columns = decoder.texts(values)
    except (pa.ArrowInvalid, Mismatch):
        if len(values) <= 1:
            return NOTHING
        half = len(values) // 2
        return csv_merged(csv_type(values.slice(0, half), decoder), csv_type(values.slice(half), decoder))
    return Struct(tuple(Column(name, _of_texts(array)) for name, array in columns.items()))


def _of_texts(array: Values) -> Type:
    there = array.drop_null()
    if not len(there):
        return VOID
    patterns: dict[str, Type] = {"^(true|false)$": BOOLEAN, _WHOLE: BIGINT, _NUMBER: DOUBLE}
    for pattern, kind in patterns.items():
        if compute.all(compute.match_substring_regex(there, pattern)).as_py():
            return kind
    return STRING


def csv_merged(one: Struct, other: Struct) -> Struct:
    """Both columns; a text takes what no other type does."""
    both = _merged_structs(one, other)
    mixed = {column.name for column in both.columns if column.type.ddl().startswith(_MIXED.upper())}
    return Struct(tuple(replace(one, type=STRING) if one.name in mixed else one for one in both.columns))


def settled(found: Schema, table: Schema | None, texts_take_all: bool = False) -> Schema:
    """`found` with the types of the table as far as they can take what was found; raises Mixed.

    The columns that the table has already were decided by the first batch, or by who made the table.
    """
    there = {column.name: column for column in table.columns} if table else {}
    columns = []
    for column in found.columns:
        known = there.get(column.name)
        kind = _settled(column.type, known.type, texts_take_all) if known else column.type
        _refuse_mixed(column.name, kind)
        columns.append(Column(column.name, kind, known.nullable if known else True))
    return Schema(tuple(columns))


def _settled(found: Type, table: Type, texts_take_all: bool) -> Type:
    if found == VOID or (texts_take_all and table == STRING):
        return table
    if isinstance(found, Struct) and isinstance(table, Struct):
        return Struct(settled(Schema(found.columns), Schema(table.columns), texts_take_all).columns)
    if isinstance(found, Struct) and isinstance(table, Map):
        values = [_settled(column.type, table.value, texts_take_all) for column in found.columns]
        return table if all(value == table.value for value in values) else found
    if isinstance(found, Array) and isinstance(table, Array):
        return replace(table, element=_settled(found.element, table.element, texts_take_all))
    if isinstance(found, Primitive) and isinstance(table, Decimal):
        return table if found in (BIGINT, DOUBLE, STRING) else found
    if isinstance(found, Primitive) and isinstance(table, Primitive):
        return table if table.name in _TAKES.get(found.name, ()) else found
    return found


def _refuse_mixed(path: str, kind: Type) -> None:
    if isinstance(kind, Primitive) and kind.name.startswith(_MIXED):
        words = kind.name.removeprefix(_MIXED).upper()
        raise Mixed(f"field '{path}' is {words} in different records")
    if isinstance(kind, Array):
        _refuse_mixed(f"{path}.element", kind.element)
    if isinstance(kind, Struct):
        for column in kind.columns:
            _refuse_mixed(f"{path}.{column.name}", column.type)


def of_parts(told: Iterable[Any], is_csv: bool = False) -> Schema:
    """The columns of all records, from what workers told of theirs."""
    ordered = sorted(told, key=lambda part: (part.lane, part.at))
    structs = (Struct(from_spark_json(json.loads(part.type)).columns) for part in ordered)
    return Schema(reduce(csv_merged if is_csv else _merged_structs, structs, NOTHING).columns)


def _told(lane: int, at: int, kind: Struct) -> pa.RecordBatch:
    text = json.dumps(Schema(kind.columns).to_spark_json())
    return pa.RecordBatch.from_pylist([{"lane": lane, "at": at, "type": text}])


def file_types(decoder: Decoder, tasks: list[list[Split]], layout: Layout) -> Callable[[Any], Any]:
    """A function for `mapInArrow` over the numbers of tasks: the columns that the files have."""

    def types(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for split in tasks[int(str(task))]:
                    yield _told(split.number, split.start, _of_split(decoder, split, layout))

    return types


def _of_split(decoder: Decoder, split: Split, layout: Layout) -> Struct:
    found = NOTHING
    for reader, block in blocks(decoder, split, layout):
        values = pa.array(block.records, pa.binary())
        if isinstance(reader, CsvDecoder):
            found = csv_merged(found, csv_type(values, reader))
        else:
            found = _merged_structs(found, json_type(values))
    return found


def record_types(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over Kafka records: the columns that they have."""
    for batch in batches:
        if batch.num_rows:
            lane, at = (int(batch.column(name)[0].as_py()) for name in ("partition", "offset"))
            yield _told(lane, at, json_type(batch.column("value").drop_null()))


def letter_types(decoder: Decoder) -> Callable[[Any], Any]:
    """A function for `mapInArrow` over dead letters: the columns that they have."""

    def types(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if isinstance(decoder, CsvDecoder):
                yield _told(0, 0, _of_lines(decoder, batch))
            else:
                yield _told(0, 0, json_type(batch.column("value").drop_null()))

    return types


def _of_lines(decoder: CsvDecoder, letters: pa.RecordBatch) -> Struct:
    """The columns of lines of CSV, each with the header of its file as its key."""
    names = ("key", "value")
    pairs = zip(*(letters.column(name).to_pylist() for name in names), strict=True)
    return reduce(csv_merged, (_of_line(decoder, *pair) for pair in pairs), NOTHING)


def _of_line(decoder: CsvDecoder, header: bytes | None, line: bytes) -> Struct:
    try:
        own = decoder.with_header(utf8(header)) if header else None
    except Mismatch:
        own = None
    return csv_type(pa.array([line], pa.binary()), own) if own else NOTHING
