"""Arrow's values as columns have them, exactly or not at all: rows of Parquet files and of programs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa

from calve.decode.arrow import Values, arrow_field, arrow_type, compute, is_primitive
from calve.decode.decoder import refuse_nulls
from calve.decode.division import Mismatch
from calve.decode.scalars import EXACT, INTEGERS, WIDEST, in_calendar
from calve.schema import Array, Column, Decimal, Map, Primitive, Schema, Struct, Type

_types: Any = pa.types


def takes(given: Any, kind: Type) -> bool:
    """Whether a column of the type `kind` takes values of the Arrow type `given`, as far as it can hold them.

    Types are compared here, and values in `exact`. A whole number goes to any type that holds it, a fraction
    to wider ones, bytes to texts where they are UTF-8, and a time without a zone is one of UTC. A time with a
    zone is none of the wall clock.
    """
    if isinstance(given, pa.BaseExtensionType):
        return takes(given.storage_type, kind)
    if _types.is_dictionary(given):
        return takes(given.value_type, kind)
    if _types.is_null(given):
        return True
    if isinstance(kind, Struct):
        return bool(_types.is_struct(given)) and _struct_takes(given, kind)
    if isinstance(kind, Array):
        return _is_list(given) and takes(given.value_type, kind.element)
    if isinstance(kind, Map):
        return (
            bool(_types.is_map(given))
            and takes(given.key_type, kind.key)
            and takes(given.item_type, kind.value)
        )
    if isinstance(kind, Decimal):
        return bool(_types.is_decimal(given) or _types.is_integer(given))
    return _primitive_takes(given, kind)


def holds_all(given: Any, kind: Type) -> bool:
    """Whether every value of `given`, which `kind` takes, is one of `kind`: it need not be looked at.

    This is for readers that look at no value; texts are all but UTF-8.
    """
    if _types.is_integer(given) and is_primitive(kind, *INTEGERS):
        bits = given.bit_width + (1 if str(given).startswith("u") else 0)
        wanted: Any = arrow_type(kind)
        return bool(bits <= wanted.bit_width)
    if _types.is_decimal(given) and isinstance(kind, Decimal):
        return bool(given.scale == kind.scale and given.precision <= kind.precision)
    if isinstance(kind, Struct):
        fields = {field.name: field.type for field in given}
        return all(one.name not in fields or holds_all(fields[one.name], one.type) for one in kind.columns)
    if isinstance(kind, Array):
        return holds_all(given.value_type, kind.element)
    if isinstance(kind, Map):
        return holds_all(given.key_type, kind.key) and holds_all(given.item_type, kind.value)
    return bool(given == arrow_type(kind))


def _struct_takes(given: Any, kind: Struct) -> bool:
    fields = {field.name: field.type for field in given}
    return all(one.name not in fields or takes(fields[one.name], one.type) for one in kind.columns)


def _primitive_takes(given: Any, kind: Primitive) -> bool:
    name = kind.name
    if name in INTEGERS:
        return bool(_types.is_integer(given))
    if name in EXACT:
        narrow = _types.is_float16(given) or _types.is_float32(given)
        return bool(narrow or _types.is_integer(given) or (name == "double" and _types.is_float64(given)))
    if name == "boolean":
        return bool(_types.is_boolean(given))
    if name in ("string", "binary"):
        return _is_text(given) or _is_bytes(given)
    if name == "date":
        return bool(_types.is_date(given))
    if name == "timestamp":
        return bool(_types.is_timestamp(given))
    return name == "timestamp_ntz" and bool(_types.is_timestamp(given) and given.tz is None)


def _is_list(given: Any) -> bool:
    return bool(_types.is_list(given) or _types.is_large_list(given) or _types.is_fixed_size_list(given))


def _is_text(given: Any) -> bool:
    return bool(_types.is_string(given) or _types.is_large_string(given) or _types.is_string_view(given))


def _is_bytes(given: Any) -> bool:
    is_sized = _types.is_binary(given) or _types.is_large_binary(given) or _types.is_fixed_size_binary(given)
    return bool(is_sized or _types.is_binary_view(given))


def exact_column(array: Values, column: Column) -> Values:
    """`array` as the column has it; raises Mismatch where a value does not fit, or a NULL may not be."""
    try:
        values = exact(array, column.type, column.name)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        # Arrow's messages may go on about types; the first line names the value.
        why = str(error).splitlines()[0]
        raise Mismatch(
            f"column '{column.name}': a value is not a {column.type.ddl()}: {why}", "out_of_range"
        ) from None
    if not column.nullable and values.null_count:
        raise Mismatch(f"column '{column.name}': NULL, and the column is NOT NULL", "null")
    try:
        refuse_nulls([values], (column,))
    except Mismatch:
        raise Mismatch(f"column '{column.name}': a NULL inside of it, where none may be", "null") from None
    return values


def exact_table(table: pa.Table, columns: Schema) -> pa.Table:
    """The rows of a table whose columns `schema_of_arrow` gives; raises Mismatch."""
    pairs = zip(table.columns, columns.columns, strict=True)
    arrays = [_exact_chunks(array, column) for array, column in pairs]
    return pa.Table.from_arrays(arrays, names=list(columns.names))


def _exact_chunks(array: Values, column: Column) -> Values:
    if is_primitive(column.type, "void"):
        return pa.chunked_array([pa.nulls(len(array))], pa.null())
    chunks = [exact_column(chunk, column) for chunk in array.chunks]
    kind: Any = arrow_type(column.type)
    return pa.chunked_array(chunks, kind)


def exact(array: Values, kind: Type, path: str) -> Values:
    """`array` in the Arrow type of `kind`, which `takes` its type; raises ArrowInvalid or Mismatch."""
    if isinstance(array.type, pa.BaseExtensionType):
        return exact(array.storage, kind, path)
    if _types.is_dictionary(array.type):
        return exact(array.dictionary_decode(), kind, path)
    if _types.is_null(array.type):
        return _nulls(len(array), kind)
    if isinstance(kind, Struct):
        return _exact_structs(array, kind, path)
    if isinstance(kind, Array):
        return _exact_lists(array, kind, path)
    if isinstance(kind, Map):
        return _exact_maps(array, kind, path)
    if isinstance(kind, Decimal):
        return _exact_decimals(array, kind)
    if kind.name == "string":
        return _exact_texts(array, path)
    values = array if array.type == arrow_type(kind) else array.cast(arrow_type(kind))
    return in_calendar(values) if is_primitive(kind, "date", "timestamp", "timestamp_ntz") else values


def _nulls(count: int, kind: Type) -> Values:
    wanted: Any = arrow_type(kind)
    return pa.nulls(count, wanted)


def _mask(array: Values) -> Values | None:
    return array.is_null() if array.null_count else None


def _exact_structs(array: Values, kind: Struct, path: str) -> Values:
    names = [field.name for field in array.type]
    inner = [
        exact(array.field(names.index(one.name)), one.type, f"{path}.{one.name}")
        if one.name in names
        else _nulls(len(array), one.type)
        for one in kind.columns
    ]
    fields = [arrow_field(one) for one in kind.columns]
    if not inner:
        return array
    return pa.StructArray.from_arrays(inner, fields=fields, mask=_mask(array))


def _exact_lists(array: Values, kind: Array, path: str) -> Values:
    if not _types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    # What is taken begins at its own first value, and has no values behind NULLs.
    array = _compact(array)
    values = exact(array.values, kind.element, f"{path}.element")
    return pa.ListArray.from_arrays(array.offsets, values, type=arrow_type(kind), mask=_mask(array))


def _exact_maps(array: Values, kind: Map, path: str) -> Values:
    array = _compact(array)
    keys = exact(array.keys, kind.key, f"{path}.key")
    _refuse_duplicates(array, keys, path)
    items = exact(array.items, kind.value, f"{path}.value")
    make: Any = pa.MapArray.from_arrays
    return make(array.offsets, keys, items, type=arrow_type(kind), mask=_mask(array))


def _compact(array: Values) -> Values:
    if array.offset or array.null_count or (len(array.offsets) and array.offsets[0].as_py()):
        return array.take(pa.array(range(len(array)), pa.int64()))
    end = array.offsets[-1].as_py() if len(array.offsets) else 0
    inside = array.keys if _types.is_map(array.type) else array.values
    return array if len(inside) == end else array.take(pa.array(range(len(array)), pa.int64()))


def _refuse_duplicates(array: Values, keys: Values, path: str) -> None:
    lengths = compute.subtract(array.offsets[1:], array.offsets[:-1])
    if not len(lengths) or (compute.max(lengths).as_py() or 0) < 2:
        return
    offsets, texts = array.offsets.to_pylist(), keys.to_pylist()
    for begin, end in pairwise(offsets):
        seen = {repr(key) for key in texts[begin:end]}
        if len(seen) < end - begin:
            raise Mismatch(f"column '{path}': a key of a map comes twice", "duplicate")


def _exact_decimals(array: Values, kind: Decimal) -> Values:
    wanted = arrow_type(kind)
    if array.type == wanted:
        array.validate(full=True)
        return array
    if _types.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    # In 128 bits Arrow's rescaling may wrap around to a number that fits.
    scale = max(kind.scale, array.type.scale)
    wide = array.cast(pa.decimal256(2 * WIDEST, array.type.scale)).cast(pa.decimal256(2 * WIDEST, scale))
    return wide.cast(pa.decimal256(2 * WIDEST, kind.scale)).cast(wanted)


def _exact_texts(array: Values, path: str) -> Values:
    try:
        if _is_bytes(array.type):
            return array.cast(pa.string())
        values = array if array.type == pa.string() else array.cast(pa.string())
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise Mismatch(f"column '{path}': a text is not valid UTF-8", "not_utf8") from None
    return values
