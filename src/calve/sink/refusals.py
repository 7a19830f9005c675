"""What the commit protocol refuses, in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from calve.errors import ConfigurationError, DataRefused, Fenced, StartRefused, Unavailable
from calve.iceberg import failures
from calve.iceberg.name import TableName
from calve.position import MARK_LIMIT, MARK_VERSION, Mark, Position
from calve.sink.routes import Unrouted

_LONGEST = 300


def unreadable(table: TableName, sink_id: str, why: str) -> StartRefused:
    """The mark was edited."""
    return StartRefused(
        f"Cannot use the mark of '{sink_id}' in table '{table}': {why}",
    )


def other_source(table: TableName, sink_id: str, mark: Mark, source: str) -> StartRefused:
    """The mark belongs to another source."""
    return StartRefused(
        f"Cannot continue table '{table}': it was written by '{sink_id}' from '{mark.source}' and the "
        f"declaration names '{source}'",
        decision="--accept-source",
    )


def renamed(table: TableName, sink_id: str, other: str) -> StartRefused:
    """Another sink, which nobody declares any more, has read the same source."""
    return StartRefused(
        f"Cannot start '{sink_id}' on table '{table}': sink '{other}' holds a position of the same source "
        f"and is not declared, as after renaming a pipeline; set 'sink_id: {other}' to continue it"
    )


def rolled_back(table: TableName, sink_id: str, branch: str) -> StartRefused:
    """The branch no longer has our last commit."""
    return StartRefused(
        f"Cannot continue table '{table}': branch '{branch}' was rolled back behind the last commit of "
        f"'{sink_id}', so rows that its mark counts as written are gone",
        decision="--accept-rollback",
    )


def branch_dropped(table: TableName, sink_id: str, branch: str) -> StartRefused:
    """The branch that we write to is no longer there."""
    return StartRefused(
        f"Cannot continue table '{table}': branch '{branch}' was dropped, and with it rows that the mark of "
        f"'{sink_id}' counts as written",
        decision="--accept-rollback",
    )


def mark_gone(table: TableName, sink_id: str, name: str) -> StartRefused:
    """Somebody took the mark away."""
    return StartRefused(
        f"Cannot continue table '{table}': it has commits of '{sink_id}' and no table property '{name}', so "
        "nothing tells how far its source was read",
    )


def edited(table: TableName, sink_id: str) -> StartRefused:
    """The mark is not the one that the last commit of the sink wrote."""
    return StartRefused(
        f"Cannot use the mark of '{sink_id}' in table '{table}': it differs from what the last commit of "
        f"'{sink_id}' wrote, as after an edit by hand, or after a tool wrote back table properties that it "
        "had read before that commit"
    )


def newer(table: TableName, sink_id: str, version: int) -> ConfigurationError:
    """A newer version of Calve wrote the mark."""
    return ConfigurationError(
        f"Cannot continue table '{table}': a newer version of Calve wrote the mark of '{sink_id}' (version "
        f"{version} of marks, and this one knows up to {MARK_VERSION}); run the newer version"
    )


def unmarked(table: TableName, sink_id: str, name: str, to: Position) -> StartRefused:
    """The branch has our commit, and the mark is still the one before it."""
    place = json.dumps(to, separators=(",", ":"))
    known = f"; its position is {place}" if len(place) <= _LONGEST else ""
    return StartRefused(
        f"Cannot commit to table '{table}': its branch has a commit of '{sink_id}' that table property "
        f"'{name}' does not tell of, so the catalog or another tool does not keep table properties{known}",
        decision=f"--restart-from '{place}'" if known else "--restart-from <position>",
    )


def of_later_epoch(table: TableName, sink_id: str, mark: Mark, main: int | None) -> Fenced:
    """A later process keeps the table by now."""
    return Fenced(
        f"Cannot write to table '{table}': '{sink_id}' holds epoch {main} of the table of its rows, and this "
        f"table belongs to epoch {mark.main}; another process runs it, stop one of them",
        table=str(table),
        sink_id=sink_id,
    )


def changed(table: TableName, sink_id: str) -> StartRefused:
    """The mark is not the one that the decision was made on."""
    return StartRefused(
        f"Cannot repair table '{table}': the mark of '{sink_id}' changed since the decision; look again"
    )


def recreated(table: TableName) -> StartRefused:
    """Another table has the name now."""
    return StartRefused(f"Cannot go on with table '{table}': {failures.RECREATED}")


def other_table(table: TableName, sink_id: str) -> StartRefused:
    """Another table has the name now than at the last run, and it tells nothing of a position."""
    return StartRefused(
        f"Cannot start '{sink_id}' on table '{table}': it was dropped and created again since the last run, "
        "and the new one has no mark"
    )


def nothing_to_remember(table: TableName, key: str) -> ConfigurationError:
    """The first start has a place that moves, and there is no table that could remember it."""
    return ConfigurationError(
        f"Cannot start at the declared '{key}': table '{table}' has to remember that place, does not exist "
        "yet, and no record tells which columns it would have; declare 'schema', or, as nothing is there to "
        f"be skipped, '{key}: earliest'"
    )


def other_checkpoint(table: TableName, sink_id: str, known: Position, checkpoint: str) -> StartRefused:
    """The mark belongs to another checkpoint."""
    return StartRefused(
        f"Cannot continue table '{table}': '{sink_id}' wrote it up to batch {known['batch']} of checkpoint "
        f"'{known['checkpoint']}', and the stream has checkpoint '{checkpoint}', as after deleting it; bring "
        "the old one back, or begin anew, where rows that the stream reads again are written again"
    )


def older_checkpoint(table: TableName, sink_id: str, known: Position, number: int) -> StartRefused:
    """The checkpoint is behind the table."""
    return StartRefused(
        f"Cannot continue table '{table}': '{sink_id}' wrote it up to batch {known['batch']}, and the "
        f"checkpoint goes on at batch {number}, as after bringing back an older copy of it; bring back the "
        "newest, or begin anew, where rows that the stream reads again are written again"
    )


def checkpoint_ahead(table: TableName, sink_id: str, number: int) -> StartRefused:
    """The checkpoint has batches that the table does not know of."""
    return StartRefused(
        f"Cannot start '{sink_id}' on table '{table}': its mark knows no batch of a stream, and the "
        f"checkpoint goes on at batch {number}, so rows of earlier batches may be missing; delete the "
        "checkpoint to read them again, or go on without them"
    )


def one_of_several(table: TableName, sink_id: str) -> StartRefused:
    """The mark tells of a batch of several tables, and the declaration names one table."""
    return StartRefused(
        f"Cannot continue table '{table}': '{sink_id}' wrote it as one of several tables, and now it is to "
        "be the only one; set another 'sink_id', or decide where it begins"
    )


def one_alone(table: TableName, sink_id: str) -> StartRefused:
    """The mark tells of a single table, and the declaration names several."""
    return StartRefused(
        f"Cannot continue table '{table}': '{sink_id}' wrote it as its only table, and now it is to be one "
        "of several; set another 'sink_id', or decide where all of them begin"
    )


def unlisted(table: TableName, sink_id: str, lead: TableName) -> StartRefused:
    """The table was written, and the list of tables does not have it."""
    return StartRefused(
        f"Cannot write to table '{table}': it has a mark of '{sink_id}' and is not listed in table '{lead}', "
        "as after dropping that one or rolling it back"
    )


def ends_differ(lead: TableName, tables: Iterable[str]) -> StartRefused:
    """The tables that have the interrupted batch do not say the same of it."""
    return StartRefused(
        f"Cannot finish the batch that was interrupted behind the mark of table '{lead}': tables "
        f"{_listed(tables)} have it and do not agree where it ends"
    )


def other_declaration(lead: TableName, tables: Iterable[str]) -> StartRefused:
    """The interrupted batch was begun with another declaration."""
    return StartRefused(
        f"Cannot finish the batch that was interrupted behind the mark of table '{lead}': tables "
        f"{_listed(tables)} have it already, and the source, the transforms or the routes were changed "
        "since; run once with the declaration as it was, or let those tables keep what they have",
        decision="--accept-routes",
    )


def other_routes(lead: TableName, differing: Mapping[str, tuple[int, int]]) -> StartRefused:
    """The interrupted batch routes its rows otherwise when it is read again."""
    table, (had, now) = sorted(differing.items())[0]
    return StartRefused(
        f"Cannot finish the batch that was interrupted behind the mark of table '{lead}': table '{table}' "
        f"has {had} rows of it and would get {now} now, so rows are routed otherwise than before; make the "
        "source and the transforms give the same rows again, or let those tables keep what they have",
        decision="--accept-routes",
    )


def unrouted(tables: str, found: Sequence[Unrouted], behind: Position) -> DataRefused:
    """Rows of a batch that go nowhere."""
    first, rows = found[0], sum(one.rows for one in found)
    name = "no table" if first.name is None else f"table '{first.name}'"
    place = json.dumps(behind)
    place = place if len(place) <= _LONGEST else place[: _LONGEST - 1] + "…"
    return DataRefused(
        f"Cannot route {rows} rows to '{tables}': {name}: {first.why}; they are in the batch behind {place}, "
        "of which nothing was committed"
    )


def _listed(tables: Iterable[str]) -> str:
    names = sorted(tables)
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(f"'{name}'" for name in names[:5]) + more


def stale(table: TableName) -> Unavailable:
    """The catalog serves metadata that it has replaced already."""
    return Unavailable(
        f"Cannot commit to table '{table}': its catalog serves an older version than our last commit"
    )


def not_shown(table: TableName) -> Unavailable:
    """The catalog answered that it committed."""
    return Unavailable(
        f"Cannot commit to table '{table}': its catalog says that it did, and the table does not show it"
    )


def fenced(table: TableName, sink_id: str, held: Mark | None, current: Mark | None) -> Fenced:
    """Somebody else writes now."""
    epoch = held.epoch if held else 0
    if current is None:
        now = "no mark at all; somebody removed it, and the next start asks how to go on"
    else:
        now = f"epoch {current.epoch} of writer {current.writer}; another process runs it, stop one of them"
    return Fenced(
        f"Cannot commit to table '{table}': sink '{sink_id}' holds epoch {epoch} and the table has {now}",
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
