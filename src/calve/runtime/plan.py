"""What a run would do, found out without changing anything."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from calve.errors import CalveError, ConfigurationError, StartRefused, TryAgain
from calve.iceberg.evolve import Steps
from calve.patience import Patience
from calve.position import Position
from calve.project import ResolvedPipeline
from calve.runtime import session, tables
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.runtime.streaming import runner_of
from calve.schema import Schema
from calve.sink import choice, dead_letter, prepare
from calve.sink.choice import Held, Needs
from calve.sink.routed import Routed, lead_of, writer_of
from calve.sink.writer import Writer
from calve.sources.source import Limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("calve")


@dataclass
class Plan:
    """What a run of one pipeline would do; None stands for what is not known."""

    pipeline: str
    table: str
    catalog: str
    branch: str
    dead_letter: str | None = None
    """The table for bad records; None where they stop the pipeline, or where there can be none."""
    exists: bool | None = None
    columns: Schema | None = None
    partition: tuple[str, ...] | None = None
    sort: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    marked: bool | None = None
    position: Position | None = None
    waiting: int | None = None
    epoch: int | None = None
    warnings: tuple[str, ...] = ()
    changes: Steps = field(default_factory=Steps)
    writer: str = ""
    """Which writer makes the data files, and why."""
    refusal: CalveError | None = None
    lead: str | None = None
    """The table that lists the others, where rows go to several."""
    tables: tuple[str, ...] | None = None

    def is_pending(self) -> bool:
        """Whether a run would change something."""
        return self.exists is False or bool(self.waiting) or bool(self.changes)


def declared(pipeline: ResolvedPipeline) -> Plan:
    """What the declaration alone tells."""
    sink = pipeline.sink
    partition = sink.partition_fields_declared()
    letters = dead_letter.table_name(sink)
    return Plan(
        pipeline=pipeline.name,
        table=str(prepare.table_name(sink)),
        lead=str(prepare.table_name(lead_of(sink, pipeline.sink_id))) if sink.template else None,
        catalog=sink.catalog.description(),
        branch=sink.branch,
        dead_letter=str(letters) if letters and pipeline.source.catches else None,
        columns=None if pipeline.transforms else pipeline.source.columns(),
        partition=None if partition is None else tuple(map(str, partition)),
        sort=tuple(map(str, sink.sort_fields())),
        properties=prepare.creation_properties(sink),
        warnings=_warnings(pipeline),
        writer=_writer(pipeline),
    )


def _warnings(pipeline: ResolvedPipeline) -> tuple[str, ...]:
    of_transforms = (line for transform in pipeline.transforms for line in transform.warnings())
    return (*pipeline.source.warnings(), *of_transforms)


def _writer(pipeline: ResolvedPipeline, found: Plan | None = None, held: Held | None = None) -> str:
    """Which writer makes the data files, as far as it is known."""
    transforms, sink = bool(pipeline.transforms), pipeline.sink
    columns = found.columns if found else None if transforms else pipeline.source.columns()
    # A table that is changed first fits the rows then.
    rows = columns if found and not found.changes else None
    held = held or prepare.held_by_new(columns, sink)
    return choice.described(Needs(sink, pipeline.source.decodes, transforms, held, rows))


def plan(
    spark: SparkSession,
    pipeline: ResolvedPipeline,
    sink_ids: Collection[str] = (),
    status: Path | None = None,
) -> Plan:
    """What a run would do; an error that would end it is part of the plan.

    `status` is the folder in which runs keep what they know of their tables.
    """
    found = declared(pipeline)
    catalogs = [one for one in pipeline.catalogs if tables.is_there(one)]
    try:
        branch = session.branch_off(spark, catalogs)
        runner = runner_of(pipeline, branch, Stop(), Report(pipeline.name, status))
        _look(found, branch, pipeline, sink_ids, runner)
    except CalveError as error:
        log.debug("%s is refused", pipeline.name, exc_info=True)
        found.refusal = cause(error)
        if isinstance(found.refusal, StartRefused):
            found.refusal.pipeline = pipeline.name
    return found


def cause(error: CalveError) -> CalveError:
    """The error itself, where it was not waited for."""
    return (
        error.__cause__ if isinstance(error, TryAgain) and isinstance(error.__cause__, CalveError) else error
    )


def _look(
    found: Plan,
    spark: SparkSession,
    pipeline: ResolvedPipeline,
    sink_ids: Collection[str],
    runner: Runner,
) -> None:
    source, sink = pipeline.source, pipeline.sink
    found.exists = False
    writer = None
    if tables.is_there(sink.catalog):
        fingerprint = pipeline.fingerprint()
        names = (pipeline.sink_id, Patience(0), sink_ids, fingerprint)
        writer = writer_of(spark, sink, *names, pipeline.source.overlaps)
        found.exists = tables.exists(spark, writer.name)
    mark = writer.find(source.identity()) if writer else None
    if writer and mark is None:
        runner.check_same_table(writer)
    found.marked = mark is not None
    found.epoch = mark.epoch + 1 if mark else 1
    found.position = mark.position if mark else source.start()
    found.warnings += _order_warnings(pipeline, found.position)
    if writer:
        runner.expect(writer)
    found.columns = runner.columns(found.position, closely=True)
    _check_creatable(found)
    if isinstance(writer, Routed):
        found.tables = tuple(str(writer.table_name(name)) for name in writer.tables)
    if writer and (found.exists or isinstance(writer, Routed)) and found.columns.columns:
        found.changes = writer.check(found.columns, runner.is_said)
    found.writer = _writer(pipeline, found, _held(writer, found))
    if not source.is_streaming:
        found.waiting = source.latest(found.position, Limits(sink.max_batch_size)).rows


def _order_warnings(pipeline: ResolvedPipeline, position: Position) -> tuple[str, ...]:
    """What to know of changes for which nothing but their arrival tells which is the later one."""
    source, sink = pipeline.source, pipeline.sink
    if sink.commit_mode != "upsert" or sink.order_by is not None:
        return ()
    is_by_stream = sink.template is not None and sink.template.is_by_stream
    return tuple((source.streamed() if is_by_stream else source).order_warnings(position))


def _held(writer: Writer | Routed | None, found: Plan) -> Held | None:
    return prepare.held(writer.table) if found.exists and isinstance(writer, Writer) else None


def _check_creatable(found: Plan) -> None:
    if not found.exists and found.partition is None and found.lead is None:
        raise ConfigurationError(
            f"Cannot create table '{found.table}': partitioning is 'table_default' and there is no table; "
            "create the table first, or declare its partitioning"
        )
