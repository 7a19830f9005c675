"""`calve check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from calve import declare
from calve.cli import choose, render
from calve.cli.app import config_option, debug_option, output_option, say
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

    The hosts of each sink are resolved and connected to; then a scratch table is created, written, read and
    dropped. Where a step fails, the likely cause and what to do. Ends with the code of the first failure.
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
    return next((check.exit_code for check in checks if check.exit_code), 0)


def _checks(
    project: Project, sources: Mapping[str, Source], sinks: Mapping[str, IcebergSink], debug: bool
) -> list[Check]:
    from calve.runtime.run import open_spark_with

    needed = {jar for source in sources.values() for jar in source.jars}
    spark = open_spark_with(project, [sink.catalog for sink in sinks.values()], needed, debug, say)
    try:
        return [
            *(runtime.check_source(name, source, spark) for name, source in sources.items()),
            *(runtime.check_sink(spark, name, sink) for name, sink in sinks.items()),
        ]
    finally:
        spark.stop()


def _value(check: Check) -> dict[str, Any]:
    found = check.diagnosis
    return {
        "kind": check.kind,
        "name": check.name,
        "what": check.what,
        "passed": check.error is None,
        "exit_code": check.exit_code,
        "steps": [asdict(step) for step in check.steps],
        "diagnosis": found.name if found else None,
        "cause": found.cause if found else None,
        "advice": found.advice if found else None,
        "error": None if check.error is None else str(check.error),
        "warnings": check.warnings,
    }


_SIGNS = {"ok": "ok  ", "failed": "FAIL", "skipped": "–   "}


def _blocks(check: Check) -> Iterator[render.Block]:
    verdict = "passed" if check.error is None else "failed"
    yield render.Line(f"{check.kind} {check.name} ({check.what}): {verdict}")
    for step in check.steps:
        seen = f": {step.seen}" if step.seen else ""
        yield render.Line(f"  {_SIGNS[step.status]}  {step.tried}{seen}")
    for line in check.warnings:
        yield render.Line(f"  Note: {line}")
    if check.error is not None and not any(step.status == "failed" for step in check.steps):
        yield render.Line(f"  {check.error}")
    if check.diagnosis:
        yield render.Line(f"  Likely cause: {check.diagnosis.cause}")
        yield render.Line(f"  What to do: {check.diagnosis.advice}")
