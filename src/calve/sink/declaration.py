"""The Iceberg sink as declared: every key, its default, and the rules among them."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from calve import addresses
from calve.catalogs.placed import Placed
from calve.model import Branch, Duration, Flaw, Model, Namespace, Size, TableName, Text, matching
from calve.partitioning import PartitionField, SortField, partition_field, sort_fields
from calve.sink import routes
from calve.sink.routes import Confinement, Template
from calve.trust import locations, policy

CODECS: dict[str, tuple[str, ...]] = {
    "parquet": ("none", "snappy", "gzip", "lz4", "zstd"),
    "avro": ("none", "snappy", "gzip", "zstd"),
    "orc": ("none", "snappy", "gzip", "lz4", "zstd"),
}
"""The compressions that Iceberg's writer of each file format has."""

_PARTITION_KEYS = ("partitioning", "partition_fields", "num_buckets", "time_granularity")

_TABLE_PROPERTIES = {
    "format-version": "use 'format_version'",
    "write.format.default": "use 'format'",
    "write.parquet.compression-codec": "use 'compression'",
    "write.avro.compression-codec": "use 'compression'",
    "write.orc.compression-codec": "use 'compression'",
    "write.target-file-size-bytes": "use 'target_file_size_mb'",
    "uuid": "Iceberg keeps it",
    "snapshot-count": "Iceberg keeps it",
    "current-schema": "Iceberg keeps it",
    "default-partition-spec": "use 'partition_by'",
    "default-sort-order": "use 'sort_by'",
}
_TABLE_PREFIXES = {
    "calve.": "it belongs to Calve",
    "commit.retry.": "Calve tries again by itself; use 'retry_for'",
    "commit.status-check.": "Calve looks by itself; use 'retry_for'",
    "current-snapshot-": "Iceberg keeps it",
}
_SUMMARY_PREFIXES = {
    "calve.": "it belongs to Calve",
    **dict.fromkeys(("added-", "deleted-", "removed-", "total-", "changed-"), "Iceberg counts it"),
}
_SUMMARY_PROPERTIES = {"operation": "Iceberg sets it", "replace-partitions": "Iceberg sets it"}


def _version(value: int) -> int:
    if value not in (2, 3):
        raise ValueError("expected one of 2, 3")
    return value


def _table(value: str) -> str:
    if routes.is_template(value):
        routes.template(value)
    elif not re.fullmatch(r"[\w-]+", value):
        raise ValueError("not the name of a table; use letters, digits, '_' and '-'")
    return value


def _partition(value: str) -> str:
    partition_field(value)
    return value


def _sort(value: str) -> str:
    sort_fields(value)
    return value


SinkId = Annotated[str, matching(r"[A-Za-z0-9_-]+", "not a sink_id; use letters, digits, '_' and '-'")]
ColumnName = Annotated[str, Field(min_length=1)]
Compression = Literal["none", "snappy", "gzip", "lz4", "zstd", "brotli"]
Partitioning = Literal["none", "table_default", "identity", "bucket", "time"]
Granularity = Literal["year", "month", "day", "hour"]


class DeadLetter(Model):
    """Where records go that cannot be taken."""

    table: TableName | None = None
    """The table for them, in the namespace of the sink. Default: the sink's table and `__dead_letter`."""

    max_ratio: float | None = Field(default=None, gt=0, le=1)
    """The share of bad records in a batch, from 0 to 1, above which the pipeline stops with 65 and nothing
    of the batch is committed. Left out: it stops where all of at least 1,000 records are bad."""

    max_count: int | None = Field(default=None, ge=0)
    """The number of bad records in a batch above which the pipeline stops with 65 and nothing of the batch
    is committed. Not used when left out."""


class Maintenance(Model):
    """Tasks that keep the table in order, and when they are due."""


