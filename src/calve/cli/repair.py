"""`calve repair`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calve import declare
from calve.cli import choose, render
from calve.cli.app import config_option, debug_option, output_option, say
from calve.errors import UsageError
from calve.project import Project, ResolvedPipeline
from calve.runtime import repair as runtime
from calve.runtime import tables
from calve.runtime.repair import Repair

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Decision = Callable[["SparkSession", ResolvedPipeline], Repair]


@click.command("repair")
@click.option(
    "--pipeline", "-p", "name", help="The pipeline, by its name or sink_id; needed if there are several."
)
@click.option(
    "--accept-rollback", is_flag=True, help="Go on behind the mark; rows that were rolled back stay gone."
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Go on where the source has lost records unread; what it still has stays where it is.",
)
@click.option(
    "--accept-source", is_flag=True, help="Go on behind the mark with the source as it is declared now."
)
@click.option(
    "--accept-routes",
    is_flag=True,
    help="Finish an interrupted batch as rows are routed now; tables that have it keep what they have.",
)
@click.option(
    "--restart-from",
    "place",
    help="Begin at earliest, latest, another start that the source has, or a position of it as JSON.",
)
@click.option(
    "--previous-metadata",
    is_flag=True,
    help="Where a table's metadata file cannot be read, have the embedded catalog point to the one before.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be written and end.")
@click.option("--yes", is_flag=True, help="Write it.")
@config_option
@output_option
@debug_option
def command(
    name: str | None,
    accept_rollback: bool,
    accept_loss: bool,
    accept_source: bool,
    accept_routes: bool,
    place: str | None,
    previous_metadata: bool,
    dry_run: bool,
    yes: bool,
    config: Path,
    output: str,
    debug: bool,
) -> int:
    """Decide where a pipeline that refuses to start begins, and write that to its table as a new epoch."""
    given: dict[Decision, bool] = {
        runtime.accept_rollback: accept_rollback,
        runtime.accept_loss: accept_loss,
        runtime.accept_source: accept_source,
        runtime.accept_routes: accept_routes,
        partial(runtime.restart_from, place=place or ""): place is not None,
    }
    decisions = [decision for decision, is_given in given.items() if is_given]
    if len(decisions) + previous_metadata != 1:
        options = (
            "--accept-rollback, --accept-loss, --accept-source, --accept-routes, --restart-from and "
            "--previous-metadata"
        )
        raise UsageError(f"Cannot repair: give one of {options}")
    project = declare.load(config)
    pipeline = _pipeline(project, name)
    if previous_metadata:
        return _go_back(pipeline, yes and not dry_run, 0 if dry_run else UsageError.exit_code, output)
    tables.check_catalog(pipeline.sink.catalog, runtime.leading(pipeline))
    unwritten = 0 if dry_run else UsageError.exit_code
    return _repair(project, pipeline, decisions[0], yes and not dry_run, unwritten, output, debug)


def _pipeline(project: Project, name: str | None) -> ResolvedPipeline:
    if name is not None:
        return choose.pipeline(project, name)
    if len(project.pipelines) > 1:
        raise UsageError(f"Cannot repair: name one of {', '.join(sorted(project.pipelines))} with --pipeline")
    return project.pipeline(next(iter(project.pipelines)))


def _go_back(pipeline: ResolvedPipeline, write: bool, unwritten: int, output: str) -> int:
    found = runtime.previous_metadata(pipeline, write)
    value = [{"table": name, "before": old, "after": new} for name, (old, new) in found.items()]
    lines = [
        render.Line(f"{name}: {old} cannot be read; before it: {new}") for name, (old, new) in found.items()
    ]
    render.show(output, {"tables": value, "written": write}, lines)
    say("Written; 'calve run' goes on from there" if write else "Nothing changed; add --yes to write it")
    return 0 if write else unwritten


def _repair(
    project: Project,
    pipeline: ResolvedPipeline,
    decision: Decision,
    write: bool,
    unwritten: int,
    output: str,
    debug: bool,
) -> int:
    from calve.runtime.run import open_spark
    from calve.runtime.session import branch_off

    spark = open_spark(project, [pipeline], debug, say)
    try:
        session = branch_off(spark, pipeline.catalogs)
        found = decision(session, pipeline)
        if write:
            runtime.write(found, pipeline)
    finally:
        spark.stop()
    render.show(output, _value(found, pipeline, write), _blocks(found, pipeline))
    say("Written; 'calve run' begins there" if write else "Nothing changed; add --yes to write it")
    return 0 if write else unwritten


def _value(found: Repair, pipeline: ResolvedPipeline, written: bool) -> dict[str, Any]:
    return {
        "pipeline": pipeline.name,
        "table": str(found.table.name),
        "also": [str(one.table.name) for one in found.also],
        "branch": pipeline.sink.branch,
        "sink_id": pipeline.sink_id,
        "before": _mark(found),
        "after": {"epoch": found.epoch, "source": found.source, "position": found.position},
        "reason": found.reason,
        "written": written,
    }


def _mark(found: Repair) -> dict[str, Any] | None:
    mark = found.mark
    return None if mark is None else {"epoch": mark.epoch, "source": mark.source, "position": mark.position}


def _blocks(found: Repair, pipeline: ResolvedPipeline) -> Iterator[render.Block]:
    before = _mark(found)
    yield render.Line(f"{pipeline.name}: {found.reason}, table '{found.table.name}' as '{pipeline.sink_id}'")
    headings = ("", "before", "after")
    after = {"epoch": found.epoch, "source": found.source, "position": found.position}
    yield render.Table(
        headings, [[key, before[key] if before else "none", after[key]] for key in after], indent=2
    )
    if found.also:
        yield render.Line(f"The same for {', '.join(str(one.table.name) for one in found.also)}.")
    if not found.reason.startswith("accepted"):
        yield render.Line("Rows after that position that the table has already are written once more.")
