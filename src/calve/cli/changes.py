"""`calve changes`."""

from __future__ import annotations

from pathlib import Path

import click

from calve import declare
from calve.cli import choose, render, session
from calve.cli.app import say
from calve.cli.read import as_table, key_option, limit_option, listed, rows_options
from calve.runtime import difference, tables
from calve.runtime.difference import Part


@click.command("changes")
@click.argument("table")
@click.option(
    "--from", "begin", help="The state behind which changes are shown. Default: before the newest snapshot."
)
@click.option("--to", "end", help="The last state whose changes are shown. Default: the newest one.")
@key_option
@limit_option
@rows_options
def command(
    table: str,
    begin: str | None,
    end: str | None,
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
    """Show the inserts, updates and deletes in TABLE, snapshot by snapshot.

    A state is a snapshot's id, a time such as '2026-11-15 10:00:00' (UTC, or with a zone), a tag or a branch.
    """
    project = declare.load(config)
    chosen = choose.table(project, table, sink)
    tables.check_catalog(chosen.catalog, chosen.name)
    part = Part(where, listed(columns), listed(keys))
    with session.opened(project, [chosen.catalog], debug) as spark:
        loaded = tables.load(spark, chosen.name)
        found = difference.changes(spark, loaded, begin, end, branch or chosen.branch, part, limit)
    if output == "json":
        for row in found.rows.rows:
            click.echo(row)
        return
    render.show(output, None, [as_table(found.rows)])
    if found.rows.more:
        say(f"These are {limit} changes of more; --limit shows others")
