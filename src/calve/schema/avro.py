"""Avro's schemas become columns. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from calve.schema.types import Array, Column, Decimal, Map, Primitive, Schema, SchemaError, Struct, Type

Node: TypeAlias = Mapping[str, Any]
"""A type of Avro: an object whose `type` is a simple word; a union has its `branches`."""

_SIMPLE = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
}
_NAMED = ("record", "error", "enum", "fixed")
_LOGICAL = {
    ("int", "date"): "date",
    ("int", "time-millis"): "string",
    ("long", "time-micros"): "string",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "timestamp-nanos"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("long", "local-timestamp-nanos"): "timestamp_ntz",
    ("string", "uuid"): "string",
    ("fixed", "uuid"): "string",
    ("string", "zoned-timestamp"): "timestamp",
}
# What Kafka Connect's converters call types for which Avro has no word, or had none.
_OF_CONNECT = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
    "io.debezium.time.NanoTimestamp": "local-timestamp-nanos",
    "io.debezium.time.ZonedTimestamp": "zoned-timestamp",
}
_WIDEST = 38


@dataclass(frozen=True)
class AvroSchema:
    """A schema whose names are whole; those of its named types lead to their definitions."""

    root: Any
    names: dict[str, Node] = field(default_factory=dict)

    def node(self, type_: Any) -> Node:
        """The type that a place of the schema means."""
        if isinstance(type_, str):
            return self.names.get(type_, {"type": type_})
        return {"type": "union", "branches": type_} if isinstance(type_, list) else dict(type_)


def load(text: str, references: Iterable[str] = ()) -> AvroSchema:
    """The schema that `text` declares, with the types of `references`; raises SchemaError."""
    names: dict[str, Node] = {}
    for one in references:
        _whole(_json(one), "", names)
    return AvroSchema(_whole(_json(text), "", names), names)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # A schema that is a name alone is registered as it is, without quotes.
        if text.strip().replace(".", "").isidentifier():
            return text.strip()
        raise SchemaError(f"Cannot read the Avro schema: not valid JSON: {error}") from None


def _whole(type_: Any, namespace: str, names: dict[str, Node]) -> Any:
    """The same with whole names; definitions are put into `names`."""
    if isinstance(type_, str):
        return _referred(type_, namespace, names)
    if isinstance(type_, list):
        return [_whole(branch, namespace, names) for branch in type_]
    if not isinstance(type_, dict) or "type" not in type_:
        raise SchemaError(f"Cannot read the Avro schema: {json.dumps(type_)[:60]} is no type")
    kind = type_["type"]
    if kind in _NAMED:
        return _defined(type_, namespace, names)
    if kind in ("array", "map"):
        inside = "items" if kind == "array" else "values"
        return {**type_, inside: _whole(type_.get(inside), namespace, names)}
    if isinstance(kind, str) and kind in _SIMPLE:
        return dict(type_)
    return _whole(kind, namespace, names)


def _referred(name: str, namespace: str, names: Mapping[str, Node]) -> str:
    if name in _SIMPLE or name == "null":
        return name
    inside = f"{namespace}.{name}" if namespace and "." not in name else name
    for whole in (inside, name):
        if whole in names:
            return whole
    raise SchemaError(f"Cannot read the Avro schema: there is no type '{name}'")


def _defined(type_: Node, namespace: str, names: dict[str, Node]) -> str:
    name = str(type_.get("name", ""))
    own, _, _ = name.rpartition(".")
    space = own if "." in name else str(type_.get("namespace") or namespace)
    whole = name if "." in name or not space else f"{space}.{name}"
    node = dict(type_)
    names[whole] = node
    if type_["type"] in ("record", "error"):
        node["type"] = "record"
        node["fields"] = [
            {**one, "type": _whole(one.get("type"), space, names)} for one in type_.get("fields", ())
        ]
    return whole


def logical(node: Node) -> str | None:
    """The logical type, where it is one of those that are known for the type it stands on."""
    kind, told = node["type"], node.get("logicalType")
    if told == "decimal" and kind in ("bytes", "fixed"):
        return "decimal"
    if told == "uuid" and kind == "fixed" and node.get("size") != 16:
        return None
    found = told if told is not None else _OF_CONNECT.get(str(node.get("connect.name")))
    return found if (kind, found) in _LOGICAL else None


def without_null(schema: AvroSchema, type_: Any, path: str) -> tuple[Node, bool]:
    """The type of a value that is there, and whether it may be missing; raises SchemaError."""
    node = schema.node(type_)
    if node["type"] != "union":
        return node, False
    branches = [schema.node(branch) for branch in node["branches"]]
    left = [branch for branch in branches if branch["type"] != "null"]
    if len(left) != 1:
        kinds = ", ".join(str(branch["type"]) for branch in branches)
        raise SchemaError(f"column '{path}': a union of {kinds}; only a type and null can be a column")
    return left[0], len(left) < len(branches)


def columns(schema: AvroSchema) -> Schema:
    """The columns of a record; raises SchemaError where a field can be none."""
    node, _ = without_null(schema, schema.root, "")
    if node["type"] != "record":
        raise SchemaError(f"the Avro schema is a {node['type']}; only a record has columns")
    return Schema(tuple(_columns(schema, node, "", ())))


def envelope_columns(schema: AvroSchema) -> Schema:
    """The columns of the rows in Debezium's envelopes; raises SchemaError."""
    node, _ = without_null(schema, schema.root, "")
    fields = {one["name"]: one["type"] for one in node.get("fields", ())}
    if "after" not in fields:
        raise SchemaError("the Avro schema is no envelope of Debezium: it has no field 'after'")
    row, _ = without_null(schema, fields["after"], "after")
    return columns(AvroSchema(row, schema.names))


def _columns(schema: AvroSchema, node: Node, path: str, open_: tuple[int, ...]) -> Iterator[Column]:
    if id(node) in open_:
        raise SchemaError(f"column '{path.rstrip('.')}': a record inside itself")
    for one in node["fields"]:
        name = str(one["name"])
        found, nullable = without_null(schema, one["type"], path + name)
        kind = _type(schema, found, path + name, (*open_, id(node)))
        yield Column(name, kind, nullable, one.get("doc") or None, tuple(one.get("aliases") or ()))


def _type(schema: AvroSchema, node: Node, path: str, open_: tuple[int, ...]) -> Type:
    kind = node["type"]
    if kind == "record":
        return Struct(tuple(_columns(schema, node, f"{path}.", open_)))
    if kind in ("array", "map"):
        inner, _ = without_null(schema, node["items" if kind == "array" else "values"], f"{path}[]")
        element = _type(schema, inner, f"{path}[]", open_)
        return Array(element) if kind == "array" else Map(Primitive("string"), element)
    if kind not in _SIMPLE:
        raise SchemaError(f"column '{path}': {kind} can be no column")
    told = logical(node)
    if told == "decimal":
        return _decimal(node, path)
    return Primitive(_SIMPLE[kind] if told is None else _LOGICAL[kind, told])


def _decimal(node: Node, path: str) -> Decimal:
    precision, scale = node.get("precision"), node.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        raise SchemaError(f"column '{path}': a decimal without a precision and a scale below it")
    if precision > _WIDEST:
        raise SchemaError(f"column '{path}': a decimal of {precision} digits; a column has {_WIDEST}")
    return Decimal(precision, scale)
