"""An operator's decision where a pipeline begins that refuses to start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from calve import position
from calve.errors import UsageError
from calve.iceberg.table import Table
from calve.patience import Patience
from calve.position import Lineage, Mark, Position
from calve.project import ResolvedPipeline
from calve.runtime import tables
from calve.sink import prepare
from calve.sink.commit import Committer
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

    @property
    def epoch(self) -> int:
        return self.mark.epoch + 1 if self.mark else 1


def accept_rollback(spark: SparkSession, pipeline: ResolvedPipeline) -> Repair:
    """Go on behind the mark, although rows that it counts as written are gone."""
    table = _load(spark, pipeline)
    mark = _mark(table, pipeline)
    if mark is None:
        raise UsageError(
            f"Cannot accept a rollback of table '{table.name}': '{pipeline.sink_id}' has no mark in it"
        )
    if position.lineage(mark, table.metadata().ancestors(pipeline.sink.branch)) is not Lineage.ROLLED_BACK:
        raise UsageError(f"Cannot accept a rollback of table '{table.name}': it was not rolled back")
    return Repair(table, mark, mark.source, mark.position, "accepted a rollback")


def accept_source(spark: SparkSession, pipeline: ResolvedPipeline) -> Repair:
    """Go on behind the mark, although its source has another identity, as after moving a folder."""
    table = _load(spark, pipeline)
    mark = _mark(table, pipeline)
    if mark is None:
        raise UsageError(
            f"Cannot keep a position in table '{table.name}': '{pipeline.sink_id}' has none in it"
        )
    return Repair(table, mark, pipeline.source.identity(), mark.position, "accepted another source")


def restart_from(spark: SparkSession, pipeline: ResolvedPipeline, place: str) -> Repair:
    """Begin at `place` of the source (earliest, latest or a position as JSON), wherever the mark stands."""
    table = _load(spark, pipeline)
    begin = _position(pipeline.source, place)
    mark = _mark(table, pipeline)
    return Repair(table, mark, pipeline.source.identity(), begin, f"restarted from {place}")


def write(repair: Repair, pipeline: ResolvedPipeline) -> Mark:
    """Write the decision to the table."""
    sink = pipeline.sink
    committer = Committer(
        repair.table, pipeline.sink_id, sink.branch, Patience(sink.retry_for), sink.snapshot_properties
    )
    return committer.decide_start(repair.source, repair.position, repair.reason, repair.mark)


def _load(spark: SparkSession, pipeline: ResolvedPipeline) -> Table:
    return tables.load(spark, prepare.table_name(pipeline.sink))


def _mark(table: Table, pipeline: ResolvedPipeline) -> Mark | None:
    """The mark of the pipeline; None also where it cannot be read, which is what a repair may be for."""
    try:
        return table.metadata().mark(position.property_name(pipeline.sink_id, pipeline.sink.branch))
    except ValueError:
        return None


def _position(source: Source, place: str) -> Position:
    if place in ("earliest", "latest"):
        chosen = _started(source, place)
        return chosen.start() if chosen else _end(source, place)
    wanted = _parsed(place)
    chosen = _started(source, wanted)
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
    """The source with `place` as its `start`; None if it has no such key or does not take the value."""
    for name, field in type(source).model_fields.items():
        if (field.alias or name) == "start":
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
