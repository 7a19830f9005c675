"""Texts that SQL makes of bytes: one that is no UTF-8 would make a table unreadable, and is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calve.gateway import refusal_in_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField


def with_valid_texts(frame: DataFrame) -> DataFrame:
    """`frame`, the reading of which ends with DataRefused where a text is no UTF-8.

    Spark itself does not look: `CAST(unhex('FFFE') AS STRING)` is a text to it, and to no other reader.
    """
    if not any(_has_text(field.dataType) for field in frame.schema.fields):
        return frame
    return frame.select(*(_checked(field) for field in frame.schema.fields))


def _has_text(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        return any(_has_text(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return _has_text(kind.keyType) or _has_text(kind.valueType)
    return _has_text(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, StringType)


def _checked(field: StructField) -> Column:
    from pyspark.sql import functions as f

    value = f.col(f"`{field.name.replace('`', '``')}`")
    if not _has_text(field.dataType):
        return value
    message = f"Cannot write the rows: column '{field.name}': a text is not valid UTF-8; keep it as BINARY"
    is_valid = f.coalesce(_is_valid(value, field.dataType), f.lit(True))
    checked = f.when(is_valid, value).otherwise(refusal_in_spark(f.lit(message)))
    # What raises may be NULL to Spark, and so would be a column that is NOT NULL.
    whole = checked if field.nullable else f.coalesce(checked, value)
    return whole.alias(field.name, metadata=field.metadata) if field.metadata else whole.alias(field.name)


def _is_valid(value: Any, kind: DataType) -> Column:
    """Whether all texts in a value are UTF-8; NULL where there is none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    if isinstance(kind, StringType):
        return f.is_valid_utf8(value)
    if isinstance(kind, ArrayType) and _has_text(kind):
        return f.forall(value, lambda element: f.coalesce(_is_valid(element, kind.elementType), f.lit(True)))
    if isinstance(kind, MapType) and _has_text(kind):
        keys = _is_valid(f.map_keys(value), ArrayType(kind.keyType))
        return keys & _is_valid(f.map_values(value), ArrayType(kind.valueType))
    is_valid = f.lit(True)
    for field in kind.fields if isinstance(kind, StructType) else ():
        inside = _is_valid(value.getField(field.name), field.dataType)
        is_valid = is_valid & f.coalesce(inside, f.lit(True))
    return is_valid
