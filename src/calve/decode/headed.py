"""Records that begin with the id of their schema, and whose values do not need it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from calve.decode.arrow import Values
from calve.decode.decoder import Decoder
from calve.decode.division import each
from calve.decode.schemas import HEADER, schema_id


class HeadedDecoder(Decoder):
    """Each record is an id, and then a record of another decoder."""

    def __init__(self, inner: Decoder) -> None:
        super().__init__(inner.schema)
        self.inner = inner
        self.is_fast = inner.is_fast

    def _fast(self, values: Values) -> pa.RecordBatch:
        bodies = each(_body, values.to_pylist())
        return self.inner._fast(pa.array(bodies, pa.binary()))

    def record(self, value: bytes) -> list[Any]:
        return self.inner.record(_body(value))


def _body(value: bytes) -> bytes:
    schema_id(value)
    return value[HEADER:]
