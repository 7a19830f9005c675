"""`calve connectors`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from calve.cli import choose, reference, render
from calve.cli.app import debug_option, output_option
from calve.cli.reference import Connector


@click.command("connectors")
@click.argument("name", required=False)
@output_option
@debug_option
def command(name: str | None, output: str, debug: bool) -> None:
    """List the connectors, or the keys of the one called NAME."""
    if name is None:
        rows = [[kind, one, _doc(kind, one)] for kind, one in reference.names()]
        value = [dict(zip(("kind", "name", "doc"), row, strict=True)) for row in rows]
        render.show(output, value, [render.Table(("kind", "name", "what it is"), rows)])
        return
    wanted = [reference.connector(kind, one) for kind, one in reference.names() if one == name]
    if not wanted:
        raise choose.unknown("connector", name, {one for _, one in reference.names()})
    render.show(output, [_value(one) for one in wanted], (block for one in wanted for block in _blocks(one)))


def _doc(kind: str, name: str) -> str:
    try:
        return reference.connector(kind, name).doc
    except ImportError as error:
        return f"cannot be loaded: {error}"


def _value(connector: Connector) -> dict[str, Any]:
    return {
        "kind": connector.kind,
        "name": connector.name,
        "doc": connector.doc,
        "keys": [asdict(key) for key in connector.all_keys()],
    }


def _blocks(connector: Connector) -> Iterator[render.Block]:
    yield render.Line(f"{connector.kind} {connector.name}: {connector.doc}")
    yield render.Line()
    rows = [[key.name, key.type, key.default, key.doc] for key in connector.all_keys()]
    yield render.Table(("key", "type", "default", "meaning"), rows, wrap=True)
