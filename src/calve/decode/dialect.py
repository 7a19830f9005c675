"""How CSV is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """How the fields of a line are told apart."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_value: str = ""
