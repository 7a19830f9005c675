"""Streams into Apache Iceberg tables, exactly once, on Spark.

What programs use is here and imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calve.api.catalog import Catalog, open_catalog, open_table
    from calve.api.session import start_spark
    from calve.api.sink import IcebergSink, SinkStatus
    from calve.api.source import Batch, IcebergSource
    from calve.api.table import Table
    from calve.decode.arrow import arrow_schema, schema_of_arrow
    from calve.iceberg.travel import Snapshot
    from calve.schema.changes import (
        AddColumn,
        DropColumn,
        MakeOptional,
        MoveColumn,
        RenameColumn,
        UpdateType,
    )
    from calve.schema.types import Array, Column, Decimal, Map, Primitive, Schema, Struct

_PLACES = {
    "calve.api.catalog": ("Catalog", "open_catalog", "open_table"),
    "calve.api.session": ("start_spark",),
    "calve.api.sink": ("IcebergSink", "SinkStatus"),
    "calve.api.source": ("Batch", "IcebergSource"),
    "calve.api.table": ("Table",),
    "calve.decode.arrow": ("arrow_schema", "schema_of_arrow"),
    "calve.iceberg.travel": ("Snapshot",),
    "calve.schema.changes": (
        *("AddColumn", "DropColumn", "MakeOptional", "MoveColumn", "RenameColumn", "UpdateType"),
    ),
    "calve.schema.types": ("Array", "Column", "Decimal", "Map", "Primitive", "Schema", "Struct"),
}
_NAMES = {name: place for place, names in _PLACES.items() for name in names}

__all__ = [
    "AddColumn",
    "Array",
    "Batch",
    "Catalog",
    "Column",
    "Decimal",
    "DropColumn",
    "IcebergSink",
    "IcebergSource",
    "MakeOptional",
    "Map",
    "MoveColumn",
    "Primitive",
    "RenameColumn",
    "Schema",
    "SinkStatus",
    "Snapshot",
    "Struct",
    "Table",
    "UpdateType",
    "arrow_schema",
    "open_catalog",
    "open_table",
    "schema_of_arrow",
    "start_spark",
]


def __getattr__(name: str) -> Any:
    if name in ("errors", "schema"):
        return import_module(f"calve.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'calve' has no attribute '{name}'")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return __all__
