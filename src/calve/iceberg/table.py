"""Tables, and what their metadata says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from calve import gateway, schema
from calve.errors import TableGone
from calve.iceberg import durable, failures, java, travel
from calve.iceberg.failures import translated
from calve.iceberg.name import TableName
from calve.iceberg.pointer import Pointer
from calve.iceberg.travel import History, Snapshot
from calve.partitioning import PartitionField
from calve.position import (
    SUMMARY_COMMIT,
    SUMMARY_DIGEST,
    SUMMARY_EPOCH,
    SUMMARY_SINK,
    Ancestor,
    Mark,
    parse,
)
from calve.trust import Policy, locations

_OF_NESSIE = "nessie.catalog.content-id"
"""What tells that Nessie's REST side has the table, which keeps no snapshot but the current one."""


@dataclass(frozen=True)
class Shape:
    """What data and delete files are made for; a table with another shape needs other files."""

    uuid: str
    schema_id: int
    spec_id: int
    format_version: int


class Metadata:
    """One version of a table's metadata; it never changes."""

    def __init__(self, java_metadata: Any) -> None:
        self.java = java_metadata

    @property
    def uuid(self) -> str:
        return str(self.java.uuid())

    @property
    def updated_ms(self) -> int:
        """When the table was last changed, by the clock of whoever did it."""
        return int(self.java.lastUpdatedMillis())

    @property
    def format_version(self) -> int:
        return int(self.java.formatVersion())

    @property
    def shape(self) -> Shape:
        """What files for this version of the table are made for."""
        found = self.java
        return Shape(self.uuid, int(found.currentSchemaId()), int(found.defaultSpecId()), self.format_version)

    @property
    def location(self) -> str:
        return str(self.java.location())

    @property
    def data_location(self) -> str:
        """Where data files lie: in the table's place, or where its properties say."""
        said = self.property("write.data.path") or self.property("write.folder-storage.path")
        return said or self.location

    @property
    def file(self) -> str:
        """The path of the metadata file, as readers without a catalog want it."""
        return str(self.java.metadataFileLocation())

    @property
    def last_sequence(self) -> int:
        return int(self.java.lastSequenceNumber())

    def properties(self) -> dict[str, str]:
        return java.strings(self.java.properties())

    def property(self, name: str) -> str | None:
        value = self.java.properties().get(name)
        return None if value is None else str(value)

    def mark(self, name: str) -> Mark | None:
        """The mark that the property `name` holds; raises ValueError if it holds something else."""
        text = self.property(name)
        return None if text is None else parse(text)

    def schema(self) -> schema.Schema:
        convert = java.Statics("org.apache.iceberg.spark.SparkSchemaUtil").convert
        return schema.from_spark_json(json.loads(convert(self.java.schema()).json()))

    def types(self) -> tuple[dict[str, str], list[str]]:
        """Iceberg's type of each column without parts, by its path; and the columns that have a default."""
        told = json.loads(java.Statics("org.apache.iceberg.SchemaParser").toJson(self.java.schema()))
        found = {path: kind for one in told["fields"] for path, kind in _types(one["name"], one["type"])}
        return found, [one["name"] for one in told["fields"] if "write-default" in one]

    def partition(self) -> tuple[PartitionField, ...]:
        """The fields of the table's current partition spec."""
        java_schema = self.java.schema()
        fields = java.each(self.java.spec().fields())
        return tuple(
            _partition_field(str(field.transform()), java_schema.findColumnName(field.sourceId()))
            for field in fields
        )

    def partition_fields(self) -> tuple[PartitionField, ...]:
        """The fields of all partition specs that the table has or had."""
        java_schema = self.java.schema()
        fields = [field for spec in java.each(self.java.specs()) for field in java.each(spec.fields())]
        named = {field.sourceId(): java_schema.findColumnName(field.sourceId()) for field in fields}
        return tuple(
            _partition_field(str(field.transform()), named[field.sourceId()])
            for field in fields
            if named[field.sourceId()] is not None
        )

    def sort_columns(self) -> tuple[str, ...]:
        """The columns of the table's sort order."""
        java_schema = self.java.schema()
        fields = java.each(self.java.sortOrder().fields())
        names = (java_schema.findColumnName(field.sourceId()) for field in fields)
        return tuple(name for name in names if name is not None)

    def head(self, branch: str) -> Any:
        """The snapshot at the head of `branch`; a branch that does not exist yet begins at main's."""
        ref = self.java.ref(branch)
        return self.java.currentSnapshot() if ref is None else self.java.snapshot(ref.snapshotId())

    def has_branch(self, branch: str) -> bool:
        return self.java.ref(branch) is not None

    def new_names(self) -> dict[str, str]:
        """What columns are called now that had another name in an earlier schema of the table, by that name.

        A column keeps its id when it is renamed. A name that a column has now, or that belonged to several
        columns one after the other, tells nothing.
        """
        now = _column_names(self.java.schema())
        found: dict[str, set[int]] = {}
        for earlier in java.each(self.java.schemas()):
            for number, name in _column_names(earlier).items():
                found.setdefault(name, set()).add(number)
        there = set(now.values())
        return {
            name: now[number]
            for name, numbers in found.items()
            if name not in there and len(numbers) == 1
            for number in numbers
            if number in now
        }

    def parent(self, snapshot: int) -> int | None:
        """The snapshot that `snapshot` was made on, if the table still has it."""
        found = self.java.snapshot(self.java.snapshot(snapshot).parentId() or 0)
        return None if found is None else int(found.snapshotId())

    def at(self, snapshot: int, branch: str) -> Metadata:
        """The same with `branch` at an earlier `snapshot`; no catalog ever has it."""
        builder = gateway.jvm().org.apache.iceberg.TableMetadata.buildFrom(self.java)
        return Metadata(builder.setBranchSnapshot(snapshot, branch).build())

    def ancestors(self, branch: str, known: int | None = None) -> Iterator[Ancestor]:
        """The snapshots of `branch`, newest first, as far as they are retained.

        Of those between the head and the snapshot `known`, if the branch has it, only commits of sinks.
        """
        snapshot = self.head(branch)
        forgets = self.property(_OF_NESSIE) is not None
        if snapshot is not None and known is not None and self._has(snapshot, known):
            yield _ancestor(snapshot, snapshot.parentId(), forgets)
            yield from self._own_between(snapshot, known, forgets)
            snapshot = self.java.snapshot(known)
        while snapshot is not None:
            parent = snapshot.parentId()
            yield _ancestor(snapshot, parent, forgets)
            snapshot = None if parent is None else self.java.snapshot(parent)

    def _own_between(self, head: Any, known: int, forgets: bool) -> Iterator[Ancestor]:
        """The commits of sinks behind `head` and before `known`; of others hardly anything is asked."""
        number = head.parentId()
        while number is not None and number != known:
            snapshot = self.java.snapshot(number)
            number = snapshot.parentId()
            if snapshot.summary().get(SUMMARY_SINK) is not None:
                yield _ancestor(snapshot, number, forgets)

    def _has(self, head: Any, known: int) -> bool:
        """Whether `known` is behind `head`; Java walks a hundred snapshots while Python asks for one."""
        iceberg = gateway.jvm().org.apache.iceberg
        view = iceberg.BaseTable(iceberg.StaticTableOperations(self.java, None), "")
        number = head.snapshotId()
        return number != known and bool(iceberg.util.SnapshotUtil.isAncestorOf(view, number, known))

    def history(self, table: str) -> History:
        """All that `travel` needs of the table called `table`; Java tells it in one answer."""
        text = gateway.jvm().org.apache.iceberg.TableMetadataParser.toJson(self.java)
        return travel.parse(text, table)

    def identifier_fields(self) -> tuple[str, ...]:
        """The columns that tell rows apart, if the table says so."""
        names = java.each(self.java.schema().identifierFieldNames())
        return tuple(name for name in self.schema().names if name in names)

    def snapshots(self) -> list[Snapshot]:
        """All retained snapshots, oldest first."""
        return [_snapshot(one) for one in java.each(self.java.snapshots())]


