"""`calve read`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from calve import declare
from calve.cli import choose, render, session
from calve.cli.app import config_option, debug_option, output_option, say
from calve.runtime import tables
from calve.runtime.tables import Rows


@click.command("read")
@click.argument("table")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="How many.")
@click.option("--branch", help="The branch or tag; by default the one that the sink writes to.")
@click.option("--sink", help="The sink whose table it is, where two have the same name.")
@config_option
@output_option
@debug_option
def command(
    table: str, limit: int, branch: str | None, sink: str | None, config: Path, output: str, debug: bool
) -> None:
    """Show rows of TABLE (`namespace.table`, or `table` where only one sink's is called so)."""
    project = declare.load(config)
    chosen = choose.table(project, table, sink)
    tables.check_catalog(chosen.catalog, chosen.name)
    with session.opened(project, [chosen.catalog], debug) as spark:
        found = tables.rows(spark, tables.load(spark, chosen.name), limit, branch or chosen.branch)
    if output == "json":
        for row in found.rows:
            click.echo(row)
        return
    render.show(output, None, [_table(found)])
    if found.more:
        say(f"These are {limit} rows of more; --limit shows others")


def _table(found: Rows) -> render.Table:
    # Numbers stay text: a decimal or a large number is shown digit by digit as it is in the table.
    parsed = [json.loads(row, parse_float=str, parse_int=str) for row in found.rows]
    return render.Table(found.columns, [[row[name] for name in found.columns] for row in parsed])
