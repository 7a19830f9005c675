"""Runs the pipelines of a project side by side in one process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calve import gateway
from calve.catalogs import Catalog
from calve.errors import StartRefused, exit_code, of_system
from calve.project import Project, ResolvedPipeline
from calve.runtime import session, state, surroundings, workers
from calve.runtime.profile import OFF, Profile
from calve.runtime.report import Report
from calve.runtime.runner import Runner
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
    runner: Runner | None = None
    is_given_up: bool = False
    """Whether the end came while it waited for something, and its thread was left behind."""


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
    logs = None if debug else state.folder(project) / "logs" / "spark.log"
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
    standby: float | None = None,
) -> list[Run]:
    """Run `pipelines` until none is left; one that fails does not hold up the others.

    With `standby`, each begins when nobody else has shown for so many seconds that they run it.
    """
    folder = state.folder(project) / "status"
    runs = [
        Run(pipeline, Report(pipeline.name, folder), Profile() if profiled else OFF) for pipeline in pipelines
    ]
    declared = {project.pipeline(name).sink_id for name in project.pipelines}
    decoding = [pipeline.source for pipeline in pipelines if pipeline.source.decodes]
    if decoding:
        workers.rouse(spark, {name for source in decoding for name in source.workers_import})
    threads = [
        threading.Thread(
            target=_run, args=(spark, one, stop, once, declared, standby), name=one.pipeline.name, daemon=True
        )
        for one in runs
    ]
    for thread in threads:
        thread.start()
    _follow(runs, threads, stop, watch)
    return runs


def _follow(
    runs: Sequence[Run],
    threads: Sequence[threading.Thread],
    stop: Stop,
    watch: Callable[[Sequence[Run]], None],
) -> None:
    """Wait until all pipelines have ended, or all that are left only wait for something and are to end."""
    asked: float | None = None
    while left := [one for one, thread in zip(runs, threads, strict=True) if thread.is_alive()]:
        watch(runs)
        asked = time.monotonic() if asked is None and stop.is_requested() else asked
        if asked is not None and all(
            time.monotonic() - asked > _grace(one.runner, stop.deadline) for one in left
        ):
            for one in left:
                _give_up(one)
            break
        next(thread for thread in threads if thread.is_alive() or thread is threads[-1]).join(0.2)
    watch(runs)


def _grace(runner: Runner | None, deadline: float) -> float:
    """For how many seconds after a stop was asked for a pipeline is waited for.

    One that waits for a catalog or a source has nothing to lose. A batch that is still being read when most
    of the time is over will not be committed in the rest of it.
    """
    if runner is None or not runner.in_flight:
        return min(1.0, deadline / 3)
    return float("inf") if runner.is_committing else deadline * 2 / 3


def _give_up(one: Run) -> None:
    one.is_given_up = True
    was_reading = one.runner is not None and one.runner.in_flight
    line = "the batch that was being read was given up; the next run reads it again" if was_reading else ""
    one.report.update(state="stopped", message=line, exit_code=0)


def first_error(runs: Sequence[Run]) -> BaseException | None:
    """The failure that came first; its code is the process's."""
    failed = [one for one in runs if one.error is not None]
    return min(failed, key=lambda one: one.ended).error if failed else None


def summary(one: Run) -> str:
    """How a pipeline ended, in one line."""
    status = one.report.status
    if one.error is not None:
        return f"{status.pipeline}: {one.error}"
    if one.is_given_up and (status.message or not status.batches):
        return f"{status.pipeline}: {status.message or 'stopped while it waited; nothing was in flight'}"
    if not status.table and status.state == "stopped":
        return f"{status.pipeline}: stopped before it began"
    if not status.batches:
        return f"{status.pipeline}: nothing new for table '{status.table}'"
    bad = f", {status.dead_letters:,} bad records to its dead letters" if status.dead_letters else ""
    done = f"{status.rows:,} rows in {status.batches:,} commits to table '{status.table}'"
    return f"{status.pipeline}: {done}{bad}"


def _run(
    spark: SparkSession,
    one: Run,
    stop: Stop,
    once: bool,
    declared: Collection[str],
    standby: float | None = None,
) -> None:
    if stop.is_requested():
        # It came while Spark started: nobody is fenced by a process that ends at once.
        one.report.update(state="stopped", exit_code=0)
        return
    one.report.update(state="starting")
    try:
        branch = session.branch_off(spark, one.pipeline.catalogs, one.pipeline.sink.retry_for)
        how = (stop, one.report, once, declared, one.profile, standby)
        one.runner = runner_of(one.pipeline, branch, *how)
        one.runner.run()
    except BaseException as error:
        gone = gateway.lost(1.0 if gateway.is_connection_error(error) else 0.0)
        _fail(one, gone or of_system(error) or error)
        log.debug("%s ended", one.pipeline.name, exc_info=True)
    else:
        one.report.update(state="stopped" if stop.is_requested() else "done", exit_code=0)


def _fail(one: Run, error: BaseException) -> None:
    if one.is_given_up:
        return
    if isinstance(error, StartRefused):
        error.pipeline = one.pipeline.name
    one.error, one.ended = error, time.monotonic()
    one.report.update(state="failed", message=str(error), exit_code=exit_code(error))
