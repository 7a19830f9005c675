"""`calve run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from calve import declare
from calve.cli import choose
from calve.cli.app import config_option, debug_option, say, state_option
from calve.errors import UsageError, exit_code

if TYPE_CHECKING:
    from calve.runtime.run import Run


@click.command("run")
@click.option("--once", is_flag=True, help="Take what is there now, commit it and end.")
@click.option(
    "--pipeline", "-p", "names", multiple=True, help="Run this pipeline only; may be given several times."
)
@click.option(
    "--standby",
    is_flag=True,
    help="Begin when no other process runs the pipeline, and show life to those that wait likewise.",
)
@click.option(
    "--takeover-after",
    "takeover",
    type=click.FloatRange(min=1),
    default=60,
    show_default=True,
    help="With --standby: seconds without a sign of life after which another process counts as dead.",
)
@click.option("--profile", is_flag=True, help="Print where the time of the batches went.")
@config_option
@state_option
@debug_option
def command(
    once: bool,
    names: tuple[str, ...],
    standby: bool,
    takeover: float,
    profile: bool,
    config: Path,
    debug: bool,
) -> int:
    """Run pipelines until SIGTERM or Ctrl-C, or, with --once, until nothing is waiting."""
    if standby and once:
        raise UsageError("Cannot wait and end at once: --standby and --once exclude each other")
    project = declare.load(config)
    pipelines = choose.pipelines(project, names)
    from calve.runtime import run as runtime
    from calve.runtime import session
    from calve.runtime.progress import Progress
    from calve.runtime.stop import Stop

    stop = Stop()
    stop.listen()
    spark = runtime.open_spark(project, pipelines, debug, say)
    runs: list[Run] = []
    try:
        with Progress() as progress:
            how = (stop, once, progress.show, profile, takeover if standby else None)
            runs = runtime.run(spark, project, pipelines, *how)
    finally:
        session.end(spark, at_once=any(one.is_given_up for one in runs))
    for one in runs:
        say(runtime.summary(one))
        for line in one.profile.lines():
            say(line)
    error = runtime.first_error(runs)
    if error is not None and debug:
        raise error
    return 0 if error is None else exit_code(error)