class Table:
    """An Iceberg table."""

    def __init__(
        self,
        name: TableName,
        java_table: Any,
        policy: Policy | None = None,
        again: Callable[[], Any] | None = None,
        pointer: Pointer | None = None,
    ) -> None:
        """`again` loads the table of Java's anew, after its catalog was; `pointer` swaps its metadata."""
        self.name = name
        self._java = java_table
        self._policy = policy
        self._again = again
        self._pointer = pointer

    @property
    def java(self) -> Any:
        """The table as Iceberg's Java interface has it."""
        if self._java is None and self._again is not None:
            self._java = self._again()
        return self._java

    def forget(self) -> None:
        """Load the table again when it is next asked for, as its keys are no longer good."""
        if self._again is not None:
            self._java = None

    def metadata(self) -> Metadata:
        """The metadata as last loaded."""
        return self._there(self.java.operations().current())

    def frozen(self, metadata: Metadata | None = None) -> Table:
        """The table as it was last loaded, or with `metadata`: whatever is committed, it stays like that.

        One thread loads a table of Java's again; all others need a view that nobody loads.
        """
        iceberg, live = gateway.jvm().org.apache.iceberg, self.java
        base = metadata or self.metadata()
        operations = iceberg.StaticTableOperations(base.java, live.io(), live.locationProvider())
        return Table(self.name, iceberg.BaseTable(operations, str(live.name())), self._policy)

    def _there(self, found: Any) -> Metadata:
        """Metadata of Java's, which has none of a table that is gone."""
        if found is None:
            raise gone(self.name)
        return Metadata(found)

    def commit(self, base: Metadata, new: Any, written: Sequence[str] = ()) -> None:
        """Swap the metadata `base` for `new`, when the files `written` that it points to are on disk."""
        operations = self.java.operations()
        if self._pointer is None:
            durable.flush(written)
            operations.commit(base.java, new)
            return
        self._pointer.swap(self.name, operations, base.java, new, written)
        operations.refresh()

    def remove_files(self) -> None:
        """Delete all that is left in the place of a table that has been dropped, where the store can."""
        io = self.java.io()
        with translated(f"delete the files of table '{self.name}'"):
            if java.is_a(io, "org.apache.iceberg.io.SupportsPrefixOperations"):
                io.deletePrefix(self.metadata().location)

    def refresh(self) -> Metadata:
        """Load the metadata again and return it."""
        with translated(f"go on with table '{self.name}'"):
            found = self._there(self.java.operations().refresh())
        return confine(self._policy, self.name, found)

    def confine_files(self, files: Iterable[str]) -> None:
        """Raise ConfigurationError for files that only a hostile server can have put among the table's."""
        if self._policy is not None and self._policy.uris:
            locations.refuse_files(self._policy, str(self.name), self.metadata().location, files)


