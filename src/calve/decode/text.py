"""Records that are taken as they are: as text, or as bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from calve.decode.arrow import Values, arrow_schema
from calve.decode.decoder import Decoder, texts, utf8
from calve.schema import Column, Primitive, Schema

TEXT = Schema((Column("value", Primitive("string"), False),))
RAW = Schema((Column("value", Primitive("binary"), False),))


class TextDecoder(Decoder):
    """Each record is one text."""

    skips_blank = False

    def __init__(self) -> None:
        super().__init__(TEXT)

    def _fast(self, values: Values) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([texts(values)], schema=arrow_schema(self.schema))

    def record(self, value: bytes) -> list[Any]:
        return [utf8(value)]


class RawDecoder(Decoder):
    """Each record is bytes."""

    def __init__(self) -> None:
        super().__init__(RAW)

    def _fast(self, values: Values) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([values], schema=arrow_schema(self.schema))

    def record(self, value: bytes) -> list[Any]:
        return [value]
