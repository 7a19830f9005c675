"""JSON Schema becomes columns. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calve.schema.types import Array, Column, Map, Primitive, Schema, SchemaError, Struct, Type

_DEPTH = 64
_TEXTS = {"date": "date", "date-time": "timestamp"}
_SIZES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float32": "float"}


@dataclass(frozen=True)
class Document:
    """A JSON Schema and those that it refers to, by name."""

    root: Any
    others: Mapping[str, Any]

    def refer(self, name: str, path: str) -> Any:
        """What `$ref` leads to."""
        place, _, pointer = name.partition("#")
        found = self.root if not place else self.others.get(place)
        for part in filter(None, pointer.split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            raise SchemaError(f"column '{path}': there is no '{name}'")
        return found


def columns(text: str, references: Mapping[str, str] | None = None) -> Schema:
    """The columns of the object that a JSON Schema describes; raises SchemaError."""
    others = {name: _json(one) for name, one in (references or {}).items()}
    document = Document(_json(text), others)
    node, _ = _settled(document, document.root, "", 0)
    if not isinstance(node.get("properties"), dict) or not node["properties"]:
        raise SchemaError("the JSON Schema describes no object with properties")
    return Schema(tuple(_columns(document, node, "", 0)))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"Cannot read the JSON Schema: not valid JSON: {error}") from None


def _columns(document: Document, node: Any, path: str, depth: int) -> Iterator[Column]:
    required = node.get("required", ())
    for name, inner in node["properties"].items():
        found, nullable = _settled(document, inner, path + name, depth)
        kind = _type(document, found, path + name, depth + 1)
        yield Column(name, kind, nullable or name not in required, inner.get("description") or None)


def _settled(document: Document, node: Any, path: str, depth: int) -> tuple[dict[str, Any], bool]:
    """The schema of a value that is there, and whether null may stand for it."""
    if depth > _DEPTH:
        raise SchemaError(f"column '{path}': nested too deeply, or inside itself")
    if not isinstance(node, dict):
        raise SchemaError(f"column '{path}': a schema that says nothing; only one type can be a column")
    if "$ref" in node:
        return _settled(document, document.refer(str(node["$ref"]), path), path, depth + 1)
    for word in ("oneOf", "anyOf"):
        if word in node:
            return _chosen(document, node[word], path, depth)
    if "allOf" in node:
        raise SchemaError(f"column '{path}': allOf; only one type can be a column")
    kinds = node.get("type")
    if not isinstance(kinds, list):
        return node, False
    left = [kind for kind in kinds if kind != "null"]
    if len(left) != 1:
        raise SchemaError(
            f"column '{path}': one of {', '.join(map(str, kinds))}; only a type and null can be"
        )
    return {**node, "type": left[0]}, len(left) < len(kinds)


def _chosen(document: Document, choices: Any, path: str, depth: int) -> tuple[dict[str, Any], bool]:
    left = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
    if len(left) != 1:
        raise SchemaError(f"column '{path}': a choice of {len(left)} types; only a type and null can be")
    node, nullable = _settled(document, left[0], path, depth + 1)
    return node, nullable or len(left) < len(choices)


def _type(document: Document, node: Mapping[str, Any], path: str, depth: int) -> Type:
    kind = node.get("type")
    if kind == "object":
        return _object(document, node, path, depth)
    if kind == "array":
        found, _ = _settled(document, node.get("items"), f"{path}[]", depth)
        return Array(_type(document, found, f"{path}[]", depth + 1))
    if kind == "string" or (kind is None and _are_texts(node.get("enum"))):
        binary = node.get("contentEncoding") == "base64"
        return Primitive("binary" if binary else _TEXTS.get(str(node.get("format")), "string"))
    if kind in ("integer", "number"):
        told = _SIZES.get(str(node.get("connect.type", node.get("format"))))
        return Primitive(told or ("bigint" if kind == "integer" else "double"))
    if kind == "boolean":
        return Primitive("boolean")
    raise SchemaError(f"column '{path}': {kind or 'no type'} can be no column")


def _object(document: Document, node: Mapping[str, Any], path: str, depth: int) -> Type:
    if node.get("properties"):
        return Struct(tuple(_columns(document, node, f"{path}.", depth)))
    more = node.get("additionalProperties")
    if not isinstance(more, dict):
        raise SchemaError(f"column '{path}': an object whose properties are not told")
    found, _ = _settled(document, more, f"{path}[]", depth)
    return Map(Primitive("string"), _type(document, found, f"{path}[]", depth + 1))


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, str) for value in values)
