"""Runs the pipelines of a project side by side in one process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from calve.catalogs import Catalog
from calve.errors import StartRefused
from calve.project import Project, ResolvedPipeline
from calve.runtime import session, surroundings, workers
from calve.runtime.profile import OFF, Profile
from calve.runtime.report import Report
from calve.runtime.stop import Stop
from calve.runtime.streaming import runner_of
from calve.sink import choice
from calve.sink.choice import Needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("calve")


@dataclass
class Run:
    """One pipeline in a thread of its own, and how it ended."""

    pipeline: ResolvedPipeline
    report: Report
    profile: Profile = OFF
    error: BaseException | None = None
    ended: float = 0.0


def state_folder(project: Project) -> Path:
    """Where a project's disposable state is kept."""
    return project.directory / ".calve"


def open_spark(
    project: Project,
    pipelines: Sequence[ResolvedPipeline],
    debug: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> SparkSession:
    """Start Spark with what `pipelines` need."""
    jars = {jar for pipeline in pipelines for jar in pipeline.source.jars}
    catalogs = [pipeline.sink.catalog for pipeline in pipelines]
    return open_spark_with(
        project, catalogs, jars, debug, progress, plans_only=all(map(_passes_by, pipelines))
    )


def _passes_by(pipeline: ResolvedPipeline) -> bool:
    needs = Needs(pipeline.sink, pipeline.source.decodes, bool(pipeline.transforms))
    return choice.passes_spark_by(needs)


def open_spark_with(
    project: Project,
    catalogs: Collection[Catalog],
    jars: Iterable[str] = (),
    debug: bool = False,
    progress: Callable[[str], None] = lambda line: None,
    plans_only: bool = False,
) -> SparkSession:
    """Start Spark with what `catalogs` need and the components of `jars.lock` that `jars` names."""
    logs = None if debug else state_folder(project) / "logs" / "spark.log"
    needed = {*jars, *(jar for catalog in catalogs for jar in catalog.jars)}
    return session.start(project.spark, needed, logs, progress, surroundings.of(catalogs), plans_only)


def run(
    spark: SparkSession,
    project: Project,
    pipelines: Sequence[ResolvedPipeline],
    stop: Stop,
    once: bool = False,
    watch: Callable[[Sequence[Run]], None] = lambda runs: None,
    profiled: bool = False,
) -> list[Run]:
    """Run `pipelines` until none is left; one that fails does not hold up the others."""
    folder = state_folder(project) / "status"
    runs = [
        Run(pipeline, Report(pipeline.name, folder), Profile() if profiled else OFF) for pipeline in pipelines
    ]
    declared = {project.pipeline(name).sink_id for name in project.pipelines}
    decoding = [pipeline.source for pipeline in pipelines if pipeline.source.decodes]
    if decoding:
        workers.rouse(spark, {name for source in decoding for name in source.workers_import})
    threads = [
        threading.Thread(
            target=_run, args=(spark, one, stop, once, declared), name=one.pipeline.name, daemon=True
        )
        for one in runs
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        watch(runs)
        next(thread for thread in threads if thread.is_alive() or thread is threads[-1]).join(0.2)
    watch(runs)
    return runs


def first_error(runs: Sequence[Run]) -> BaseException | None:
    """The failure that came first; its code is the process's."""
    failed = [one for one in runs if one.error is not None]
    return min(failed, key=lambda one: one.ended).error if failed else None


def summary(one: Run) -> str:
    """How a pipeline ended, in one line."""
    status = one.report.status
    if one.error is not None:
        return f"{status.pipeline}: {one.error}"
    if not status.batches:
        return f"{status.pipeline}: nothing new for table '{status.table}'"
    bad = f", {status.dead_letters:,} bad records to its dead letters" if status.dead_letters else ""
    done = f"{status.rows:,} rows in {status.batches:,} commits to table '{status.table}'"
    return f"{status.pipeline}: {done}{bad}"


def _run(spark: SparkSession, one: Run, stop: Stop, once: bool, declared: Collection[str]) -> None:
    one.report.update(state="starting")
    try:
        branch = session.branch_off(spark, one.pipeline.catalogs)
        runner_of(one.pipeline, branch, stop, one.report, once, declared, one.profile).run()
    except BaseException as error:
        _fail(one, error)
        log.debug("%s ended", one.pipeline.name, exc_info=True)
    else:
        one.report.update(state="stopped" if stop.is_requested() else "done")


def _fail(one: Run, error: BaseException) -> None:
    if isinstance(error, StartRefused):
        error.pipeline = one.pipeline.name
    one.error, one.ended = error, time.monotonic()
    one.report.update(state="failed", message=str(error))
