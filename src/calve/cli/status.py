"""`calve status`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from calve import declare
from calve.cli import render
from calve.cli.app import config_option, debug_option, output_option, state_option
from calve.runtime import report, state
from calve.runtime.report import Status

ALIVE = ("starting", "standby", "running")
HEADINGS = ("pipeline", "table", "state", "rows", "commits", "waiting", "epoch", "last commit", "message")


@click.command("status")
@config_option
@state_option
@output_option
@debug_option
def command(config: Path, output: str, debug: bool) -> None:
    """Show how the pipelines of this project are doing, as their last run told."""
    project = declare.load(config)
    found = [judged(status) for status in report.read(state.folder(project) / "status")]
    known = [status for status in found if status.pipeline in project.pipelines]
    never = sorted(set(project.pipelines) - {status.pipeline for status in known})
    value = [asdict(status) for status in known] + [
        {"pipeline": name, "state": "never run"} for name in never
    ]
    render.show(output, value, _blocks(known, never, time.time()))


def judged(status: Status) -> Status:
    """The status, with `died` in place of the state that a process left behind."""
    return replace(status, state="died") if status.state in ALIVE and not _is_alive(status.pid) else status


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _blocks(known: Sequence[Status], never: Sequence[str], now: float) -> Iterator[render.Block]:
    rows = [_row(status, now) for status in known]
    rows += [[name, "", "never run", *[""] * (len(HEADINGS) - 3)] for name in never]
    yield render.Table(HEADINGS, rows)


def _row(status: Status, now: float) -> list[object]:
    return [
        status.pipeline,
        status.table,
        status.state,
        f"{status.rows:,}",
        f"{status.batches:,}",
        f"{status.waiting:,}" if status.state in ALIVE else "",
        status.epoch or "",
        render.ago(now - status.last_commit) if status.last_commit else "",
        status.message,
    ]
