"""Kafka records without a value: nothing, or deletes of the rows that their keys name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from calve import changes
from calve.decode.arrow import Values
from calve.decode.bad import Bad, at_origins, others
from calve.decode.changes import Records, with_changes
from calve.decode.decoder import shown
from calve.decode.division import Mismatch
from calve.decode.json import JsonDecoder
from calve.schema import Primitive, Schema

_AS_WRITTEN = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean")


class KeyDecoder:
    """Reads keys of records into columns of the schema. Travels to Python workers: it holds values only.

    A key is a JSON object; where it has one column, it may be the value alone, in JSON or as plain text.
    """

    def __init__(self, columns: Schema, format: str) -> None:
        self.columns = columns
        self._format = format
        self._decoder = JsonDecoder(columns)

    def sift(self, keys: Values) -> tuple[pa.RecordBatch, list[Bad]]:
        """The columns of each key that is not bad, and the bad ones."""
        found: list[bytes] = []
        wrong: list[Bad] = []
        for at, key in enumerate(keys.to_pylist()):
            try:
                found.append(self._object(key))
            except Mismatch as error:
                wrong.append(Bad(at, error.reason, f"the key of a record without a value: {error}"))
        kept = others(len(keys), wrong)
        rows, bad = self._decoder.sift(pa.array(found, pa.binary()))
        told = [one._replace(message=f"the key of a record without a value: {one.message}") for one in bad]
        return rows, [*wrong, *at_origins(told, kept)]

    def _object(self, key: bytes | None) -> bytes:
        if key is None:
            raise Mismatch("there is none", "null_key")
        if self._format == "json" and (len(self.columns.columns) > 1 or key.lstrip()[:1] == b"{"):
            return key
        return f"{{{json.dumps(self.columns.names[0])}:{self._value(key)}}}".encode()

    @property
    def _is_text(self) -> bool:
        """Whether JSON has values of the one column in quotes."""
        kind = self.columns.columns[0].type
        return isinstance(kind, Primitive) and kind.name not in _AS_WRITTEN

    def _value(self, key: bytes) -> str:
        """The value as JSON has it; nothing else may stand beside it."""
        try:
            text = key.decode()
        except UnicodeDecodeError:
            raise Mismatch("not UTF-8", "malformed") from None
        if self._format == "text" and self._is_text:
            return json.dumps(text)
        try:
            is_single = not isinstance(json.loads(text), (dict, list))
        except (ValueError, RecursionError):
            is_single = False
        if not is_single:
            raise Mismatch(f"{shown(text)} is no single value", "malformed")
        return text

    def deletes(
        self, keys: Values, records: Callable[[], Records], columns: pa.Schema
    ) -> tuple[pa.RecordBatch, Values, list[Bad]]:
        """The changes with `columns` that `keys` are, which key each comes from, and the bad keys."""
        rows, bad = self.sift(keys)
        kept = others(len(keys), bad)
        fields = [columns.field(name) for name in columns.names if name not in changes.NAMES]
        arrays = [
            rows.column(one.name) if one.name in rows.schema.names else pa.nulls(len(rows), one.type)
            for one in fields
        ]
        whole = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        operations = pa.array([changes.DELETE] * len(rows), pa.string())
        return with_changes(whole, operations, records().take(kept)), kept, bad


@dataclass(frozen=True)
class Valueless:
    """What records without a value are: deletes by their keys, or nothing where no keys are read."""

    keys: KeyDecoder | None = None
