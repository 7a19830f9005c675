"""`calve run`."""

from __future__ import annotations

from pathlib import Path

import click

from calve import declare
from calve.cli.app import config_option, debug_option, say
from calve.errors import UsageError, exit_code
from calve.project import Project, ResolvedPipeline


@click.command("run")
@click.option("--once", is_flag=True, help="Take what is there now, commit it and end.")
@click.option(
    "--pipeline", "-p", "names", multiple=True, help="Run this pipeline only; may be given several times."
)
@config_option
@debug_option
def command(once: bool, names: tuple[str, ...], config: Path, debug: bool) -> int:
    """Run pipelines until SIGTERM or Ctrl-C, or, with --once, until nothing is waiting."""
    project = declare.load(config)
    pipelines = chosen(project, names)
    from calve.runtime import run as runtime
    from calve.runtime.progress import Progress
    from calve.runtime.stop import Stop

    stop = Stop()
    stop.listen()
    spark = runtime.open_spark(project, pipelines, debug, say)
    try:
        with Progress() as progress:
            runs = runtime.run(spark, project, pipelines, stop, once, progress.show)
    finally:
        spark.stop()
    for one in runs:
        say(runtime.summary(one))
    error = runtime.first_error(runs)
    if error is not None and debug:
        raise error
    return 0 if error is None else exit_code(error)


def chosen(project: Project, names: tuple[str, ...]) -> list[ResolvedPipeline]:
    """The enabled pipelines, or those that were named."""
    unknown = sorted(set(names) - set(project.pipelines))
    if unknown:
        raise UsageError(
            f"Cannot run '{unknown[0]}': no such pipeline; one of {', '.join(sorted(project.pipelines))}"
        )
    wanted = names or [name for name, pipeline in project.pipelines.items() if pipeline.enabled]
    if not wanted:
        raise UsageError("Cannot run anything: every pipeline has 'enabled: false'; name one with --pipeline")
    return [project.pipeline(name) for name in dict.fromkeys(wanted)]
