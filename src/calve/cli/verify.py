"""`calve verify`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calve import declare
from calve.cli import choose, render
from calve.cli.app import config_option, debug_option, output_option, say
from calve.cli.choose import ChosenTable
from calve.errors import UsageError
from calve.runtime import tables
from calve.sink.dead_letter import LETTER_ID
from calve.sink.routes import TABLE
from calve.verify import opening
from calve.verify.facts import Finding
from calve.verify.failures import translated

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from calve.verify.opening import Load
    from calve.verify.report import Report, Wanted

_SHOWN = 20


@click.command("verify")
@click.argument("table")
@click.option("--files", is_flag=True, help="Ask the store for every file: is it there, and how long?")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="COLUMN",
    help="A column in which no value may be twice; of several, no values together.",
)
@click.option(
    "--branch",
    help="Marks and keys of this branch only; by default marks of all, keys of the one the sink writes to.",
)
@click.option("--sink", help="The sink whose table it is, where two have the same name.")
@config_option
@output_option
@debug_option
def command(
    table: str, files: bool, keys: tuple[str, ...], branch: str | None, sink: str | None, config: Path,
    output: str, debug: bool,
) -> int:  # fmt: skip
    """Check TABLE with PyIceberg, which is no part of what writes it: its marks, commits, counts and files,
    and those of the table for its dead letters, if there is one.

    The name of several tables as it is declared, such as orders_{region}, stands for the one that lists them
    and for all of them. Ends with 1 if something does not hold. Needs no Java.
    """
    chosen = choose.table(declare.load(config), table, sink)
    tables.check_catalog(chosen.catalog, chosen.name)
    with translated("verify tables"):
        from calve.verify.report import Wanted

        wanted = Wanted(files, keys, branch, branch or chosen.branch)
    first = replace(wanted, keys=()) if chosen.lists else wanted
    found = {str(chosen.name): _report(chosen, first)}
    found |= {str(one.name): _report(one, wanted) for one in _others(chosen)}
    values = [_value(name, one) for name, one in found.items()]
    value = {**values[0], "tables": values[1:]} if chosen.lists else values[0]
    letters = _letters_report(chosen, files)
    if chosen.letters is not None:
        value["dead_letter"] = letters and _value(str(chosen.letters), letters)
        found |= {str(chosen.letters): letters} if letters else {}
    render.show(output, value, (block for name, one in found.items() for block in _blocks(name, one)))
    return 1 if any(one.findings for one in found.values()) else 0


def _others(chosen: ChosenTable) -> Iterator[ChosenTable]:
    """The tables that `chosen` lists, if it does; one that was never written to need not be there."""
    if not chosen.lists:
        return
    with opening.opened(chosen.catalog, (*chosen.name.namespace, chosen.name.table)) as load:
        names = _listed(_loaded(load, chosen), chosen)
    for one in (replace(chosen, name=replace(chosen.name, table=name)) for name in names):
        with opening.opened(one.catalog, (*one.name.namespace, one.name.table)) as load:
            if load() is not None:
                yield one
            else:
                say(f"Table '{one.name}' is listed in '{chosen.name}' and does not exist")


def _listed(table: Table, chosen: ChosenTable) -> list[str]:
    with translated(f"read table '{chosen.name}'"):
        from calve.verify import reader

        batches = list(reader.batches(table, [TABLE], chosen.branch))
    return sorted({str(name) for batch in batches for name in batch.column(TABLE).to_pylist()})


def _letters_report(chosen: ChosenTable, files: bool) -> Report | None:
    """What is found in the table for dead letters, in which no letter may be twice."""
    from calve.verify.report import Wanted, settled

    name = chosen.letters
    if name is None:
        return None
    with opening.opened(chosen.catalog, (*name.namespace, name.table)) as load:
        if load() is None:
            return None
        beside = ChosenTable(chosen.catalog, name)
        with translated(f"verify table '{name}'"):
            return settled(lambda: _loaded(load, beside), Wanted(files, (LETTER_ID,), None, "main"))


def _report(chosen: ChosenTable, wanted: Wanted) -> Report:
    from calve.verify.report import settled

    with opening.opened(chosen.catalog, (*chosen.name.namespace, chosen.name.table)) as load:
        _check(_loaded(load, chosen), wanted)
        with translated(f"verify table '{chosen.name}'"):
            return settled(lambda: _loaded(load, chosen), wanted)


def _loaded(load: Load, chosen: ChosenTable) -> Table:
    table = load()
    if table is None:
        raise tables.missing(chosen.name)
    return table


def _check(table: Table, wanted: Wanted) -> None:
    """Refuse a branch or a column that the table does not have."""
    branches = sorted({"main", *table.metadata.refs})
    if wanted.branch is not None and wanted.branch not in branches:
        raise choose.unknown("branch", wanted.branch, branches)
    columns = {field.name: field.field_type for field in table.schema().fields}
    for key in wanted.keys:
        if key not in columns:
            raise choose.unknown("column", key, columns)
        if not columns[key].is_primitive:
            raise UsageError(f"Cannot use column '{key}' as a key: it is a {columns[key]}")


def _value(name: str, found: Report) -> dict[str, Any]:
    return {
        "table": name,
        "checked": found.checked,
        "findings": [_finding(finding) for finding in found.findings],
        "orphans": found.orphans,
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {"invariant": finding.invariant.value, "what": finding.what, "where": finding.where}


def _blocks(name: str, found: Report) -> Iterator[render.Block]:
    orphans = found.orphans or []
    for finding in found.findings:
        yield render.Line(render.cell(str(finding)))
    for path in orphans[:_SHOWN]:
        yield render.Line(render.cell(f"orphan, no finding: {path}"))
    if len(orphans) > _SHOWN:
        yield render.Line(f"orphans, no finding: {len(orphans) - _SHOWN:,} more; --output json lists all")
    listed = {} if found.orphans is None else {"orphans": len(orphans)}
    counts = {**found.checked, **listed, "findings": len(found.findings)}
    counted = ", ".join(render.count(number, noun.removesuffix("s")) for noun, number in counts.items())
    yield render.Line(f"{name}: {counted}")
