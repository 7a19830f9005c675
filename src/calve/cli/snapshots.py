"""`calve snapshots`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from calve import declare
from calve.cli import choose, render, session
from calve.cli.app import config_option, debug_option, output_option
from calve.iceberg.travel import Snapshot
from calve.position import SUMMARY_COMMIT, SUMMARY_EPOCH, SUMMARY_SINK
from calve.runtime import tables
from calve.runtime.tables import History


@click.command("snapshots")
@click.argument("table")
@click.option("--sink", help="The sink whose table it is, where two have the same name.")
@config_option
@output_option
@debug_option
def command(table: str, sink: str | None, config: Path, output: str, debug: bool) -> None:
    """List the snapshots of TABLE with their branches and tags, and say how DuckDB and Polars open it."""
    project = declare.load(config)
    chosen = choose.table(project, table, sink)
    tables.check_catalog(chosen.catalog, chosen.name)
    with session.opened(project, [chosen.catalog], debug) as spark:
        history = tables.history(tables.load(spark, chosen.name))
    value = {
        "table": str(chosen.name),
        "location": history.location,
        "metadata_file": history.metadata_file,
        "snapshots": [_value(snapshot, history) for snapshot in history.snapshots],
    }
    render.show(output, value, _blocks(str(chosen.name), history))


def _value(snapshot: Snapshot, history: History) -> dict[str, Any]:
    summary = snapshot.summary
    return {
        "id": snapshot.id,
        "parent": snapshot.parent,
        "time": _time(snapshot),
        "operation": snapshot.operation,
        "rows_added": int(summary.get("added-records", 0)),
        "rows_total": live_rows(summary),
        "refs": list(history.refs.get(snapshot.id, ())),
        "sink": summary.get(SUMMARY_SINK),
        "epoch": _number(summary.get(SUMMARY_EPOCH)),
        "commit": summary.get(SUMMARY_COMMIT),
        "summary": summary,
    }


def _blocks(name: str, history: History) -> Iterator[render.Block]:
    yield render.Pairs({"table": name, "location": history.location, "metadata": history.metadata_file})
    yield render.Line()
    headings = ("id", "time", "operation", "added", "total", "refs", "epoch", "commit")
    yield render.Table(headings, [_row(snapshot, history) for snapshot in history.snapshots])
    yield render.Line()
    file = _path(history.metadata_file)
    yield render.Pairs(
        {
            "DuckDB": f"SELECT * FROM iceberg_scan({_quoted(file)});",
            "Polars": f'pl.scan_iceberg("{file}").collect()',
        }
    )


def _row(snapshot: Snapshot, history: History) -> list[object]:
    value = {**_value(snapshot, history), "refs": ", ".join(history.refs.get(snapshot.id, ()))}
    shown = ("id", "time", "operation", "rows_added", "rows_total", "refs", "epoch", "commit")
    return ["" if value[key] is None else value[key] for key in shown]


def _time(snapshot: Snapshot) -> str:
    time = datetime.datetime.fromtimestamp(snapshot.committed_ms / 1000, datetime.timezone.utc)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def live_rows(summary: dict[str, str]) -> int | None:
    """The rows that a reader finds; only a scan can tell how many rows equality deletes take out."""
    records = _number(summary.get("total-records"))
    if records is None or int(summary.get("total-equality-deletes", 0)):
        return None
    return records - int(summary.get("total-position-deletes", 0))


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _path(location: str) -> str:
    """A local file without its scheme, as DuckDB wants it; anything else as it is."""
    return "/" + location.removeprefix("file:").lstrip("/") if location.startswith("file:") else location


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
