"""`calve plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from calve import declare
from calve.cli import choose, render
from calve.cli.app import config_option, debug_option, output_option, say, state_option
from calve.errors import exit_code
from calve.project import Project, ResolvedPipeline
from calve.runtime import plan as runtime
from calve.runtime.plan import Plan

PENDING = 2


@click.command("plan")
@click.option(
    "--pipeline", "-p", "names", multiple=True, help="This pipeline only; may be given several times."
)
@click.option("--offline", is_flag=True, help="Show what the declaration alone tells; reach nothing.")
@click.option("--exit-code", "tell", is_flag=True, help="End with 2 if a run would change something.")
@config_option
@state_option
@output_option
@debug_option
def command(names: tuple[str, ...], offline: bool, tell: bool, config: Path, output: str, debug: bool) -> int:
    """Show what a run would create and where it would begin; change nothing.

    Ends with the code that a run would end with where the run would be refused.
    """
    project = declare.load(config)
    pipelines = choose.pipelines(project, names)
    plans = [runtime.declared(one) for one in pipelines] if offline else _plans(project, pipelines, debug)
    render.show(
        output, [_value(plan) for plan in plans], (block for plan in plans for block in _blocks(plan))
    )
    refusals = [plan.refusal for plan in plans if plan.refusal is not None]
    if refusals:
        return exit_code(refusals[0])
    return PENDING if tell and any(plan.is_pending() for plan in plans) else 0


def _plans(project: Project, pipelines: Sequence[ResolvedPipeline], debug: bool) -> list[Plan]:
    from calve.runtime import state
    from calve.runtime.run import open_spark

    sink_ids = {project.pipeline(name).sink_id for name in project.pipelines}
    spark = open_spark(project, pipelines, debug, say)
    try:
        status = state.folder(project) / "status"
        return [runtime.plan(spark, pipeline, sink_ids, status) for pipeline in pipelines]
    finally:
        spark.stop()


def _value(plan: Plan) -> dict[str, Any]:
    return {
        "pipeline": plan.pipeline,
        "table": plan.table,
        "lead": plan.lead,
        "tables": plan.tables,
        "catalog": plan.catalog,
        "branch": plan.branch,
        "dead_letter": plan.dead_letter,
        "exists": plan.exists,
        "columns": None if plan.columns is None else [column.ddl() for column in plan.columns.columns],
        "partition": plan.partition,
        "sort": plan.sort,
        "properties": plan.properties,
        "start": _start(plan),
        "position": plan.position,
        "waiting": plan.waiting,
        "epoch": plan.epoch,
        "writer": plan.writer,
        "changes": plan.changes.events(),
        "warnings": plan.warnings,
        "refusal": None if plan.refusal is None else str(plan.refusal),
    }


def _start(plan: Plan) -> str | None:
    return None if plan.marked is None else "mark" if plan.marked else "declaration"


def _blocks(plan: Plan) -> Iterator[render.Block]:
    what = "table" if plan.lead is None else "tables"
    yield render.Line(f"{plan.pipeline}: {_verdict(plan)} {what} '{plan.table}' of {plan.catalog}")
    yield render.Pairs(dict(_pairs(plan)), indent=2)
    yield render.Line()


def _verdict(plan: Plan) -> str:
    if plan.exists is None:
        return "writes to"
    return "appends to" if plan.exists else "creates"


def _pairs(plan: Plan) -> Iterator[tuple[str, object]]:
    if plan.lead is not None:
        yield "listed in", plan.lead
    if plan.tables:
        yield "tables", list(plan.tables)
    yield "columns", _columns(plan)
    yield "partition", "what the table has" if plan.partition is None else ", ".join(plan.partition) or "none"
    if plan.sort:
        yield "sort", ", ".join(plan.sort)
    if plan.branch != "main":
        yield "branch", plan.branch
    if plan.dead_letter:
        yield "bad records", f"to table '{plan.dead_letter}'"
    if not plan.exists:
        yield "properties", [f"{key}={value}" for key, value in plan.properties.items()]
    yield "writer", plan.writer
    if plan.position is not None:
        yield "start", f"{_begin(plan)}: {render.cell(plan.position)}"
    if plan.waiting is not None:
        yield "waiting", render.count(plan.waiting, "row")
    if plan.epoch is not None:
        yield "epoch", plan.epoch
    if plan.changes:
        yield "changes", [str(change) for change in (*plan.changes.columns, *plan.changes.partition)]
    if plan.warnings:
        yield "warning", plan.warnings
    if plan.refusal is not None:
        yield "refused", str(plan.refusal)


def _columns(plan: Plan) -> object:
    if plan.columns is None:
        return "those that the source or its transforms give; known when Spark runs"
    return [column.ddl() for column in plan.columns.columns]


def _begin(plan: Plan) -> str:
    return "behind the table's mark" if plan.marked else "where the declaration says"
