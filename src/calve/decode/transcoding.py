"""Debezium's envelopes in Avro → the same in JSON, with a schema part that says what Avro's schema said.

There is one definition of what an envelope means, and it is the one for JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from calve.decode.arrow import Values
from calve.decode.avro import Writer, writer
from calve.decode.bad import Bad, at_origins, others
from calve.decode.changes import Records
from calve.decode.connect import Hints, Part
from calve.decode.debezium import DebeziumDecoder
from calve.decode.division import Mismatch
from calve.decode.schemas import AVRO, HEADER, JSON, SchemaRegistry, has_id, schema_id
from calve.schema import Schema, SchemaError
from calve.schema.avro import AvroSchema, Node, logical

Shape: TypeAlias = Callable[[Any], Any]
"""Makes of a value what JSON has for it."""

_TYPES = {"int": "int32", "long": "int64", "enum": "string", "fixed": "bytes", "record": "struct"}
_NAMES = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
"""What Kafka Connect calls Avro's logical types."""


@dataclass(frozen=True)
class Transcoder:
    """Makes JSON of the records of one schema."""

    written: Writer
    opening: bytes
    shape: Shape

    def json(self, value: bytes) -> bytes:
        """The record as JSON; raises Mismatch."""
        payload = self.shape(self.written.read(value, HEADER))
        try:
            text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError:
            raise Mismatch("a number that is not finite") from None
        return b"".join((self.opening, text.encode(), b"}"))


class RegisteredDebeziumDecoder(DebeziumDecoder):
    """Makes changes of envelopes that begin with the id of their schema, in Avro or JSON."""

    def __init__(
        self, schema: Schema, hints: Hints, key_fields: tuple[str, ...] | None, registry: SchemaRegistry
    ) -> None:
        super().__init__(schema, hints, key_fields)
        self.registry = registry

    def sift(
        self, keys: Values, values: Values, records: Records
    ) -> tuple[pa.RecordBatch, Values, list[Bad]]:
        wrong: dict[int, Bad] = {}
        plain = [self._plain(column, wrong, is_key) for column, is_key in ((keys, True), (values, False))]
        if not wrong:
            return super().sift(plain[0], plain[1], records)
        kept = others(len(values), wrong.values())
        made, origins, bad = super().sift(plain[0].take(kept), plain[1].take(kept), records.take(kept))
        return made, kept.take(origins), [*at_origins(bad, kept), *wrong.values()]

    def _plain(self, column: Values, wrong: dict[int, Bad], is_key: bool) -> Values:
        made: list[bytes | None] = []
        for index, value in enumerate(column.to_pylist()):
            # Keys may have a converter of their own.
            if value is None or (is_key and not has_id(value)):
                made.append(value)
                continue
            try:
                made.append(self._json(value))
            except Mismatch as error:
                why = f"the key of the record: {error}" if is_key else str(error)
                wrong.setdefault(index, Bad(index, error.reason, why))
                made.append(None)
        return pa.array(made, pa.binary())

    def _json(self, value: bytes) -> bytes:
        number = schema_id(value)
        registered = self.registry.by_id(number)
        if registered.kind == JSON:
            return value[HEADER:]
        if registered.kind != AVRO:
            why = f"schema {number} is one of {registered.kind}; Avro and JSON are read"
            raise Mismatch(why, "unknown_schema")
        return _transcoder(self.registry, number).json(value)


@lru_cache(maxsize=1024)
def _transcoder(registry: SchemaRegistry, number: int) -> Transcoder:
    try:
        written = writer(registry.by_id(number), f"schema {number}")
        part, shape = _described(written.schema, written.schema.root, ())
    except SchemaError as error:
        raise Mismatch(f"schema {number}: {error}", "unknown_schema") from None
    opening = f'{{"schema":{json.dumps(part)},"payload":'
    return Transcoder(written, opening.encode(), shape)


def _described(schema: AvroSchema, type_: Any, open_: tuple[int, ...]) -> tuple[Part, Shape]:
    """The schema part of a type, and the shape of its values."""
    node = schema.node(type_)
    kind = node["type"]
    if kind == "union":
        return _of_union(schema, node, open_)
    if kind == "record":
        return _of_record(schema, node, open_)
    if kind in ("array", "map"):
        inside = "items" if kind == "array" else "values"
        part, shape = _described(schema, node[inside], open_)
        return {"type": kind, inside: part}, _of_each(kind, shape)
    return _of_simple(node), _base64 if kind in ("bytes", "fixed") else _same


def _of_union(schema: AvroSchema, node: Node, open_: tuple[int, ...]) -> tuple[Part, Shape]:
    left = [branch for branch in node["branches"] if branch != "null"]
    if len(left) != 1:
        return {"type": "union", "optional": True}, _any
    part, shape = _described(schema, left[0], open_)
    return {**part, "optional": True}, lambda value: None if value is None else shape(value)


def _of_record(schema: AvroSchema, node: Node, open_: tuple[int, ...]) -> tuple[Part, Shape]:
    if id(node) in open_:
        raise SchemaError("a record inside itself")
    described = {one["name"]: _described(schema, one["type"], (*open_, id(node))) for one in node["fields"]}
    fields = [{**part, "field": name} for name, (part, _) in described.items()]
    shapes = {name: shape for name, (_, shape) in described.items()}
    name = node.get("connect.name")
    part = {"type": "struct", "fields": fields, **({"name": name} if name else {})}
    return part, lambda value: {key: shape(value[key]) for key, shape in shapes.items()}


def _of_each(kind: str, shape: Shape) -> Shape:
    if kind == "array":
        return lambda value: [shape(one) for one in value]
    return lambda value: {key: shape(one) for key, one in value.items()}


def _of_simple(node: Node) -> Part:
    kind, told = node["type"], logical(node)
    name = node.get("connect.name") or _NAMES.get(str(told))
    part: dict[str, Any] = {"type": node.get("connect.type") or _TYPES.get(kind, kind)}
    if name:
        part["name"] = name
    parameters = node.get("connect.parameters")
    if told == "decimal":
        part["parameters"] = {"scale": str(node.get("scale", 0))}
    elif isinstance(parameters, Mapping):
        part["parameters"] = dict(parameters)
    return part


def _same(value: Any) -> Any:
    return value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _any(value: Any) -> Any:
    """A value of a union, which no column takes."""
    return _base64(value) if isinstance(value, bytes) else None if isinstance(value, (dict, list)) else value
