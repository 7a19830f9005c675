"""JSON objects → rows.

The fast way reads a block of records at once with Arrow; what it does not accept, the slow way looks at
record by record, and either decodes it or says what is wrong. Both give the same values.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from calve.decode.arrow import Values, arrow_field, arrow_schema, arrow_type, compute, has_map, is_primitive
from calve.decode.decoder import (
    Decoder,
    all_true,
    batch_of,
    column_of,
    lines_of,
    shown,
    utf8,
)
from calve.decode.division import Doubts, Mismatch, doubtful, where
from calve.decode.scalars import (
    INTEGERS,
    WIDEST,
    cast,
    narrowed,
    parse,
    parse_decimal,
    parse_double,
    parse_float,
    parse_integer,
    reason_of,
)
from calve.schema import Array, Column, Decimal, Map, Primitive, Schema, Struct, Type

_SPACE = " \t\r\n"
_DEEP = 1_000
_CONSTANT = r"[:,\[]\s*-?(?:NaN|Inf)"
_MANTISSA = r"(?:[0-9.]+[eE]-0*[1-9][0-9]+|[0-9.]{20,}[eE]-[0-9]+)"
_SMALL = rf"""[:,\[]\s*(?:-?{_MANTISSA}\s*[,\]}}]|"[+-]?{_MANTISSA}")"""
"""A number, or the text of one, with a negative exponent of two digits or with many digits."""
_SMALL_BYTES = re.compile(_SMALL.encode())
_AROUND = 60
_OTHER_KIND = re.compile(r"Column\((?:.*/)?(.+)\) changed from \w+ to (\w+) in row")
_BEGINNINGS = {"number": r"[-\d]", "string": '"', "boolean": "[tf]", "object": r"\{", "array": r"\["}
_NO_VALUE = re.compile(r"couldn't parse:(.+)|^The string '(.+)' (?:is not|cannot)", re.S)
TEXTUAL = ("string", "binary", "date", "timestamp", "timestamp_ntz")


class Watch(ABC):
    """Is told what records have that a decoder does not make columns of; travels to Python workers."""

    @abstractmethod
    def block(self, read: pa.Table) -> None:
        """Of a block, what Arrow read: raises Mismatch where a closer look is needed, or Unfit."""

    @abstractmethod
    def record(self, found: dict[str, Any]) -> None:
        """Of a record, what it holds: raises Mismatch where it is bad, or Unfit."""


class JsonDecoder(Decoder):
    """Each record is one JSON object. Where there is a `watch`, fields are told to it that are no columns."""

    def __init__(self, schema: Schema, watch: Watch | None = None) -> None:
        super().__init__(schema)
        self.watch = watch
        self.is_fast = not any(has_map(column.type) for column in schema.columns)

    def _fast(self, values: Values) -> pa.RecordBatch:
        if not self.is_fast:
            raise Mismatch("Arrow reads no maps from JSON")
        explicit = pa.schema([pa.field(column.name, raw(column.type)) for column in self.schema.columns])
        read = objects(values, explicit, finds=self.watch is not None)
        if self.watch is not None:
            self.watch.block(read)
        # Columns that were not asked for are behind those that were.
        columns = zip(read.columns[: len(explicit)], self.schema.columns, strict=True)
        made = [(partial(_made, column), one(array)) for array, column in columns]
        return batch_of(made, arrow_schema(self.schema))

    def record(self, value: bytes) -> list[Any]:
        try:
            found = parsed(value)
        except RecursionError:
            return self._deep(value)
        try:
            return [member(found, column, "") for column in self.schema.columns]
        finally:
            if self.watch is not None:
                self.watch.record(found)

    def _deep(self, value: bytes) -> list[Any]:
        """A record nested more deeply than Python reads; in fields that are not declared Arrow can."""
        try:
            row = self._fast(pa.array([value], pa.binary()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, Mismatch):
            raise Mismatch("nested too deeply", "too_deep") from None
        return [column[0].as_py() for column in row.columns]


def _made(column: Column, array: Values) -> Values:
    return column_of(shaped(array, column.type), column)


def parsed(value: bytes) -> dict[str, Any]:
    """The object that a record holds, its numbers as they are written; raises Mismatch or RecursionError."""
    text = utf8(value)
    if not text.strip(_SPACE):
        raise Mismatch("the value is empty")
    try:
        found = _DECODER.decode(text)
    except ValueError as error:
        raise Mismatch(f"not valid JSON: {error}") from None
    if type(found) is not dict:
        raise Mismatch(f"not a JSON object but {named(found)}")
    return found


def objects(values: Values, explicit: pa.Schema | None = None, finds: bool = False) -> pa.Table:
    """The objects that records hold, as Arrow reads them; raises Mismatch where one holds none or several.

    Where nothing is `explicit`, or others are to be found too, fields come with types that Arrow finds.
    """
    finds = finds or explicit is None
    if finds:
        _refuse_deep(values)
    data = _joined(values)
    if explicit is not None and _has_decimal(explicit):
        _refuse_small(values, data)
    reading = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
    behavior: Any = "infer" if finds else "ignore"
    parsing = pj.ParseOptions(explicit_schema=explicit, unexpected_field_behavior=behavior)
    try:
        source: Any = pa.BufferReader(data)
        # It is one block; to open it costs less than to have it read by `read_json`.
        with pj.open_json(source, read_options=reading, parse_options=parsing) as opened:
            read = opened.read_all()
    except pa.ArrowInvalid as error:
        raise _doubts(error, values) or error from None
    if read.num_rows != len(values):
        raise Mismatch("a record holds no object, or more than one")
    return read


def _has_decimal(fields: Any) -> bool:
    """Whether a decimal is somewhere in fields, or in a type."""
    if isinstance(fields, pa.Schema) or pa.types.is_struct(fields):
        return any(_has_decimal(field.type) for field in fields)
    return bool(pa.types.is_decimal(fields)) or (pa.types.is_list(fields) and _has_decimal(fields.value_type))


def _refuse_small(values: Values, data: bytes) -> None:
    """Raise Doubts for numbers that Arrow divides by more powers of ten than it knows: it cuts them."""
    if _has_small(data):
        raise doubtful(compute.match_substring_regex(values, _SMALL), "a number with a negative exponent")


def _has_small(data: bytes) -> bool:
    """Whether such a number is there; to search for the pattern takes longer than all of the decoding."""
    pairs = [np.frombuffer(data, "<u2", (len(data) - begin) // 2, begin) for begin in (0, 1)]
    if not any((pair == ord(sign) | ord("-") << 8).any() for pair in pairs for sign in "eE"):
        return False
    signs = np.frombuffer(data, np.uint8)
    minus = np.flatnonzero(signs == ord("-"))
    minus = minus[minus > 1]
    exponents = minus[(signs[minus - 1] | 0x20 == ord("e")) & (signs[minus - 2] - ord("0") < 10)]
    return any(_SMALL_BYTES.search(data, max(0, at - _AROUND), at + _AROUND) for at in exponents.tolist())


def _doubts(error: pa.ArrowInvalid, values: Values) -> Doubts | None:
    """All records that look like the one that Arrow complains of, unless these are most of them."""
    found = _OTHER_KIND.search(str(error))
    if found:
        pattern = rf'"{re.escape(found[1])}"\s*:\s*{_BEGINNINGS[found[2]]}'
    else:
        text = _NO_VALUE.search(str(error))
        if text is None:
            return None
        pattern = re.escape(text[1] or text[2])
    places = where(compute.match_substring_regex(values, pattern))
    return Doubts(places, str(error)) if 0 < len(places) <= len(values) // 2 else None


def _refuse_deep(values: Values) -> None:
    """Raise Doubts where Arrow, as it finds types, would go deeper into a record than its stack goes."""
    # Each level takes two bytes at least.
    long = where(compute.greater(compute.binary_length(values), 2 * _DEEP))
    texts = ((at, values[at].as_py()) for at in long)
    deep = [at for at, value in texts if value.count(b"{") + value.count(b"[") > _DEEP]
    if deep:
        raise Doubts(deep, "nested too deeply", "too_deep")


def _joined(values: Values) -> bytes:
    """All records, one behind the other, each of which begins and ends as an object does.

    Between `}` and `{` no other JSON can go on, and a raw line end is legal in no string; so, if as many
    objects are read as there are records, each record holds exactly one.
    """
    lines = lines_of(values)
    if not _are_objects(lines):
        lines = compute.ascii_trim(lines, characters=_SPACE)
        if not _are_objects(lines):
            fits = compute.and_(*_ends(lines))
            raise doubtful(compute.invert(fits), "a record is no object")
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    data: bytes = compute.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
    if (_has(data, b"NaN") or _has(data, b"Inf")) and re.search(_CONSTANT.encode(), data):
        raise doubtful(compute.match_substring_regex(lines, _CONSTANT), "NaN or Infinity")
    return data


def _has(data: bytes, word: bytes) -> bool:
    """Whether `word` is in `data`; that its first letter is not is found ten times as fast."""
    return word[:1] in data and word in data


def _are_objects(lines: Values) -> bool:
    return all(map(all_true, _ends(lines)))


def _ends(lines: Values) -> tuple[Values, Values]:
    return compute.starts_with(lines, "{"), compute.ends_with(lines, "}")


def raw(kind: Type) -> pa.DataType:
    """What Arrow is told to read: texts and doubles as they are, to be converted by our own rules."""
    if isinstance(kind, Struct):
        return pa.struct([pa.field(column.name, raw(column.type)) for column in kind.columns])
    if isinstance(kind, Array):
        return pa.list_(raw(kind.element))
    if is_primitive(kind, *TEXTUAL):
        return pa.string()
    if isinstance(kind, Decimal):
        return _raw_decimal(kind)
    return pa.float64() if is_primitive(kind, "float", "double") else arrow_type(kind)


def _raw_decimal(kind: Decimal) -> pa.DataType:
    """A decimal with room for every text that Arrow accepts.

    Arrow compares the digits of a text with the precision first and then multiplies by up to 10^scale with no
    check: in 128 bits that wraps around unless both together are at most 38 digits.
    """
    if kind.precision + kind.scale <= WIDEST:
        return arrow_type(kind)
    return pa.decimal256(WIDEST, kind.scale)


def one(column: Values) -> Values:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def shaped(array: Values, kind: Type) -> Values:
    """What Arrow read, in the declared type."""
    if isinstance(kind, Struct):
        inner = [shaped(array.field(index), column.type) for index, column in enumerate(kind.columns)]
        fields = [arrow_field(column) for column in kind.columns]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=_mask(array))
    if isinstance(kind, Array):
        values = shaped(array.values, kind.element)
        return pa.ListArray.from_arrays(array.offsets, values, type=arrow_type(kind), mask=_mask(array))
    if is_primitive(kind, "float", "double"):
        return narrowed(array, kind)
    if isinstance(kind, Decimal):
        if array.type != arrow_type(kind):
            return array.cast(arrow_type(kind))
        array.validate(full=True)
        return array
    return cast(array, kind) if is_primitive(kind, *TEXTUAL) else array


def _mask(array: Values) -> Values | None:
    return array.is_null() if array.null_count else None


class Number(str):
    """A number as it is written."""


class Repeated:
    """The value of a name that an object has more than once: nobody can tell which is meant."""


_REPEATED = Repeated()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = Counter(name for name, _ in pairs)
        members.update({name: _REPEATED for name, count in names.items() if count > 1})
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(
    parse_float=Number, parse_int=Number, parse_constant=_refuse_constant, object_pairs_hook=_object
)


def member(found: dict[str, Any], column: Column, path: str) -> Any:
    """The value of one column of an object; raises Mismatch."""
    name = path + column.name
    value = found.get(column.name)
    if value is _REPEATED:
        raise Mismatch(f"column '{name}': the record has this field twice", "duplicate")
    if value is not None:
        return _value(value, column.type, name)
    if not column.nullable:
        why = "NULL" if column.name in found else "missing"
        raise Mismatch(f"column '{name}': {why}, and the column is NOT NULL", "null")
    return None


def _value(value: Any, kind: Type, path: str) -> Any:
    if isinstance(kind, Struct):
        _expect(type(value) is dict, value, kind, path)
        return {column.name: member(value, column, f"{path}.") for column in kind.columns}
    if isinstance(kind, Array):
        _expect(type(value) is list, value, kind, path)
        return [_element(e, kind.element, kind.element_nullable, f"{path}[{i}]") for i, e in enumerate(value)]
    if isinstance(kind, Map):
        _expect(type(value) is dict, value, kind, path)
        return _entries(value, kind, path)
    try:
        return scalar(value, kind)
    except ValueError as error:
        raise Mismatch(_words(value, kind, path, str(error)), reason_of(error)) from None


def _element(value: Any, kind: Type, nullable: bool, path: str) -> Any:
    if value is None and not nullable:
        raise Mismatch(f"column '{path}': NULL, and it must not be", "null")
    return None if value is None else _value(value, kind, path)


def _entries(value: dict[str, Any], kind: Map, path: str) -> list[tuple[Any, Any]]:
    entries = {}
    for text, inner in value.items():
        key = _key(text, kind, path)
        if inner is _REPEATED or key in entries:
            raise Mismatch(f"column '{path}': the key {shown(text)} comes twice", "duplicate")
        entries[key] = _element(inner, kind.value, kind.value_nullable, f"{path}['{text}']")
    return list(entries.items())


def _key(text: str, kind: Map, path: str) -> Any:
    try:
        return _whole(parse(text, kind.key))
    except ValueError as error:
        raise Mismatch(_words(text, kind.key, path, str(error)), reason_of(error)) from None


class Coded(ABC):
    """Stands for a type in a schema, where its values are not written as JSON writes them."""

    kind: Type

    def ddl(self) -> str:
        return self.kind.ddl()

    @abstractmethod
    def read(self, value: Any) -> Any:
        """The value, as `pyarrow.array` takes it; raises ValueError."""


def scalar(value: Any, kind: Type | Coded) -> Any:
    """The value of a JSON scalar: no number is taken for a text, and a text for no number but a DECIMAL."""
    if isinstance(kind, Coded):
        return kind.read(value)
    if isinstance(kind, Decimal):
        require(type(value) in (Number, str), "not a number")
        return parse_decimal(value, kind)
    assert isinstance(kind, Primitive)
    if kind.name == "boolean":
        require(type(value) is bool, "neither true nor false")
        return value
    if kind.name in TEXTUAL:
        require(type(value) is str, "not a text")
        return _whole(parse(value, kind))
    require(type(value) is Number, "not a number")
    return _number(value, kind.name)


def _number(value: str, name: str) -> int | float:
    if name in INTEGERS:
        return parse_integer(value, name)
    return parse_float(value) if name == "float" else parse_double(value)


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair") from None
    return value


def require(holds: bool, why: str) -> None:
    if not holds:
        raise ValueError(why)


def _expect(holds: bool, value: Any, kind: Type, path: str) -> None:
    if not holds:
        raise Mismatch(_words(value, kind, path, f"it is {named(value)}"), "wrong_type")


def _words(value: Any, kind: Type, path: str, why: str) -> str:
    if type(value) in (str, Number):
        return f"column '{path}': {shown(str(value))} is not a {kind.ddl()}: {why}"
    return f"column '{path}': {named(value)} is not a {kind.ddl()}"


def named(value: Any) -> str:
    """What kind of JSON a value is, in words."""
    names = {dict: "an object", list: "an array", str: "a text", Number: "a number", bool: "a boolean"}
    names[Repeated] = "there twice"
    return names.get(type(value), "null")