def gone(table: TableName) -> TableGone:
    """There is no table of that name any more."""
    return TableGone(f"Cannot go on with table '{table}': {failures.GONE}", table=str(table))


def confine(policy: Policy | None, table: TableName, metadata: Metadata) -> Metadata:
    """`metadata`, unless by it files of the table lie where the declaration has no place for them."""
    if policy is not None:
        names = (*locations.PATHS, locations.PROVIDER)
        paths = {name: path for name in names if (path := metadata.property(name))}
        locations.refuse(policy, str(table), metadata.location, paths)
    return metadata


def _column_names(java_schema: Any) -> dict[int, str]:
    """The names of the columns at the top of a schema, by their ids."""
    return {int(one.fieldId()): str(one.name()) for one in java.each(java_schema.columns())}


def _types(path: str, kind: Any) -> Iterator[tuple[str, str]]:
    if isinstance(kind, str):
        yield path, kind
        return
    inside = {one["name"]: one["type"] for one in kind.get("fields", ())}
    inside |= {name: kind[name] for name in ("element", "key", "value") if name in kind}
    for name, one in inside.items():
        yield from _types(f"{path}.{name}", one)


def _ancestor(snapshot: Any, parent: int | None, forgets: bool) -> Ancestor:
    """A snapshot; where the catalog `forgets` what came before, its number tells whether there was any."""
    summary, sequence = snapshot.summary(), snapshot.sequenceNumber()
    return Ancestor(
        sequence=sequence,
        # Some engines take an expired parent away; files that this snapshot did not add tell that it had one.
        continues=parent is not None
        or summary.get("total-data-files") != summary.get("added-data-files", "0")
        or (forgets and sequence > 1),
        sink=summary.get(SUMMARY_SINK),
        epoch=int(summary.get(SUMMARY_EPOCH) or 0),
        commit=summary.get(SUMMARY_COMMIT),
        digest=summary.get(SUMMARY_DIGEST),
        id=snapshot.snapshotId(),
    )


def _partition_field(transform: str, column: str) -> PartitionField:
    match = re.fullmatch(r"(\w+)(?:\[(\d+)\])?", transform)
    assert match is not None, transform
    return PartitionField(match[1], column, int(match[2]) if match[2] else None)


def _snapshot(snapshot: Any) -> Snapshot:
    return Snapshot(
        id=snapshot.snapshotId(),
        parent=snapshot.parentId(),
        sequence=snapshot.sequenceNumber(),
        committed_ms=snapshot.timestampMillis(),
        operation=str(snapshot.operation()),
        summary=dict(snapshot.summary()),
    )
