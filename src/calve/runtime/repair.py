"""An operator's decision where a pipeline begins that refuses to start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from calve import position
from calve.errors import UsageError
from calve.iceberg.catalog import Catalog
from calve.iceberg.name import TableName
from calve.iceberg.pointer import Pointer
from calve.iceberg.table import Table
from calve.patience import Patience
from calve.position import Lineage, Mark, NewerMark, Position
from calve.project import ResolvedPipeline
from calve.runtime import tables
from calve.sink import prepare, refusals, routed, routes
from calve.sink.commit import Committer
from calve.sink.routed import lead_of
from calve.sink.routes import Bounds
from calve.sources.source import Limits, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING = Limits(2**62)


@dataclass(frozen=True)
class Repair:
    """What is to be written to the table: the next epoch at `position`, and why."""

    table: Table
    mark: Mark | None
    source: str
    position: Position
    reason: str
    also: tuple[Repair, ...] = ()
    """The same decision for more tables, where rows go to several."""

    @property
    def epoch(self) -> int:
        return self.mark.epoch + 1 if self.mark else 1


def accept_rollback(spark: SparkSession, pipeline: ResolvedPipeline) -> Repair:
    """Go on behind the mark, although rows that it counts as written are gone."""
    table = _load(spark, pipeline)
    found = [(one, _mark(one, pipeline)) for one in (table, *_routed(spark, pipeline, table))]
    if all(mark is None for _, mark in found):
        raise UsageError(
            f"Cannot accept a rollback of table '{table.name}': '{pipeline.sink_id}' has no mark in it"
        )
    kept = [
        Repair(one, mark, mark.source, mark.position, "accepted a rollback")
        for one, mark in found
        if mark is not None and _is_rolled_back(one, mark, pipeline)
    ]
    if not kept:
        raise UsageError(f"Cannot accept a rollback of table '{table.name}': it was not rolled back")
    return _together(kept)


def accept_loss(spark: SparkSession, pipeline: ResolvedPipeline) -> Repair:
    """Go on although the source has lost records unread: only where it has, the position moves."""
    table = _load(spark, pipeline)
    mark = _mark(table, pipeline)
    if mark is None:
        raise UsageError(
            f"Cannot accept a loss: '{pipeline.sink_id}' has no position in table '{table.name}'"
        )
    if mark.source != pipeline.source.identity():
        raise UsageError(f"Cannot accept a loss: the mark in table '{table.name}' is of another source")
    if _is_unfinished(spark, pipeline, table, mark):
        raise UsageError(
            f"Cannot accept a loss: a batch of the tables of '{table.name}' is unfinished; see --restart-from"
        )
    to = pipeline.source.without_lost(mark.position)
    if to == mark.position:
        raise UsageError("Cannot accept a loss: the source has all that follows the position")
    return Repair(table, mark, mark.source, to, "accepted a loss")


def _is_unfinished(spark: SparkSession, pipeline: ResolvedPipeline, lead: Table, mark: Mark) -> bool:
    marks = [_mark(one, pipeline) for one in _routed(spark, pipeline, lead)]
    found = [routes.bounds(one.position) for one in marks if one and routes.is_bounds(one.position)]
    return any(bounds.is_ahead_of(mark.position) for bounds in found)


def accept_source(spark: SparkSession, pipeline: ResolvedPipeline) -> Repair:
    """Go on behind the mark, although its source has another identity, as after moving a folder."""
    table = _load(spark, pipeline)
    source, reason = pipeline.source.identity(), "accepted another source"
    found = [(one, _mark(one, pipeline)) for one in (table, *_routed(spark, pipeline, table))]
    if found[0][1] is None:
        raise UsageError(
            f"Cannot keep a position in table '{table.name}': '{pipeline.sink_id}' has none in it"
        )
    return _together([Repair(one, mark, source, mark.position, reason) for one, mark in found if mark])


def accept_routes(spark: SparkSession, pipeline: ResolvedPipeline) -> Repair:
    """Finish an interrupted batch as rows are routed now; tables that have it keep what they have."""
    table = _load(spark, pipeline)
    mark = _mark(table, pipeline)
    marks = [(one, _mark(one, pipeline)) for one in _routed(spark, pipeline, table)]
    found = {one: its for one, its in marks if its and routes.is_bounds(its.position)}
    told = {one: routes.bounds(its.position) for one, its in found.items()}
    having = {one: bounds for one, bounds in told.items() if mark and bounds.is_ahead_of(mark.position)}
    if not having:
        raise UsageError(f"Cannot accept routes: no batch of the tables of '{table.name}' is unfinished")
    return _together([_accepted(one, found[one], bounds, pipeline) for one, bounds in having.items()])


def _accepted(table: Table, mark: Mark, bounds: Bounds, pipeline: ResolvedPipeline) -> Repair:
    accepted = replace(bounds, declaration=pipeline.fingerprint(), rows=None)
    return Repair(table, mark, mark.source, accepted.dump(), "accepted the routes as declared now")


def restart_from(spark: SparkSession, pipeline: ResolvedPipeline, place: str) -> Repair:
    """Begin at `place` of the source (earliest, latest or a position as JSON), wherever the mark stands."""
    table = _load(spark, pipeline)
    begin = _position(pipeline.source, place)
    source, reason = pipeline.source.identity(), f"restarted from {place}"
    lead = Repair(table, _mark(table, pipeline), source, begin, reason)
    fresh = Bounds.fresh(begin, pipeline.fingerprint(), lead.epoch).dump()
    routed = _routed(spark, pipeline, table)
    return _together([lead, *(Repair(one, _mark(one, pipeline), source, fresh, reason) for one in routed)])


def previous_metadata(pipeline: ResolvedPipeline, write: bool) -> dict[str, tuple[str, str]]:
    """Tables of the pipeline's namespace whose metadata cannot be read, and the metadata before it.

    With `write` the catalog points to that. Rows and position are in one file, so both are those of then.
    """
    catalog, name = pipeline.sink.catalog, leading(pipeline)
    pointer = Pointer.of(catalog.spark_name(), catalog.spark_properties())
    if pointer is None:
        raise UsageError(
            f"Cannot go back to earlier metadata in {catalog.description()}: only the embedded catalog and "
            "a SQLite file of 'jdbc' can be changed here; have the catalog point to an earlier metadata file"
        )
    found = {str(one): pointer.go_back(one, write) for one in pointer.tables(name.namespace)}
    changed = {table: places for table, places in found.items() if places}
    if not changed:
        raise UsageError(
            f"Cannot go back to earlier metadata: no table of '{'.'.join(name.namespace)}' has metadata that "
            "cannot be read, with readable metadata before it"
        )
    return changed


def write(repair: Repair, pipeline: ResolvedPipeline) -> Mark:
    """Write the decision to the table, and then to the others that it is for."""
    sink = pipeline.sink
    written = [
        Committer(
            one.table, pipeline.sink_id, sink.branch, Patience(sink.retry_for), sink.snapshot_properties
        ).decide_start(one.source, one.position, one.reason, one.mark)
        for one in (repair, *repair.also)
    ]
    return written[0]


def _together(repairs: Sequence[Repair]) -> Repair:
    return replace(repairs[0], also=tuple(repairs[1:]))


def _load(spark: SparkSession, pipeline: ResolvedPipeline) -> Table:
    """The table whose mark holds the position."""
    return tables.load(spark, leading(pipeline))


def leading(pipeline: ResolvedPipeline) -> TableName:
    """The table whose mark holds the position of `pipeline`."""
    sink = pipeline.sink
    return prepare.table_name(lead_of(sink, pipeline.sink_id) if sink.template else sink)


def _routed(spark: SparkSession, pipeline: ResolvedPipeline, lead: Table) -> list[Table]:
    """The tables that rows are routed to and that have a mark, also such that the lead has lost."""
    template = pipeline.sink.template
    if template is None:
        return []
    catalog = Catalog(spark, lead.name.catalog)
    names = {name.table for name in catalog.tables(lead.name.namespace)}
    listed = set(routed.listed(spark, lead, pipeline.sink.branch))
    wanted = sorted(name for name in names if name in listed or template.has(name))
    found = [catalog.load(replace(lead.name, table=name)) for name in wanted if name != lead.name.table]
    return [table for table in found if table.metadata().property(_property(pipeline)) is not None]


def _is_rolled_back(table: Table, mark: Mark, pipeline: ResolvedPipeline) -> bool:
    ancestors = table.metadata().ancestors(pipeline.sink.branch)
    return position.lineage(mark, ancestors, _property(pipeline)) is Lineage.ROLLED_BACK


def _property(pipeline: ResolvedPipeline) -> str:
    return position.property_name(pipeline.sink_id, pipeline.sink.branch)


def _mark(table: Table, pipeline: ResolvedPipeline) -> Mark | None:
    """The mark of the pipeline; None also where it cannot be read, which is what a repair may be for."""
    try:
        return table.metadata().mark(_property(pipeline))
    except NewerMark as error:
        raise refusals.newer(table.name, pipeline.sink_id, error.version) from error
    except ValueError:
        return None


def _position(source: Source, place: str) -> Position:
    chosen = _started(source, place)
    if chosen is None and place in ("earliest", "latest"):
        return _end(source, place)
    wanted = {} if chosen else _parsed(place)
    chosen = chosen or _started(source, wanted)
    return chosen.start() if chosen else _checked(source, wanted)


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise UsageError(
            f"Cannot restart from '{text}': give earliest, latest or a position as a JSON object"
        )
    return value


def _started(source: Source, place: object) -> Source | None:
    """The source with `place` as where it starts; None if it has no such key or does not take the value."""
    for name, field in type(source).model_fields.items():
        if (field.alias or name) == source.start_key:
            try:
                value = TypeAdapter[Any](field.annotation or Any).validate_python(place)
                return source.model_copy(update={name: value})
            except ValidationError:
                return None
    return None


def _end(source: Source, place: str) -> Position:
    begin = source.start()
    if place == "earliest":
        return begin
    waiting = source.latest(begin, EVERYTHING)
    while waiting.more:
        waiting = source.latest(waiting.to, EVERYTHING)
    return waiting.to


def _checked(source: Source, wanted: Position) -> Position:
    """The position, if the source understands it and still has what follows it."""
    try:
        source.latest(wanted, Limits(1))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        example = json.dumps(source.start())
        raise UsageError(f"Cannot restart from that position: its form is {example[:300]}") from error
    return wanted