class IcebergSink(Placed):
    """Writes rows to an Apache Iceberg table, exactly once."""

    connector: ClassVar[str] = "iceberg"

    namespace: Namespace
    """The namespace of the table; it is created if it is not there. Levels are divided by dots."""

    table: Annotated[str, AfterValidator(_table)]
    """The name of the table; it is created if it is not there. With columns in it, such as
    `orders_{region}`, or the stream of the source, such as `raw_{stream}`, each row goes to the table that
    its values name."""

    allowed_tables: list[TableName] = Field(default_factory=list)
    """The tables that rows may go to where `table` has columns in it. Left out: all that begin like it."""

    max_tables: int = Field(default=1000, ge=1)
    """How many tables rows may go to where `table` has columns in it."""

    branch: Branch = "main"
    """The branch of the table to write to."""

    sink_id: SinkId | None = None
    """Who writes, in the table's properties. Default: the name of the pipeline. Whoever renames a pipeline
    keeps its place by giving the old name here."""

    batch_size: int = Field(default=10_000, ge=1)
    """A commit is due when this many rows are waiting. It does not limit a batch."""

    flush_interval_secs: int = Field(default=60, ge=1)
    """A commit is due when rows are waiting and this many seconds have passed since the last one."""

    minimum_size: Size | None = None
    """A commit is also due when this much is waiting, such as `1MiB`. Not used when left out."""

    max_batch_size: int = Field(default=1_000_000, ge=1)
    """The most rows that are taken at once when much is waiting."""

    format: Literal["parquet", "avro", "orc"] = "parquet"
    """The format of data files."""

    format_version: Annotated[int, AfterValidator(_version)] = 2
    """The version of Iceberg's format for a table that is created."""

    compression: Compression = "snappy"
    """How data files are compressed. Not every format has every codec."""

    target_file_size_mb: int = Field(default=128, ge=1, le=1_048_576)
    """The size at which a data file is closed and a new one begun, in MiB."""

    partitioning: Partitioning = "none"
    """How a table that is created is partitioned: not at all, by the values of fields (`identity`), by their
    hash (`bucket`) or by time; `table_default` takes what the existing table has."""

    partition_fields: list[ColumnName] = Field(default_factory=list)
    """The columns that `partitioning` takes."""

    num_buckets: int = Field(default=16, ge=1, le=2**31 - 1)
    """The number of buckets of `partitioning: bucket`."""

    time_granularity: Granularity = "day"
    """The length of a partition of `partitioning: time`."""

    partition_by: list[Annotated[str, AfterValidator(_partition)]] = Field(default_factory=list)
    """The partition fields one by one, such as `["day(order_date)", "bucket(16, id)", "truncate(4, zip)",
    "region"]`; instead of the four keys before, never with them."""

    sort_by: list[Annotated[str, AfterValidator(_sort)]] = Field(default_factory=list)
    """The sort order of a table that is created and of the rows in each file, such as
    `["order_date desc nulls last", "id"]`."""

    commit_mode: Literal["append", "overwrite", "upsert"] = "append"
    """What a batch does to the table: add its rows, replace the data of its partitions, or replace the rows
    with the same key."""

    key_fields: list[ColumnName] = Field(default_factory=list)
    """The columns that tell rows apart in `commit_mode: upsert`."""

    deletes: Literal["position", "equality"] = "position"
    """How `commit_mode: upsert` takes old rows out: found by position, or by equality deletes, which are
    cheap to write and slow to read."""

    order_by: ColumnName | None = None
    """A column whose greater value is the later change of a key, also over batches: an older change that
    comes later is passed over, even after a delete. A change without a value in it counts when it comes.
    Left out: changes come in the order of the source."""

    tombstone_retention: Duration = 604_800.0
    """How long `order_by` remembers deleted keys, in a table that is called like this one and
    `__tombstones`, such as `7d`."""

    truncate: Literal["refuse", "delete", "ignore"] = "refuse"
    """What `commit_mode: upsert` does when the source says that it was emptied: stop, empty the table as
    well, or nothing. Not `delete` with `order_by`, nor with records of several partitions."""

    change_columns: bool = False
    """Whether `commit_mode: append` keeps changes as they are, deletes included, with their operation in
    `_op`, their order in `_seq` and their time in `_ts`."""

    overwrite_conflicts: Literal["refuse", "last_wins"] = "refuse"
    """What `commit_mode: overwrite` does when another writer committed to the same data while a batch was
    written."""

    overwrite: Literal["partitions", "table"] | list[Annotated[str, Field(min_length=1)]] = "partitions"
    """What `commit_mode: overwrite` replaces: partitions in the batch, the table, or what filters name."""

    schema_evolution: Literal["strict", "add_columns", "full"] = "add_columns"
    """What happens to the table when rows come with other columns: nothing (`strict`), new columns are added
    and types widened, or all changes are made (`full`)."""

    renames: dict[str, ColumnName] = Field(default_factory=dict)
    """Columns that `schema_evolution: full` renames, old name to new; inside structs the old one has dots."""

    type_change: Literal["new_column", "variant", "refuse"] = "new_column"
    """Where `schema_evolution: full` puts values of a type that a column cannot have: into a column with the
    type in its name, such as `amount_string`, into a VARIANT such as `amount_variant`, or nowhere."""

    partition_evolution: bool = False
    """Whether an existing table is partitioned anew as declared; files that are there stay as they are."""

    dead_letter: DeadLetter | Literal["off"] = DeadLetter()
    """Where records go that cannot be taken; with `off`, such a record stops the pipeline."""

    table_properties: dict[str, Text] = Field(default_factory=dict)
    """Properties of a table that is created, passed on as they are."""

    snapshot_properties: dict[str, Text] = Field(default_factory=dict)
    """Properties of the summary of each snapshot, passed on as they are."""

    retry_for: Duration = 600.0
    """How long a catalog, store or broker that went away is waited for, such as `10m`."""

    maintenance: Maintenance | None = None
    """Tasks that keep the table in order, and when they are due."""

    def sink_id_of(self, pipeline: str) -> str:
        """Who writes when `pipeline` uses this sink."""
        return self.sink_id or pipeline

    @property
    def template(self) -> Template | None:
        """What names the tables, where there are several."""
        return routes.template(self.table) if routes.is_template(self.table) else None

    def confinement(self, template: Template) -> Confinement:
        """The names that rows may be routed to."""
        return Confinement(template, frozenset(self.allowed_tables), self.max_tables)

    def dead_letter_table(self) -> str | None:
        """The name of the table for records that cannot be taken; None if there is none."""
        if self.dead_letter == "off":
            return None
        name = re.sub(r"[{}]", "", self.table)
        return self.dead_letter.table or f"{name}__dead_letter"

    def partition_fields_declared(self) -> tuple[PartitionField, ...] | None:
        """The declared partition fields; None for whatever the table has."""
        if self.partition_by:
            return tuple(map(partition_field, self.partition_by))
        if self.partitioning == "table_default":
            return None
        return tuple(self._seed_field(column) for column in self.partition_fields)

    def _seed_field(self, column: str) -> PartitionField:
        if self.partitioning == "bucket":
            return PartitionField("bucket", column, self.num_buckets)
        return PartitionField(self.time_granularity if self.partitioning == "time" else "identity", column)

    def sort_fields(self) -> tuple[SortField, ...]:
        """The declared sort order."""
        return tuple(field for text in self.sort_by for field in sort_fields(text))

    def columns_named(self) -> list[tuple[str, int, str]]:
        """Every column that a key names: the key, the index in it, and the column."""
        found = [("partition_fields", i, name) for i, name in enumerate(self.partition_fields)]
        found += [
            ("partition_by", i, partition_field(text).column) for i, text in enumerate(self.partition_by)
        ]
        found += [("key_fields", i, name) for i, name in enumerate(self.key_fields)]
        found += [("order_by", 0, self.order_by)] if self.order_by else []
        found += [("table", 0, name) for name in self.template.columns] if self.template else []
        sorts = [(i, field.column) for i, text in enumerate(self.sort_by) for field in sort_fields(text)]
        return found + [("sort_by", i, name) for i, name in sorts]

    def flaws(self) -> list[Flaw]:
        """What contradicts or has no effect."""
        return [
            *self.place_flaws(),
            *self._path_flaws(),
            *self._partition_flaws(),
            *self._repeated(),
            *self._mode_flaws(),
            *self._route_flaws(),
            *self._letter_flaws(),
            *self._size_flaws(),
            *_owned("table_properties", self.table_properties, _TABLE_PROPERTIES, _TABLE_PREFIXES),
            *_owned("snapshot_properties", self.snapshot_properties, _SUMMARY_PROPERTIES, _SUMMARY_PREFIXES),
        ]

    def _path_flaws(self) -> list[Flaw]:
        """Files of a table lie in the warehouse, or where the declaration allows it."""
        allowed = policy.of(self.catalog)
        paths = {
            name: self.table_properties[name] for name in locations.PATHS if name in self.table_properties
        }
        if not allowed.roots:
            return []
        return [
            Flaw(("table_properties", name), "lies outside of the warehouse; add it to 'allowed_locations'")
            for name, path in paths.items()
            if not addresses.is_inside(path, allowed.roots)
        ]

    def _without_effect(self, key: str, needs: str) -> list[Flaw]:
        return [Flaw((key,), f"has no effect without '{needs}'")] if key in self.model_fields_set else []

    def _partition_flaws(self) -> list[Flaw]:
        given = [key for key in _PARTITION_KEYS if key in self.model_fields_set]
        if "partition_by" in self.model_fields_set and given:
            return [Flaw((key,), "stands beside 'partition_by'; keep one of the two") for key in given]
        found = (
            self._without_effect("num_buckets", "partitioning: bucket")
            if self.partitioning != "bucket"
            else []
        )
        if self.partitioning != "time":
            found += self._without_effect("time_granularity", "partitioning: time")
        fields = self.partitioning in ("identity", "bucket", "time")
        if fields and not self.partition_fields:
            path = ("partition_fields",) if "partition_fields" in given else ("partitioning",)
            found.append(
                Flaw(path, f"'partitioning: {self.partitioning}' needs at least one of 'partition_fields'")
            )
        if not fields and "partition_fields" in given:
            found.append(
                Flaw(("partition_fields",), f"has no effect with 'partitioning: {self.partitioning}'")
            )
        return found

    def _repeated(self) -> list[Flaw]:
        seen: set[tuple[str, str, str]] = set()
        found = []
        for key, index, name in self.columns_named():
            kind = partition_field(self.partition_by[index]).kind if key == "partition_by" else ""
            if (key, kind, name) in seen:
                path = ("table",) if key == "table" else (key, index)
                found.append(Flaw(path, f"uses column '{name}' again"))
            seen.add((key, kind, name))
        return found

    def _mode_flaws(self) -> list[Flaw]:
        found = []
        if self.commit_mode == "upsert" and not self.key_fields:
            found.append(Flaw(("commit_mode",), "'commit_mode: upsert' needs 'key_fields'"))
        if self.commit_mode != "upsert":
            found += self._without_effect("key_fields", "commit_mode: upsert")
            for key in ("deletes", "order_by", "tombstone_retention", "truncate"):
                found += self._without_effect(key, "commit_mode: upsert")
        elif self.order_by is None:
            found += self._without_effect("tombstone_retention", "order_by")
        elif self.truncate == "delete":
            why = "cannot stand beside 'order_by': a truncate tells no order by which older changes are known"
            found.append(Flaw(("truncate",), why))
        if self.commit_mode != "append":
            found += self._without_effect("change_columns", "commit_mode: append")
        if self.commit_mode != "overwrite":
            found += self._without_effect("overwrite", "commit_mode: overwrite")
            found += self._without_effect("overwrite_conflicts", "commit_mode: overwrite")
        if self.schema_evolution != "full":
            found += self._without_effect("renames", "schema_evolution: full")
            found += self._without_effect("type_change", "schema_evolution: full")
        found += self._rename_flaws()
        if self.partition_evolution and self.commit_mode == "overwrite" and self.overwrite == "partitions":
            why = "cannot stand beside 'overwrite: partitions', which leaves files of older partitions alone"
            found.append(Flaw(("partition_evolution",), why))
        if self.partition_evolution and self.partition_fields_declared() is None:
            found.append(Flaw(("partition_evolution",), "has no effect with 'partitioning: table_default'"))
        return found

    def _rename_flaws(self) -> list[Flaw]:
        found = []
        for old, new in self.renames.items():
            if old in self.key_fields or new in self.key_fields:
                found.append(Flaw(("renames", old), "a column of 'key_fields' cannot be renamed"))
            elif new in self.renames or list(self.renames.values()).count(new) > 1:
                found.append(Flaw(("renames", old), f"'{new}' is renamed itself, or twice; name each once"))
        return found

    def _route_flaws(self) -> list[Flaw]:
        template = self.template
        if template is None:
            keys = ("allowed_tables", "max_tables")
            return [flaw for key in keys for flaw in self._without_effect(key, "table: …{column}")]
        found = []
        if not template.is_confined and not self.allowed_tables:
            message = "could name any table of the namespace; begin it with letters, or list 'allowed_tables'"
            found.append(Flaw(("table",), message))
        names = self.confinement(template)
        for index, name in enumerate(self.allowed_tables):
            if why := names.refusal(name):
                why = f"'{self.table}' never names it" if why == routes.EMPTY else why
                found.append(Flaw(("allowed_tables", index), f"'{name}' cannot be: {why}"))
        return [*found, *self._routed_upsert_flaws(template)]

    def _routed_upsert_flaws(self, template: Template) -> list[Flaw]:
        """An upsert finds the old row of a key only in the table that its new row goes to."""
        if self.commit_mode != "upsert":
            return []
        loose = [name for name in template.columns if name not in self.key_fields]
        why = "'commit_mode: upsert' needs it in 'key_fields', or a row whose value changes is in two tables"
        found = [Flaw(("table",), f"'{name}': {why}") for name in loose]
        if self.truncate == "delete" and template.columns:
            found.append(Flaw(("truncate",), "the source does not say which of the tables it means"))
        return found

    def _letter_flaws(self) -> list[Flaw]:
        if self.dead_letter_table() in (self.table, f"{self.table}__tombstones"):
            return [Flaw(("dead_letter", "table"), "another table of the sink has this name")]
        name = self.dead_letter_table()
        if name and self.template and self.confinement(self.template).refusal(name) is None:
            return [
                Flaw(("dead_letter", "table"), f"rows could be routed to it: '{self.table}' names it too")
            ]
        return []

    def _size_flaws(self) -> list[Flaw]:
        found = []
        if self.max_batch_size < self.batch_size:
            key = "max_batch_size" if "max_batch_size" in self.model_fields_set else "batch_size"
            message = f"'max_batch_size' ({self.max_batch_size}) is below 'batch_size' ({self.batch_size})"
            found.append(Flaw((key,), message))
        if self.compression not in CODECS[self.format]:
            found.append(
                Flaw(("compression",) if self._is_set("compression") else ("format",), self._no_codec())
            )
        return found

    def _is_set(self, key: str) -> bool:
        return key in self.model_fields_set

    def _no_codec(self) -> str:
        possible = ", ".join(CODECS[self.format])
        return f"Iceberg's {self.format} writer has no {self.compression} codec; expected one of {possible}"


def _owned(key: str, given: dict[str, str], names: dict[str, str], prefixes: dict[str, str]) -> list[Flaw]:
    found = []
    for name in given:
        reasons = [reason for prefix, reason in prefixes.items() if name.startswith(prefix)]
        reason = names.get(name) or next(iter(reasons), None)
        if reason:
            found.append(Flaw((key, name), f"cannot be set here: {reason}"))
    return found
