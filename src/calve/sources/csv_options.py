"""How CSV is written: the keys of it that sources share. Pure, and without Arrow."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from calve.decode.dialect import Dialect
from calve.model import Flaw, Model
from calve.schema import Array, Map, Schema, Struct


def _sign(value: str) -> str:
    if len(value) != 1 or not value.isascii() or value in "\r\n\0":
        raise ValueError("not one character of ASCII that ends no line")
    return value


Sign = Annotated[str, AfterValidator(_sign)]
"""One character of ASCII."""


def nested_in_csv(schema: Schema) -> list[str]:
    """What is wrong with the columns that a line of CSV cannot hold."""
    nested = [column for column in schema.columns if isinstance(column.type, (Array, Map, Struct))]
    return [f"column '{column.name}': a {column.type.ddl()} cannot be read from CSV" for column in nested]


class CsvFormat(Model):
    """How fields are told apart."""

    delimiter: Sign = ","
    """What stands between two fields."""

    quote: Sign | None = '"'
    """What stands around a field that holds a delimiter, doubled inside; `null`: nothing does."""

    escape: Sign | None = None
    """What takes the meaning from the character behind it; left out: none does."""

    null_value: str = ""
    """The text that stands for NULL."""

    def flaws(self) -> list[Flaw]:
        signs = [self.delimiter, *(sign for sign in (self.quote, self.escape) if sign is not None)]
        same = len(set(signs)) < len(signs)
        return (
            [Flaw(("delimiter",), "delimiter, quote and escape must be different characters")] if same else []
        )

    def dialect(self) -> Dialect:
        """The same for decoders, which know no models."""
        return Dialect(self.delimiter, self.quote, self.escape, self.null_value)
