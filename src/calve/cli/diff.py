"""`calve diff`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from calve import declare
from calve.cli import choose, render, session
from calve.cli.app import say
from calve.cli.read import as_table, key_option, limit_option, listed, rows_options
from calve.runtime import difference, tables
from calve.runtime.difference import Difference, Part
from calve.schema import event


@click.command("diff")
@click.argument("table")
@click.argument("one")
@click.argument("other")
@key_option
@limit_option
@rows_options
def command(
    table: str,
    one: str,
    other: str,
    keys: tuple[str, ...],
    limit: int,
    where: str | None,
    columns: tuple[str, ...],
    branch: str | None,
    sink: str | None,
    config: Path,
    output: str,
    debug: bool,
) -> None:
    """Show in what two states of TABLE differ: in columns, files and rows.

    A state is a snapshot's id, a time such as '2026-11-15 10:00:00' (UTC, or with a zone), a tag or a branch;
    neither has to come from the other.
    """
    project = declare.load(config)
    chosen = choose.table(project, table, sink)
    tables.check_catalog(chosen.catalog, chosen.name)
    part = Part(where, listed(columns), listed(keys))
    with session.opened(project, [chosen.catalog], debug) as spark:
        loaded = tables.load(spark, chosen.name)
        found = difference.difference(spark, loaded, one, other, branch or chosen.branch, part, limit)
    render.show(output, _value(str(chosen.name), found), _blocks(str(chosen.name), found))
    if output == "text" and found.rows.more:
        say(f"These are {limit} rows of more; --limit shows others")


def _value(name: str, found: Difference) -> dict[str, Any]:
    return {
        "table": name,
        "from": found.begin,
        "to": found.end,
        "columns": [event(change) for change in found.schema],
        "files": {"added": found.added, "removed": found.removed, "changed": found.changed},
        "rows": counts(found),
        "changes": [json.loads(row) for row in found.rows.rows],
    }


def counts(found: Difference) -> dict[str, int]:
    """How many rows came, went, or are others now."""
    told = found.counts
    return {
        "inserted": told.get("insert", 0),
        "updated": told.get("update_after", 0),
        "deleted": told.get("delete", 0),
    }


def _blocks(name: str, found: Difference) -> Iterator[render.Block]:
    yield render.Line(f"{name}: from {found.begin or 'the beginning'} to {found.end or 'the beginning'}")
    if found.is_empty:
        yield render.Line("  nothing differs")
        return
    rows = ", ".join(f"{number:,} {what}" for what, number in counts(found).items())
    files = {"added": found.added, "removed": found.removed, "with other deletes": found.changed}
    told = ", ".join(f"{len(names):,} {what}" for what, names in files.items())
    lines = [str(change) for change in found.schema] or "the same"
    yield render.Pairs({"columns": lines, "files": told, "rows": rows}, indent=2)
    if found.rows.rows:
        yield render.Line()
        yield as_table(found.rows)
