"""Catalogs for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from calve import schema as schemas
from calve.api import arguments, declared, session
from calve.api.table import Table, schema_for
from calve.catalogs import Catalog as Declaration
from calve.errors import UsageError
from calve.iceberg.catalog import Catalog as Connection
from calve.iceberg.name import TableName
from calve.model import Flaw, suggestion
from calve.partitioning import refusal
from calve.schema import Schema
from calve.sink import prepare
from calve.sink.declaration import IcebergSink

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


_OF_A_TABLE = (
    *("partition_by", "partitioning", "partition_fields", "num_buckets", "time_granularity", "sort_by"),
    *("format", "format_version", "compression", "target_file_size_mb", "table_properties", "key_fields"),
)
"""The keys of a sink that say how a table is made."""


def open_catalog(
    catalog: Declaration | Mapping[str, Any] | None = None, *, spark: SparkSession | None = None
) -> Catalog:
    """The catalog with the keys that a sink's `catalog` has; left out, the embedded one in `./warehouse`.

    `spark` is the session to work with; left out, the active one, or one that Calve starts.

    >>> catalog = calve.open_catalog({"type": "memory", "warehouse": warehouse})
    >>> catalog.list_tables()
    []
    """
    model = declared.catalog(catalog, "open_catalog")
    return Catalog(model, session.of(spark, [model]))


class Catalog:
    """A catalog of Iceberg tables."""

    def __init__(self, declaration: Declaration, spark: SparkSession) -> None:
        self.declaration = declaration
        self._spark = spark
        self._connection = Connection(spark, declaration.spark_name(), declaration.description())

    def __repr__(self) -> str:
        return f"<{self.declaration.description()}>"

    def load_table(self, name: str) -> Table:
        """The table called `name`, such as `shop.orders`; raises UsageError if there is none."""
        found = declared.table_name(self._connection.name, name)
        if not self._connection.has_table(found):
            where = self.declaration.description()
            raise UsageError(f"Cannot find table '{name}': {where} has none of this name")
        return Table(self._spark, self._connection.load(found))

    def create_table(self, name: str, schema: str | Schema | pa.Schema, **keys: Any) -> Table:
        """A new table, its namespace included; raises UsageError if it is there already.

        `schema` is DDL, a schema of Calve's or one of Arrow's. `keys` are those of a sink that say how a
        table is made: `partition_by`, `sort_by`, `format`, `format_version`, `compression`,
        `target_file_size_mb`, `table_properties`, and `key_fields`, which become the identifier fields.

        >>> orders = catalog.create_table(
        ...     "shop.orders", "id BIGINT NOT NULL, at TIMESTAMP", partition_by=["day(at)"], key_fields=["id"]
        ... )
        >>> catalog.table_exists("shop.orders"), catalog.list_tables("shop")
        (True, ['shop.orders'])
        """
        found = declared.table_name(self._connection.name, name)
        if self._connection.has_table(found):
            raise UsageError(f"Cannot create table '{name}': it exists; load_table opens it")
        sink = _sink(self.declaration, found, keys)
        columns = prepare.table_columns(columns_of(schema, name, sink), sink)
        return Table(self._spark, prepare.create(self._connection, sink, columns))

    def list_tables(self, namespace: str | None = None) -> list[str]:
        """The names of the tables in `namespace`, or in all namespaces at the top of the catalog."""
        if namespace is not None:
            arguments.text(namespace, "list tables", "give the name of a namespace, such as 'shop'")
        if namespace is not None and not self._connection.has_namespace(namespace.split(".")):
            return []
        wanted = self._connection.namespaces() if namespace is None else [namespace]
        found = [str(one) for name in wanted for one in self._connection.tables(name.split("."))]
        return sorted(found)

    def table_exists(self, name: str) -> bool:
        """Whether there is a table called `name`."""
        return self._connection.has_table(declared.table_name(self._connection.name, name))


def open_table(
    name: str,
    catalog: Declaration | Mapping[str, Any] | None = None,
    *,
    spark: SparkSession | None = None,
) -> Table:
    """The table called `name` of a catalog that is named as for `open_catalog`.

    >>> calve.open_table("shop.orders", memory).name
    'shop.orders'
    """
    return open_catalog(catalog, spark=spark).load_table(name)


def _sink(catalog: Declaration, name: TableName, keys: Mapping[str, Any]) -> IcebergSink:
    """A sink whose table is made as `keys` say."""
    others = sorted(set(keys) - set(_OF_A_TABLE))
    if others:
        why = f"says nothing of how a table is made{suggestion(others[0], _OF_A_TABLE)}"
        raise declared.refused([Flaw((others[0],), why)], "create_table")
    place = {"catalog": catalog, "namespace": ".".join(name.namespace), "table": name.table}
    mode = {"commit_mode": "upsert"} if keys.get("key_fields") else {}
    return declared.built(IcebergSink, {**place, **mode, **keys}, "create_table")


def columns_of(schema: str | Schema | pa.Schema, table: str, sink: IcebergSink) -> Schema:
    """The schema that is meant; raises UsageError where the table cannot be made with it."""
    columns = schema_for(schema, f"create table '{table}'")
    for line in (*schemas.unsupported(columns, sink.format_version), *_misfits(columns, sink)):
        raise UsageError(f"Cannot create table '{table}': {line}")
    return columns


def _misfits(columns: Schema, sink: IcebergSink) -> Iterator[str]:
    for key, _, name in sink.columns_named():
        if columns.column(name) is None:
            yield f"'{name}' of '{key}' is none of its columns{suggestion(name, columns.names)}"
    yield from filter(None, (refusal(field, columns) for field in sink.partition_fields_declared() or ()))
