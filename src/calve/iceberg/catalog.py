"""Catalogs: find, create and load tables."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from calve import gateway
from calve.errors import CalveError
from calve.iceberg import durable, java, purge, redirects
from calve.iceberg.failures import translated
from calve.iceberg.name import TableName
from calve.iceberg.pointer import Pointer
from calve.iceberg.table import Metadata, Table, confine
from calve.partitioning import PartitionField, SortField
from calve.schema import Schema
from calve.trust import Policy, overrides, preflight

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


POLICY = "spark.calve.trust."
"""The settings of a session that say, by the name of a catalog, whom and what the declaration trusts."""

_OPENED = "spark.calve.opened."


def _active() -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.active()


def _policy(spark: SparkSession, name: str) -> Policy | None:
    text = spark.conf.get(f"{POLICY}{name}", None)
    return Policy.from_json(text) if text else None


def _sent(io: Any) -> list[dict[str, str]]:
    """What files of a table are opened with, for each of the credentials that came with it."""
    own = java.strings(io.properties())
    vended = [own]
    if java.is_a(io, "org.apache.iceberg.io.SupportsStorageCredentials"):
        vended = [{**own, **java.strings(one.config())} for one in java.each(io.credentials())] or [own]
    for settings in vended:
        overrides.remember_secrets(settings)
    return vended


def _settings(spark: SparkSession, name: str) -> dict[str, str]:
    """The properties that the session has for a catalog."""
    prefix = f"spark.sql.catalog.{name}."
    found = spark.conf.getAll
    return {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}


_locks: dict[str, threading.Lock] = {}


@contextmanager
def _opening(told: str, is_server: bool) -> Iterator[None]:
    """Inside, no other thread opens the catalog: each would make the tables that it keeps in a database."""
    if is_server:
        yield
        return
    with _locks.setdefault(told, threading.Lock()):
        yield


class Catalog:
    """An Iceberg catalog as the Spark session has it configured."""

    def __init__(self, spark: SparkSession | None, name: str, told: str | None = None) -> None:
        """`told` is what people know the catalog by; without `spark` the thread's own session is meant."""
        self.name = name
        self._told = told or f"catalog {name!r}"
        self._jvm = gateway.jvm()
        self._spark = spark or _active()
        self._policy = _policy(self._spark, name)
        self._declared: dict[str, str] = {}
        self._tables: WeakSet[Table] = WeakSet()
        self._opened = self._open()
        self._pointer = Pointer.of(name, _settings(self._spark, name))

    @property
    def _java(self) -> Any:
        """The catalog as Iceberg's Java interface has it."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> Any:
        """Open the catalog, unless the session has it open."""
        spark = self._spark
        if self._policy and self._policy.uris:
            self._declared = _settings(spark, self.name)
            self._ask_first(spark, self._policy)
        with (
            _opening(self._told, bool(self._policy and self._policy.uris)),
            translated(f"reach {self._told}"),
        ):
            found = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(
                spark._jsparkSession, self.name
            )
        if self._policy and self._policy.uris:
            overrides.refuse(self._policy, java.strings(found.properties()), self._declared)
            redirects.refuse(found)
            spark.conf.set(f"{_OPENED}{self.name}", "true")
        return found

    def renew(self) -> None:
        """Have it and its tables opened again when they are next asked for, with new tokens and keys."""
        self._spark._jsparkSession.sessionState().catalogManager().reset()
        self._spark.conf.unset(f"{_OPENED}{self.name}")
        self._opened = None
        for table in list(self._tables):
            table.forget()

    def _ask_first(self, spark: SparkSession, policy: Policy) -> None:
        """Take no setting from a catalog that leads elsewhere; a session asks once, as it opens it once."""
        opened = spark.conf.get(f"{_OPENED}{self.name}", None)
        if opened or not preflight.is_needed(policy, self._declared):
            return
        found = preflight.checked(policy, self._declared)
        for key in ("uri", "oauth2-server-uri"):
            if found.get(key) != self._declared.get(key):
                spark.conf.set(f"spark.sql.catalog.{self.name}.{key}", found[key])
        self._declared = found

    def properties(self) -> dict[str, str]:
        """What the catalog was declared with, and what it says of itself on top; secrets among it."""
        return java.strings(self._java.properties())

    def namespaces(self) -> list[str]:
        """The namespaces at the top of the catalog."""
        with translated(f"list the namespaces of catalog '{self.name}'"):
            return [".".join(namespace.levels()) for namespace in self._java.listNamespaces()]

    def tables(self, namespace: Sequence[str]) -> list[TableName]:
        """The tables of `namespace`."""
        with translated(f"list the tables of '{'.'.join(namespace)}'"):
            found = self._java.listTables(self._namespace(namespace))
            return [TableName(self.name, tuple(namespace), table.name()) for table in found]

    def has_namespace(self, namespace: Sequence[str]) -> bool:
        with translated(f"look for namespace '{'.'.join(namespace)}'"):
            return bool(self._java.namespaceExists(self._namespace(namespace)))

    def has_table(self, name: TableName) -> bool:
        with self._readable(name), translated(f"look for table '{name}'"):
            found = bool(self._java.tableExists(self._identifier(name)))
        # A table whose metadata cannot be read is taken for none by some catalogs.
        if not found and self._pointer and (refusal := self._pointer.refusal(name)):
            raise refusal
        return found

    @contextmanager
    def _readable(self, name: TableName) -> Iterator[None]:
        """Raise what can be done about a table of which the catalog knows a metadata file that is damaged."""
        try:
            yield
        except CalveError as error:
            refusal = self._pointer.refusal(name) if self._pointer else None
            if refusal is not None:
                raise refusal from error
            raise

    def load(self, name: TableName) -> Table:
        """The table as it is now; raises ConfigurationError if there is none."""
        table = Table(name, self._loaded(name), self._policy, partial(self._loaded, name), self._pointer)
        self._tables.add(table)
        return table

    def _loaded(self, name: TableName) -> Any:
        """The table as Iceberg's Java interface has it, if nothing of it leads elsewhere."""
        with self._readable(name), translated(f"load table '{name}'"):
            found = self._java.loadTable(self._identifier(name))
            sent = _sent(found.io()) if self._declared else []
        for settings in sent:
            if self._policy:
                overrides.refuse(self._policy, settings, self._declared, table=str(name))
        confine(self._policy, name, Metadata(found.operations().current()))
        return found

    def drop(self, name: TableName) -> None:
        """Forget the table and delete its files."""
        with translated(f"drop table '{name}'"):
            # A catalog behind the REST protocol deletes them itself.
            table = None if self._declared else self._java.loadTable(self._identifier(name))
            if table is None or not purge.gets_stuck(table.io()):
                self._java.dropTable(self._identifier(name), True)
                return
            files = purge.files(table)
            self._java.dropTable(self._identifier(name), False)
            table.io().deleteFiles(java.object_list(files))

    def create_namespace(self, namespace: Sequence[str]) -> None:
        """Create `namespace` and those above it, as far as they are not there."""
        for depth in range(1, len(namespace) + 1):
            part = namespace[:depth]
            if not self.has_namespace(part):
                self._create_one_namespace(part)

    def _create_one_namespace(self, namespace: Sequence[str]) -> None:
        try:
            with translated(f"create namespace '{'.'.join(namespace)}'"):
                self._java.createNamespace(self._namespace(namespace))
        except CalveError:
            # Catalogs do not agree on what they raise where another process was faster.
            if not self.has_namespace(namespace):
                raise

    def create(
        self,
        name: TableName,
        schema: Schema,
        partition: Sequence[PartitionField],
        sort: Sequence[SortField],
        properties: Mapping[str, str],
        keys: Sequence[str] = (),
    ) -> Table:
        """Create the table with `keys` as identifier fields, or load it if another process was faster."""
        java_schema = self._schema(schema, keys)
        builder = self._java.buildTable(self._identifier(name), java_schema)
        builder = builder.withPartitionSpec(self._spec(java_schema, partition))
        builder = builder.withSortOrder(self._sort_order(java_schema, sort))
        for key, value in properties.items():
            builder = builder.withProperty(key, value)
        try:
            with translated(f"create table '{name}'"):
                builder.create()
        except CalveError:
            if not self.has_table(name):
                raise
        table = self.load(name)
        with translated(f"create table '{name}'"):
            durable.flush([table.metadata().file])
        return table

    def _identifier(self, name: TableName) -> Any:
        return self._jvm.org.apache.iceberg.catalog.TableIdentifier.of(
            self._namespace(name.namespace), name.table
        )

    def _namespace(self, levels: Sequence[str]) -> Any:
        return self._jvm.org.apache.iceberg.catalog.Namespace.of(java.string_array(levels))

    def _schema(self, schema: Schema, keys: Sequence[str] = ()) -> Any:
        spark_type = self._jvm.org.apache.spark.sql.types.DataType.fromJson(
            json.dumps(schema.to_spark_json())
        )
        converted = self._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(spark_type)
        # Spark numbers fields from 0, which some REST servers take for "missing".
        fresh = self._jvm.org.apache.iceberg.types.TypeUtil.assignIncreasingFreshIds(converted)
        if not keys:
            return fresh
        ids = self._jvm.java.util.HashSet()
        for name in keys:
            ids.add(fresh.findField(name).fieldId())
        return self._jvm.org.apache.iceberg.Schema(fresh.columns(), ids)

    def _spec(self, java_schema: Any, fields: Sequence[PartitionField]) -> Any:
        builder = self._jvm.org.apache.iceberg.PartitionSpec.builderFor(java_schema)
        for field in fields:
            add = getattr(builder, field.transform)
            builder = add(field.column) if field.parameter is None else add(field.column, field.parameter)
        with translated("make the partition spec"):
            return builder.build()

    def _sort_order(self, java_schema: Any, fields: Sequence[SortField]) -> Any:
        builder = self._jvm.org.apache.iceberg.SortOrder.builderFor(java_schema)
        nulls = self._jvm.org.apache.iceberg.NullOrder
        for field in fields:
            add = builder.desc if field.descending else builder.asc
            builder = add(field.column, nulls.NULLS_FIRST if field.nulls_first else nulls.NULLS_LAST)
        return builder.build()
