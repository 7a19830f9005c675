"""How Debezium was told to write its records. Pure, and without Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from calve.model import Flaw, Model, suggestion
from calve.schema import Decimal, Primitive, Schema


class DebeziumFormat(Model):
    """How changes are written, where records have no schema part that says it."""

    timestamps: Literal["ms", "us", "ns"] = "us"
    """The unit of times that are numbers."""

    decimals: Literal["base64", "string"] | None = None
    """How decimals are written: `base64` (handling mode precise) or `string`. Left out: told by the text."""

    key_fields: Annotated[list[str], Field(min_length=1)] | None = None
    """The columns that make up the key. Left out: the fields of the records' keys."""

    def column_flaws(self, schema: Schema) -> Iterator[Flaw]:
        """What is wrong with the columns that it names."""
        columns = {column.name: column for column in schema.columns}
        for index, name in enumerate(self.key_fields or ()):
            column = columns.get(name)
            if column is None:
                why = f"'{name}' is not a column of the schema{suggestion(name, schema.names)}"
                yield Flaw(("key_fields", index), why)
            elif not isinstance(column.type, (Primitive, Decimal)):
                why = f"'{name}' is {column.type.ddl()}; only a single value can stand here"
                yield Flaw(("key_fields", index), why)
