"""`calve read`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click

from calve import declare
from calve.cli import choose, render, session
from calve.cli.app import config_option, debug_option, output_option, say
from calve.runtime import tables
from calve.runtime.tables import Rows

limit_option = click.option(
    "--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="How many."
)
where_option = click.option("--where", help="Only rows for which this predicate of SQL holds.")
columns_option = click.option(
    "--column", "columns", multiple=True, help="This column only; may be given several times."
)
branch_option = click.option(
    "--branch", help="The branch or tag; by default the one that the sink writes to."
)
sink_option = click.option("--sink", help="The sink whose table it is, where two have the same name.")
key_option = click.option(
    "--key", "keys", multiple=True, help="A column that tells rows apart; by default the table's own."
)
_ROWS = (where_option, columns_option, branch_option, sink_option, config_option, output_option, debug_option)


def rows_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that shows rows of a table."""
    for option in reversed(_ROWS):
        command = option(command)
    return command


@click.command("read")
@click.argument("table")
@limit_option
@click.option(
    "--as-of", "at", help="A snapshot's id, a time such as '2026-11-15 10:00:00', a tag or a branch."
)
@rows_options
def command(
    table: str,
    limit: int,
    at: str | None,
    where: str | None,
    columns: tuple[str, ...],
    branch: str | None,
    sink: str | None,
    config: Path,
    output: str,
    debug: bool,
) -> None:
    """Show rows of TABLE (`namespace.table`, or `table` where only one sink's is called so).

    A time without a zone is UTC; it finds the state that the branch had then.
    """
    project = declare.load(config)
    chosen = choose.table(project, table, sink)
    tables.check_catalog(chosen.catalog, chosen.name)
    wanted = (limit, at, branch or chosen.branch, where, listed(columns))
    with session.opened(project, [chosen.catalog], debug) as spark:
        found = tables.rows(spark, tables.load(spark, chosen.name), *wanted)
    if output == "json":
        for row in found.rows:
            click.echo(row)
        return
    render.show(output, None, [as_table(found)])
    if found.more:
        say(f"These are {limit} rows of more; --limit shows others")


def listed(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Names that an option gave; none at all stand for what the table has."""
    return names or None


def as_table(found: Rows) -> render.Table:
    """Rows under the names of their columns."""
    # Numbers stay text: a decimal or a large number is shown digit by digit as it is in the table.
    parsed = [json.loads(row, parse_float=str, parse_int=str) for row in found.rows]
    return render.Table(found.columns, [[row[name] for name in found.columns] for row in parsed])
