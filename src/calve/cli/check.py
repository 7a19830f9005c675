"""`calve check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from calve import declare
from calve.cli import choose, render
from calve.cli.app import config_option, debug_option, output_option, say
from calve.errors import exit_code
from calve.project import Project
from calve.runtime import check as runtime
from calve.runtime.check import Check
from calve.sink.declaration import IcebergSink
from calve.sources.source import Source


@click.command("check")
@click.option(
    "--source", "-s", "source_names", multiple=True, help="This source only; may be given several times."
)
@click.option("--sink", "-k", "sink_names", multiple=True, help="This sink only; may be given several times.")
@config_option
@output_option
@debug_option
def command(
    source_names: tuple[str, ...], sink_names: tuple[str, ...], config: Path, output: str, debug: bool
) -> int:
    """Reach every source and sink and say what was tried.

    In each sink a scratch table is created, written, read and dropped.
    Ends with the code of the first failure.
    """
    project = declare.load(config)
    everything = not source_names and not sink_names
    sources = {
        name: choose.source(project, name) for name in (project.sources if everything else source_names)
    }
    sinks = {name: choose.sink(project, name) for name in (project.sinks if everything else sink_names)}
    checks = _checks(project, sources, sinks, debug)
    render.show(
        output, [_value(check) for check in checks], (block for check in checks for block in _blocks(check))
    )
    errors = [check.error for check in checks if check.error is not None]
    return exit_code(errors[0]) if errors else 0


def _checks(
    project: Project, sources: Mapping[str, Source], sinks: Mapping[str, IcebergSink], debug: bool
) -> list[Check]:
    from calve.runtime.run import open_spark_with

    needed = {jar for source in sources.values() for jar in source.jars}
    needed |= {jar for sink in sinks.values() for jar in sink.catalog.jars}
    spark = open_spark_with(project, needed, debug, say)
    try:
        return [
            *(runtime.check_source(name, source, spark) for name, source in sources.items()),
            *(runtime.check_sink(spark, name, sink) for name, sink in sinks.items()),
        ]
    finally:
        spark.stop()


def _value(check: Check) -> dict[str, Any]:
    return {
        "kind": check.kind,
        "name": check.name,
        "what": check.what,
        "passed": check.error is None,
        "steps": [
            {"tried": step.tried, "succeeded": step.succeeded, "seen": step.seen} for step in check.steps
        ],
        "advice": check.advice or None,
    }


def _blocks(check: Check) -> Iterator[render.Block]:
    verdict = "passed" if check.error is None else "failed"
    yield render.Line(f"{check.kind} {check.name} ({check.what}): {verdict}")
    for step in check.steps:
        sign = "ok  " if step.succeeded else "FAIL"
        yield render.Line(f"  {sign}  {step.tried}" + (f": {step.seen}" if step.seen else ""))
    if check.advice:
        yield render.Line(f"  What to do: {check.advice}")
