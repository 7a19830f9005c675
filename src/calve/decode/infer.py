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
from calve.decode.decoder import Decoder, all_true, shown, utf8
from calve.decode.division import Mismatch
from calve.decode.json import TEXTUAL, Number, Watch, objects, one, parsed
from calve.decode.reading import Layout, Split, blocks
from calve.decode.scalars import EXACT, is_rounded
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

LARGE = Decimal(19, 0)
"""Stands for BIGINT where a value is beyond 2^53, so that a DOUBLE may not hold it exactly."""

HUGE = Decimal(38, 0)
"""Whole numbers beyond 64 bits."""

TYPES = "lane BIGINT, at BIGINT, type STRING"
"""What workers tell: where the records are, and the columns that they have."""

DEEPEST = 100
"""How much may be inside each other in a table that records tell the columns of."""

_FEW = 64
_MIXED = "mixed "
_WHOLE = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_WHOLES: tuple[Type, ...] = (BIGINT, LARGE, HUGE)
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
    if one in _WHOLES and other in _WHOLES:
        return max(one, other, key=_WHOLES.index)
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
    if kind == LARGE:
        return ["bigint beyond 2^53"]
    return [type(kind).__name__.lower()]


def json_type(values: Values) -> Struct:
    """The columns of records that are JSON objects; what is none is left to the decoder."""
    if len(values) and not values.null_count:
        try:
            return _of_table(objects(values))
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

    Where the columns are a guess, such a record ends the reading, and so does one whose values would go to
    another column. Else all records were looked at before, and what they told nothing of is too deep.

    A column is DOUBLE because the first records had fractions in it: a whole number that it rounds is bad.
    """

    def __init__(self, columns: Schema, is_guess: bool, redirects: bool = False) -> None:
        self.columns = columns
        self.is_guess = is_guess
        self.redirects = redirects

    def block(self, read: pa.Table) -> None:
        if _has_more(read.schema, self.columns.columns):
            self._refuse()
        for at, column in enumerate(self.columns.columns):
            _suspect_rounded(one(read.column(at)), column.type)

    def record(self, found: dict[str, Any]) -> None:
        try:
            kind = _of_value(found)
        except RecursionError:
            raise Mismatch("nested too deeply", "too_deep") from None
        if not self.holds(storable(Schema(parts(kind)))):
            self._refuse()
        _refuse_rounded(found, self.columns.columns, "")

    def holds(self, found: Schema) -> bool:
        """Whether the columns have all that was found or, where they are sure, at least its names."""
        try:
            told = settled(found, self.columns, redirects=self.redirects) if self.is_guess else found
        except Mixed:
            return False
        return _is_within(Struct(told.columns), Struct(self.columns.columns), self.is_guess)

    def _refuse(self) -> None:
        if self.is_guess:
            raise Unfit("Cannot decode records: they have other columns than the table")
        raise Mismatch("nested too deeply", "too_deep")


def _suspect_rounded(array: Values, kind: Type) -> None:
    """Raise Doubts or Mismatch where a number may be a whole one that its column does not hold exactly."""
    if isinstance(kind, Struct):
        for at, column in enumerate(kind.columns):
            _suspect_rounded(array.field(at), column.type)
    elif isinstance(kind, Array):
        _suspect_rounded(array.flatten(), kind.element)
    elif isinstance(kind, Primitive) and kind.name in EXACT and _is_beyond(array, EXACT[kind.name] - 1):
        raise Mismatch("a number that may be a whole one", "out_of_range")


def _refuse_rounded(found: Any, columns: Iterable[Column], path: str) -> None:
    for column in columns:
        _refuse_rounded_value(found.get(column.name), column.type, path + column.name)


def _refuse_rounded_value(value: Any, kind: Type, path: str) -> None:
    if isinstance(kind, Struct) and isinstance(value, dict):
        _refuse_rounded(value, kind.columns, f"{path}.")
    elif isinstance(kind, Array) and isinstance(value, list):
        for element in value:
            _refuse_rounded_value(element, kind.element, f"{path}[]")
    elif isinstance(value, Number) and is_rounded(value, kind):
        why = f"column '{path}': {shown(str(value))} is a whole number that a {kind.ddl()} would round"
        raise Mismatch(why, "out_of_range")


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
        return _of_whole(value) if value.lstrip("-").isdigit() else DOUBLE
    kinds: dict[type, Type] = {bool: BOOLEAN, str: STRING}
    return kinds.get(type(value), VOID)


def _of_whole(text: str) -> Type:
    """The type that holds a whole number exactly; of more than 38 digits none does."""
    if len(text) > 20:
        return HUGE
    value = int(text)
    if abs(value) <= EXACT["double"]:
        return BIGINT
    return LARGE if -(2**63) <= value < 2**63 else HUGE


def _of_table(read: pa.Table) -> Struct:
    """The columns that Arrow found; raises Mismatch where it may have rounded whole numbers to find them."""
    names = read.schema.names
    return Struct(tuple(Column(name, _of_array(one(read.column(at)))) for at, name in enumerate(names)))


def _of_array(array: Values, left: int = DEEPEST - 1) -> Type:
    kind = array.type
    if left < 0:
        raise Mismatch("nested too deeply", "too_deep")
    if pa.types.is_struct(kind):
        inside = ((kind.field(at).name, array.field(at)) for at in range(kind.num_fields))
        return Struct(tuple(Column(name, _of_array(values, left - 1)) for name, values in inside))
    if pa.types.is_list(kind):
        return Array(_of_array(array.flatten(), left - 1))
    if kind == pa.int64():
        return LARGE if _is_beyond(array, EXACT["double"]) else BIGINT
    if kind == pa.float64() and _is_beyond(array, EXACT["double"] - 1):
        raise Mismatch("a number that may be a whole one")
    names: dict[Any, Type] = {pa.null(): VOID, pa.float64(): DOUBLE, pa.bool_(): BOOLEAN}
    # Arrow takes texts that look like times for times.
    return names.get(kind, STRING)


def _is_beyond(numbers: Values, limit: int) -> bool:
    bounds = compute.min_max(numbers).as_py()
    return bounds["min"] is not None and (bounds["min"] < -limit or bounds["max"] > limit)


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
    if all_true(compute.match_substring_regex(there, "^(true|false)$")):
        return BOOLEAN
    if not all_true(compute.match_substring_regex(there, _NUMBER)):
        return STRING
    is_whole = compute.match_substring_regex(there, _WHOLE)
    kind = _of_whole_texts(there.filter(is_whole))
    return _or_text(kind if all_true(is_whole) else merged(kind, DOUBLE))


def _of_whole_texts(texts: Values) -> Type:
    lengths = compute.binary_length(texts)
    if compute.any(compute.greater(lengths, 39)).as_py():
        return STRING
    # What has 15 digits at most is within 2^53.
    long = texts.filter(compute.greater(lengths, 15)).to_pylist()
    kind: Type = BIGINT if len(texts) else VOID
    return reduce(merged, map(_of_whole, long), kind)


def _or_text(kind: Type) -> Type:
    return STRING if isinstance(kind, Primitive) and kind.name.startswith(_MIXED) else kind


def csv_merged(one: Struct, other: Struct) -> Struct:
    """Both columns; a text takes what no other type does."""
    both = _merged_structs(one, other)
    return Struct(tuple(replace(column, type=_or_text(column.type)) for column in both.columns))


def settled(
    found: Schema, table: Schema | None, texts_take_all: bool = False, redirects: bool = False
) -> Schema:
    """`found` with the types of the table, for the columns that it has; raises Mixed for others.

    The columns that the table has already were decided by the first batch, or by who made the table: a value
    that they cannot hold is bad. Where the table `redirects` values of another type to another column, a type
    that all records agree on stays what it is.
    """
    there = {column.name: column for column in table.columns} if table else {}
    columns = []
    for column in found.columns:
        known = there.get(column.name)
        kind = _settled(column.type, known.type, texts_take_all, redirects) if known else column.type
        _refuse_mixed(column.name, kind)
        columns.append(Column(column.name, _without_marks(kind), known.nullable if known else True))
    return Schema(tuple(columns))


def _settled(found: Type, table: Type, texts_take_all: bool, redirects: bool) -> Type:
    if isinstance(found, Struct) and isinstance(table, Struct):
        inside = settled(Schema(found.columns), Schema(table.columns), texts_take_all, redirects)
        return Struct(inside.columns)
    if isinstance(found, Array) and isinstance(table, Array):
        return replace(table, element=_settled(found.element, table.element, texts_take_all, redirects))
    is_taken = found == VOID or (texts_take_all and table == STRING) or _takes(table, found)
    return table if is_taken or not redirects or _is_mixed(found) else found


def _takes(table: Type, found: Type) -> bool:
    """Whether a column of the table holds values of the type that was found, or most of them."""
    if isinstance(found, Struct) and isinstance(table, Map):
        return all(_takes(table.value, column.type) for column in found.columns)
    if isinstance(found, Struct) and isinstance(table, Struct):
        names = {column.name: column.type for column in table.columns}
        return all(one.name in names and _takes(names[one.name], one.type) for one in found.columns)
    if isinstance(found, Array) and isinstance(table, Array):
        return _takes(table.element, found.element)
    if found == VOID or (isinstance(table, Decimal) and found in (*_WHOLES, DOUBLE, STRING)):
        return True
    name = "bigint" if found == LARGE else found.name if isinstance(found, Primitive) else ""
    return isinstance(table, Primitive) and table.name in _TAKES.get(name, ())


def _is_mixed(kind: Type) -> bool:
    if isinstance(kind, Primitive):
        return kind.name.startswith(_MIXED)
    return any(_is_mixed(part.type) for part in parts(kind))


def _without_marks(kind: Type) -> Type:
    if kind == LARGE:
        return BIGINT
    if isinstance(kind, Struct):
        return Struct(tuple(replace(one, type=_without_marks(one.type)) for one in kind.columns))
    return replace(kind, element=_without_marks(kind.element)) if isinstance(kind, Array) else kind


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
