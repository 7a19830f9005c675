"""Records that are not decoded yet: what decodes them can do more in the same pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from calve.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Work = Callable[[Any], Any]
"""A function for `mapInArrow`: Arrow batches in, Arrow batches out."""


def _as_it_is(rows: DataFrame) -> DataFrame:
    return rows


@dataclass(frozen=True)
class Undecoded:
    """Records, and the work of Python workers that makes rows with `columns` of them."""

    records: DataFrame
    work: Work
    columns: Schema
    arranged: Callable[[DataFrame], DataFrame] = _as_it_is
    """Puts the columns of the rows in their order."""

    def rows(self) -> DataFrame:
        """The rows, for whatever comes next in Spark."""
        from pyspark.sql.types import StructType

        types = StructType.fromJson(self.columns.to_spark_json())
        return self.arranged(self.records.mapInArrow(self.work, types))

    def coalesced(self, tasks: int) -> Undecoded:
        """The same, made by at most that many tasks."""
        return replace(self, records=self.records.coalesce(tasks))

    def collected(self, most: int) -> pa.Table | None:
        """The rows, held here: Spark hands them over as workers made them, and looks at none of them.

        None where one task makes more than `most` bytes of them.
        """
        import pyarrow as pa

        from calve.decode.arrow import arrow_schema

        packed = self.records.mapInArrow(_packing(self.work, most), _PACKED).toArrow().column(0)
        if packed.null_count:
            return None
        tables = [pa.ipc.open_stream(part.as_buffer()).read_all() for part in packed]
        return pa.concat_tables(tables) if tables else arrow_schema(self.columns).empty_table()


_PACKED = "rows BINARY"
_AT_ONCE = 8 * 2**20
"""How many bytes of rows are handed over in one piece, if one batch has not more."""


def _packing(work: Work, most: int) -> Work:
    """`work` with its rows as bytes; NULL, and no more, where they become too many."""

    def packed(batches: Any) -> Any:
        held: list[pa.RecordBatch] = []
        size = made = 0
        for rows in work(batches):
            held.append(rows)
            size, made = size + rows.nbytes, made + rows.nbytes
            if made > most:
                yield _packed(None)
                return
            if size >= _AT_ONCE:
                yield _piece(held)
                held, size = [], 0
        if held:
            yield _piece(held)

    return packed


def _piece(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, held[0].schema) as stream:
        for rows in held:
            stream.write_batch(rows)
    return _packed(out.getvalue().to_pybytes())


def _packed(piece: bytes | None) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([piece], pa.binary())], names=["rows"])
