"""What verbs print: one value as JSON, or the same as text in tables, pairs and lines."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from calve.redaction import cleaned, redacted


@dataclass(frozen=True)
class Line:
    """One line of text; an empty one keeps parts apart."""

    text: str = ""


@dataclass(frozen=True)
class Pairs:
    """Names with their values, a line each; a list takes a line for each of its values."""

    values: Mapping[str, object]
    indent: int = 0


@dataclass(frozen=True)
class Table:
    """Rows under headings; where a terminal is too narrow, cells are cut or, with `wrap`, folded."""

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    indent: int = 0
    wrap: bool = False


Block = Line | Pairs | Table

GAP = 2
NARROWEST = 8


def show(output: str, value: Any, blocks: Iterable[Block]) -> None:
    """Print `value` as JSON or `blocks` as text, on stdout."""
    if output == "json":
        plain = json.loads(json.dumps(value, default=str))
        click.echo(json.dumps(cleaned(plain), indent=2, ensure_ascii=False))
        return
    if sys.stdout.isatty():
        _show_on_terminal(blocks)
        return
    for line in lines(blocks):
        click.echo(line)


def lines(blocks: Iterable[Block]) -> list[str]:
    """`blocks` as aligned text, nothing shortened."""
    found: list[str] = []
    for block in blocks:
        found += _lines(block)
    return found


def cell(value: object) -> str:
    """A value in one line: NULL for none, control characters escaped, nested values as JSON."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (Mapping, list, tuple)):
        return _escaped(json.dumps(value, ensure_ascii=False, default=str))
    return _escaped(str(value))


def count(number: int, noun: str) -> str:
    """`1 source`, `2 sources`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ago(seconds: float) -> str:
    """A length of time in its largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def _escaped(text: str) -> str:
    """Control characters, which would move the cursor or colour the terminal, as escapes."""
    text = redacted(text)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _lines(block: Block, width: int | None = None) -> list[str]:
    if isinstance(block, Line):
        return [redacted(block.text)]
    if isinstance(block, Pairs):
        return _pair_lines(block)
    rows = [list(block.headings), *([cell(value) for value in row] for row in block.rows)]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        widths = _fitting(widths, width - block.indent - GAP * (len(widths) - 1))
    return [" " * block.indent + _aligned(row, widths) for row in rows]


def _fitting(widths: Sequence[int], room: int) -> list[int]:
    """The widths of columns that share `room`: the wide ones give, and none gets narrower than readable."""
    limit = max(widths, default=0)
    while limit > NARROWEST and sum(min(width, limit) for width in widths) > room:
        limit -= 1
    return [min(width, limit) for width in widths]


def _pair_lines(block: Pairs) -> list[str]:
    width = max((_width(name) for name in block.values), default=0)
    found = []
    for name, value in block.values.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        names = [name, *[""] * (len(values) - 1)]
        found += [
            f"{' ' * block.indent}{_padded(one, width)}  {cell(each)}"
            for one, each in zip(names, values, strict=False)
        ]
    return found


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (_padded(_cut(text, width), width) for text, width in zip(row, widths, strict=True))
    return (" " * GAP).join(cells).rstrip()


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) >= width:
        text = text[:-1]
    return f"{text}…"


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """How many places `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    return len(text) + wide - sum(unicodedata.combining(one) > 0 for one in text)


def _show_on_terminal(blocks: Iterable[Block]) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for block in blocks:
        if not isinstance(block, Table):
            console.print("\n".join(_lines(block)), markup=False)
        elif block.wrap:
            console.print(_folded(block), soft_wrap=False)
        else:
            heading, *rows = _lines(block, console.width)
            console.print(heading, style="bold", markup=False)
            console.print("\n".join(rows), markup=False, end="\n" if rows else "")


def _folded(block: Table) -> Any:
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in block.headings:
        table.add_column(Text(heading), overflow="fold")
    for row in block.rows:
        table.add_row(*(Text(cell(value)) for value in row))
    return table
