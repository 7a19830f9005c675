"""Rows that can go to no table, found where they are decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from calve import changes
from calve.decode.arrow import Values, compute
from calve.decode.bad import Bad


@dataclass(frozen=True)
class Route:
    """What names the table of a row. Travels to Python workers: it holds values only.

    Literals and fields take turns, and a literal is first. `refusal` says why no row may go to a table of
    some name. Rows with one of the operations `exempt` need no table.
    """

    literals: tuple[str, ...]
    fields: tuple[str, ...]
    refusal: Callable[[str | None], str | None]
    exempt: tuple[str, ...] = ()

    def unrouted(self, rows: pa.RecordBatch) -> list[Bad]:
        """The rows that go nowhere; each name is judged once."""
        names = self._names(rows)
        reasons = {name: self.refusal(name) for name in compute.unique(names).to_pylist()}
        refused = [name for name, why in reasons.items() if why is not None]
        if not refused:
            return []
        flags = compute.is_in(names, pa.array(refused, pa.string()))
        if self.exempt and changes.OPERATION in rows.schema.names:
            free = compute.is_in(rows.column(changes.OPERATION), pa.array(self.exempt, pa.string()))
            flags = compute.and_not(flags, free)
        return [_bad(at, names[at].as_py(), reasons) for at in compute.indices_nonzero(flags).to_pylist()]

    def _names(self, rows: pa.RecordBatch) -> Values:
        parts: list[Any] = [pa.scalar(self.literals[0])]
        for field, literal in zip(self.fields, self.literals[1:], strict=True):
            parts += [_column(rows, field).cast(pa.string()), pa.scalar(literal)]
        return compute.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _bad(at: int, name: str | None, reasons: dict[str | None, str | None]) -> Bad:
    table = "no table" if name is None else f"table '{name}'"
    return Bad(at, "no_route", f"{table}: {reasons[name]}")


def _column(rows: pa.RecordBatch, name: str) -> Values:
    """The column called `name`; a dot leads into a struct, and what is not there is NULL."""
    if name in rows.schema.names:
        return rows.column(name)
    path = name.split(".")
    if path[0] not in rows.schema.names:
        return pa.nulls(len(rows), pa.string())
    found: Any = rows.column(path[0])
    for part in path[1:]:
        if not pa.types.is_struct(found.type) or found.type.get_field_index(part) < 0:
            return pa.nulls(len(rows), pa.string())
        found = compute.struct_field(found, part)
    return found
