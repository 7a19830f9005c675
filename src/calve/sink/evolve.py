"""A table that follows its rows: what is decided about its schema, and done before rows are written."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from calve import partitioning, schema
from calve.errors import CalveError, DataRefused, TableMismatch
from calve.iceberg import evolve
from calve.iceberg.evolve import Steps
from calve.iceberg.name import TableName
from calve.iceberg.table import Metadata
from calve.partitioning import PartitionChange, PartitionField
from calve.patience import Patience
from calve.schema import AddColumn, Change, Policy, RenameColumn, Schema, named
from calve.sink.commit import Committer
from calve.sink.declaration import IcebergSink

log = logging.getLogger("calve")

SUMMARY = "calve.schema-changes"
LIMIT = 4096
"""How many bytes of a summary tell of changes."""


def policy(sink: IcebergSink, metadata: Metadata, is_said: bool = True) -> Policy:
    """What `sink` declares about a table."""
    held = (*(field.column for field in metadata.partition_fields()), *metadata.sort_columns())
    used = {name.split(".")[0] for name in held}
    used |= {name.split(".")[0] for key, _, name in sink.columns_named() if key != "key_fields"}
    return Policy(
        sink.schema_evolution,
        sink.type_change,
        sink.renames,
        keys=sink.key_fields if sink.commit_mode == "upsert" else (),
        used=used,
        is_said=is_said,
        format_version=metadata.format_version,
    )


def steps(metadata: Metadata, sink: IcebergSink, name: TableName, columns: Schema, is_said: bool) -> Steps:
    """What is to be done to the table before rows with `columns` are written; raises what refuses them."""
    table = metadata.schema()
    found = schema.evolution(table, columns, policy(sink, metadata, is_said))
    if found.refusals:
        why = (
            f"Cannot write to table '{name}': {'; '.join(found.refusals)}; the rows have ({columns.ddl()}), "
            f"the table has ({table.ddl()}), and 'schema_evolution' is '{sink.schema_evolution}'"
        )
        raise TableMismatch(why, table=str(name)) if is_said else DataRefused(why)
    _refuse_renamed(metadata, name, columns, found.changes)
    return Steps(found.changes, _partition(metadata, sink, name, found.changes))


def _refuse_renamed(metadata: Metadata, name: TableName, columns: Schema, made: tuple[Change, ...]) -> None:
    """Refuse to add a column that the table has under another name: its values would be in two places."""
    added = [change.column.name for change in made if isinstance(change, AddColumn) and not change.parent]
    renamed = metadata.new_names() if added else {}
    for old in added:
        new = renamed.get(old)
        if new is not None and columns.column(new) is None:
            raise TableMismatch(
                f"Cannot write to table '{name}': its column '{old}' was renamed to '{new}', and the rows "
                f"have '{old}'; declare 'schema_evolution: full' with 'renames: {{{old}: {new}}}', or add a "
                f"column '{old}' to the table to have both",
                table=str(name),
            )


def _partition(
    metadata: Metadata, sink: IcebergSink, name: TableName, made: tuple[Change, ...]
) -> tuple[PartitionChange, ...]:
    declared = sink.partition_fields_declared()
    existing = tuple(renamed(field, made) for field in metadata.partition())
    found = () if declared is None else partitioning.partition_changes(existing, declared)
    if found and not sink.partition_evolution:
        raise TableMismatch(
            f"Cannot write to table '{name}': it is partitioned by {_spec(existing)}, the declaration says "
            f"{_spec(declared or ())}; 'partitioning: table_default' takes what the table has, "
            "'partition_evolution: true' changes it for new files",
            table=str(name),
        )
    return found


def renamed(field: PartitionField, made: Iterable[Change]) -> PartitionField:
    """A partition field as it is called once `made` is done."""
    for change in made:
        if isinstance(change, RenameColumn):
            old, new = named(change.path), named((*change.path[:-1], change.name))
            if f"{field.column}.".startswith(f"{old}."):
                field = replace(field, column=new + field.column[len(old) :])
    return field


def _spec(fields: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, fields))})" if fields else "nothing"


Find = Callable[[Metadata], Steps]
"""What is to be done to a table, by its newest metadata."""


class Evolver:
    """Changes one table."""

    def __init__(self, committer: Committer, patience: Patience) -> None:
        self._committer = committer
        self._table = committer.table
        self._patience = patience

    def evolve(self, find: Find) -> None:
        """Do what `find` finds; returns when the table itself shows that nothing is left.

        What is to be done is decided on every base, so whatever landed, ours or another writer's, is not
        done again. A writer whose epoch is over changes nothing.
        """
        made: list[Steps] = []
        while not self._is_settled(find, made):
            pass
        self._patience.recovered()
        if made:
            self._tell(made[-1])

    def _is_settled(self, find: Find, made: list[Steps]) -> bool:
        """Attempt once; whether the table itself shows that nothing is left to be done."""

        def decide(base: Metadata) -> Steps:
            self._committer.check_held(base)
            found = find(base)
            made.extend([found] if found else [])
            return found

        try:
            return not evolve.attempt(self._table, decide, self._committer.branch)
        except CalveError as error:
            # A table that is gone says so itself.
            self._committer.reload()
            self._patience.wait(error)
            return False

    def _tell(self, done: Steps) -> None:
        for change, told in zip((*done.columns, *done.partition), done.events(), strict=True):
            log.info("table '%s': %s", self._table.name, change, extra={"schema_change": told})
        self._committer.notes[SUMMARY] = summary(done.events())


def summary(events: list[dict[str, Any]]) -> str:
    """`events` as compact JSON of a bounded size; of those that do not fit, the number is told."""
    kept = list(events)
    while True:
        rest = [{"more": len(events) - len(kept)}] if len(kept) < len(events) else []
        text = json.dumps([*kept, *rest], ensure_ascii=False, separators=(",", ":"))
        if len(text.encode()) <= LIMIT or not kept:
            return text
        kept.pop()
