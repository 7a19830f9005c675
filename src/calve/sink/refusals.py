"""What the commit protocol refuses, in words."""

from __future__ import annotations

from calve.errors import ConfigurationError, DataRefused, Fenced, StartRefused
from calve.iceberg.name import TableName
from calve.position import MARK_LIMIT, Mark


def unreadable(table: TableName, sink_id: str, why: str) -> StartRefused:
    """The mark was edited."""
    return StartRefused(
        f"Cannot use the mark of '{sink_id}' in table '{table}': {why}",
        command=repair(sink_id, "--restart-from earliest"),
    )


def other_source(table: TableName, sink_id: str, mark: Mark, source: str) -> StartRefused:
    """The mark belongs to another source."""
    return StartRefused(
        f"Cannot continue table '{table}': it was written from '{mark.source}' and the declaration names '{source}'",
        command=repair(sink_id, "--restart-from earliest"),
    )


def renamed(table: TableName, sink_id: str, other: str) -> StartRefused:
    """Another sink, which nobody declares any more, has read the same source."""
    return StartRefused(
        f"Cannot start '{sink_id}' on table '{table}': sink '{other}' holds a position of the same source and is "
        f"not declared, as after renaming a pipeline; set 'sink_id: {other}' to continue it",
        command=repair(sink_id, "--restart-from earliest"),
    )


def rolled_back(table: TableName, sink_id: str, branch: str) -> StartRefused:
    """The branch no longer has our last commit."""
    return StartRefused(
        f"Cannot continue table '{table}': branch '{branch}' was rolled back behind the last commit of "
        f"'{sink_id}', so rows that its mark counts as written are gone",
        command=repair(sink_id, "--accept-rollback"),
    )


def fenced(table: TableName, sink_id: str, held: Mark | None, current: Mark | None) -> Fenced:
    """Somebody else writes now."""
    now = f"epoch {current.epoch} of writer {current.writer}" if current else "no mark at all"
    return Fenced(
        f"Cannot commit to table '{table}': sink '{sink_id}' holds epoch {held.epoch if held else 0} and the "
        f"table has {now}; another process runs this pipeline, stop one of them",
        table=str(table),
        sink_id=sink_id,
    )


def dropped(table: TableName, name: str) -> ConfigurationError:
    """The catalog took the mark and did not keep it."""
    return ConfigurationError(
        f"Cannot write to table '{table}': its catalog does not keep table property '{name}'; "
        "use a catalog that keeps table properties"
    )


def too_large(table: TableName, size: int) -> DataRefused:
    """The position does not fit into a mark."""
    return DataRefused(
        f"Cannot commit to table '{table}': the position takes {size} bytes and a mark holds {MARK_LIMIT}; "
        "read fewer topics or files with one pipeline, or lower 'max_file_age'"
    )


def repair(sink_id: str, decision: str) -> str:
    """The command that takes the decision."""
    return f"calve repair --pipeline {sink_id} {decision} --yes"
