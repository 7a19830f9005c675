"""Rows that say in one of their columns what is done to the table. Pure, and without Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from pydantic import Field

from calve import changes
from calve.model import Flaw, Model, suggestion
from calve.schema import Primitive, Schema
from calve.sources.source import clashes

_KEYS = {
    "insert": changes.INSERT,
    "update": changes.UPDATE,
    "delete": changes.DELETE,
    "truncate": changes.TRUNCATE,
}


class Operation(Model):
    """The column that says what a row does to the table."""

    field: str = Field(min_length=1)
    """The column: a STRING of the schema. It is not a column of the table."""

    insert: list[str] = ["c", "r", "i", "insert", "I", "INSERT"]
    """What it says where a row is new."""

    update: list[str] = ["u", "update", "U", "UPDATE"]
    """What it says where a row takes the place of the one with the same key."""

    delete: list[str] = ["d", "delete", "D", "DELETE"]
    """What it says where a row is gone; its other columns may then be NULL."""

    truncate: list[str] = ["t", "truncate"]
    """What it says where all rows of the table are gone."""

    def codes(self) -> dict[str, str]:
        """What the column may say, and the operation that it means."""
        return {text: code for key, code in _KEYS.items() for text in getattr(self, key)}

    def left(self, schema: Schema) -> Schema:
        """The columns that are left for the table."""
        return Schema(tuple(column for column in schema.columns if column.name != self.field))

    def flaws(self) -> list[Flaw]:
        first: dict[str, str] = {}
        found = []
        # What was written is wrong, not the default that it meets.
        for key in sorted(_KEYS, key=lambda key: key in self.model_fields_set):
            for index, text in enumerate(getattr(self, key)):
                other = first.setdefault(text, key)
                if other != key:
                    found.append(Flaw((key, index), f"'{text}' is an operation of {other} already"))
        return found

    def column_flaws(self, schema: Schema) -> Iterator[Flaw]:
        """What is wrong with the column that it names."""
        column = {one.name: one for one in schema.columns}.get(self.field)
        if column is None:
            why = f"'{self.field}' is not a column of the schema{suggestion(self.field, schema.names)}"
            yield Flaw(("field",), why)
        elif column.type != Primitive("string"):
            yield Flaw(("field",), f"'{self.field}' is {column.type.ddl()}; it must be a STRING")
        elif len(schema.columns) == 1:
            yield Flaw(("field",), f"'{self.field}' is the only column; nothing would be left for the table")


def loose(schema: Schema) -> Schema:
    """The same columns, any of which may be NULL: so are they in rows that are gone."""
    return Schema(tuple(replace(column, nullable=True) for column in schema.columns))


def operation_flaws(
    operation: Operation | None, format: str, schema: Schema | None, without: Collection[str]
) -> Iterator[Flaw]:
    """What is wrong with `operation` where a source has `format`; those of `without` know no operations."""
    if operation is None:
        return
    if format in without:
        yield Flaw(("operation",), f"has no effect with format {format}")
    elif schema is None:
        yield Flaw(("schema",), "needed by operation")
    else:
        found = [*operation.flaws(), *operation.column_flaws(schema)]
        yield from (flaw.under("operation") for flaw in found)
        yield from (Flaw(("schema",), line) for line in clashes(operation.left(schema)))
