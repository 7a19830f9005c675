"""How a table is partitioned and sorted, as declared. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from calve.schema import Column, Decimal, Primitive, Schema

_TIMES = ("year", "month", "day", "hour")
_SIZED = ("bucket", "truncate")
_CALL = re.compile(r"(\w+)\s*\(\s*(.*?)\s*\)")
_COLUMN = re.compile(r"`(?:[^`]|``)+`|[^\s`(),]+")
_COMMA = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")
_SORTED = re.compile(rf"({_COLUMN.pattern})(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?", re.IGNORECASE)


@dataclass(frozen=True)
class PartitionField:
    """One field of a partition spec; `parameter` is the number of buckets or the width."""

    transform: str
    column: str
    parameter: int | None = None

    @property
    def kind(self) -> str:
        """What a column can be used for once in a spec."""
        return "time" if self.transform in _TIMES else self.transform

    @property
    def name(self) -> str:
        """The name of the partition field in Iceberg."""
        suffixes = {"identity": "", "truncate": "_trunc"}
        return self.column + suffixes.get(self.transform, f"_{self.transform}")

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        size = f"{self.parameter}, " if self.parameter is not None else ""
        return f"{self.transform}({size}{self.column})"


@dataclass(frozen=True)
class SortField:
    """One field of a sort order."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        direction = "desc" if self.descending else "asc"
        return f"{self.column} {direction} nulls {'first' if self.nulls_first else 'last'}"


@dataclass(frozen=True)
class PartitionChange:
    """A field that a partition spec gets or loses; files that are there stay as they are."""

    field: PartitionField
    added: bool

    def event(self) -> dict[str, str | None]:
        """What happened, as logs and summaries keep it."""
        name = "add_partition_field" if self.added else "remove_partition_field"
        sides = (None, str(self.field)) if self.added else (str(self.field), None)
        return {"change": name, "column": self.field.column, "before": sides[0], "after": sides[1]}

    def __str__(self) -> str:
        if self.added:
            return f"new files are partitioned by '{self.field}'"
        return f"new files are not partitioned by '{self.field}' any more"


def partition_changes(
    old: Sequence[PartitionField], new: Sequence[PartitionField]
) -> tuple[PartitionChange, ...]:
    """What turns one spec into another; the order of fields counts for nothing."""
    gone = (PartitionChange(field, False) for field in old if field not in new)
    return (*gone, *(PartitionChange(field, True) for field in new if field not in old))


def partition_field(text: str) -> PartitionField:
    """The field that text such as `day(order_date)` or `bucket(16, id)` declares; raises ValueError."""
    call = _CALL.fullmatch(text.strip())
    if call is None:
        return PartitionField("identity", _column(text))
    name, inside = call[1].lower(), call[2]
    if name in _SIZED:
        return _sized_field(name, inside)
    if name not in _TIMES:
        raise ValueError(
            f"unknown transform '{call[1]}'; one of {', '.join((*_TIMES, *_SIZED))}, or a column alone"
        )
    return PartitionField(name, _column(inside))


def _sized_field(name: str, inside: str) -> PartitionField:
    size, comma, column = inside.partition(",")
    if not comma or not re.fullmatch(r"[1-9][0-9]{0,8}", size.strip()):
        raise ValueError(f"not a partition field; write a number and a column, such as {name}(16, id)")
    return PartitionField(name, _column(column), int(size))


def _column(text: str) -> str:
    if not _COLUMN.fullmatch(text.strip()):
        raise ValueError("not a partition field; write a column, or a transform such as day(order_date)")
    return _unquoted(text.strip())


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def sort_fields(text: str) -> tuple[SortField, ...]:
    """The fields that text such as `order_date desc nulls last, id` declares; raises ValueError."""
    return tuple(_sort_field(part) for part in _COMMA.split(text))


def _sort_field(text: str) -> SortField:
    match = _SORTED.fullmatch(text.strip())
    if match is None:
        raise ValueError("not a sort field; write a column, then asc or desc, then nulls first or nulls last")
    descending = (match[2] or "asc").lower() == "desc"
    nulls = (match[3] or ("last" if descending else "first")).lower()
    return SortField(_unquoted(match[1]), descending, nulls == "first")


def refusal(field: PartitionField, schema: Schema) -> str | None:
    """Why a table with `schema`, which has the column, cannot be partitioned by `field`."""
    column = schema.column(field.column)
    if column is not None and not _allowed(field.transform, column):
        return f"cannot partition by '{field}': '{field.column}' is {column.type.ddl()}"
    if field.transform != "identity" and field.name in schema.names:
        return f"cannot partition by '{field}': the partition would be called as column '{field.name}' is"
    return None


def _allowed(transform: str, column: Column) -> bool:
    if isinstance(column.type, Decimal):
        return transform in ("identity", "bucket", "truncate")
    if not isinstance(column.type, Primitive):
        return False
    name = column.type.name.partition("(")[0]
    return name in _TYPES[transform]


_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TEXTS = ("string", "char", "varchar", "binary")
_TYPES: dict[str, tuple[str, ...]] = {
    "identity": ("boolean", *_WHOLE, "float", "double", *_TEXTS, "date", "timestamp", "timestamp_ntz"),
    "bucket": (*_WHOLE, *_TEXTS, "date", "timestamp", "timestamp_ntz"),
    "truncate": (*_WHOLE, *_TEXTS),
    "year": ("date", "timestamp", "timestamp_ntz"),
    "month": ("date", "timestamp", "timestamp_ntz"),
    "day": ("date", "timestamp", "timestamp_ntz"),
    "hour": ("timestamp", "timestamp_ntz"),
}


_NUMBERS = ("int", "long")
_MOMENTS = ("date", "timestamp", "timestamptz")
_DIVIDED: dict[str, tuple[str, ...]] = {
    "identity": ("boolean", *_NUMBERS, "string", "date", "decimal"),
    "bucket": (*_NUMBERS, *_MOMENTS, "string", "binary", "decimal"),
    "truncate": (*_NUMBERS, "string", "decimal"),
    "year": _MOMENTS,
    "month": _MOMENTS,
    "day": _MOMENTS,
    "hour": ("timestamp", "timestamptz"),
}
"""The types of columns by which rows can be divided without Spark, for each transform."""


def is_divided(transform: str, kind: str) -> bool:
    """Whether rows can be divided without Spark by `transform` of a column of Iceberg's type `kind`."""
    return kind.partition("(")[0] in _DIVIDED.get(transform, ())
