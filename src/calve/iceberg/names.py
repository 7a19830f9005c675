"""The names that columns had before: Iceberg knows columns by their numbers, and only calls them by names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calve.schema import Column, Schema, Struct, Type, parts, with_parts

Node = Mapping[str, Any]
"""A schema, or a type in it, as Iceberg writes it in JSON."""


def with_earlier_names(columns: Schema, own: str, others: Sequence[str]) -> Schema:
    """`columns` of the schema `own`, each with the names that its number has in the schemas `others`.

    Schemas are texts of JSON, in the order of their numbers.
    """
    names: dict[int, list[str]] = {}
    for text in reversed(others):
        for number, name in _numbered(json.loads(text)):
            names.setdefault(number, []).append(name)
    found = _named(Struct(columns.columns), json.loads(own), names)
    return Schema(found.columns) if isinstance(found, Struct) else columns


def exchanged(before: str, now: str) -> list[str]:
    """The names that stand for another column in the schema `now` than in the schema `before`."""
    old, new = (dict(_paths(json.loads(text), ())) for text in (before, now))
    return [".".join(path) for path, number in new.items() if old.get(path, number) != number]


def _fields(node: Any) -> Iterator[tuple[int, str | None, Any]]:
    """The number, the name and the type of each part of a type; parts of lists and maps have no name."""
    if not isinstance(node, dict):
        return
    for field in node.get("fields", ()):
        yield field["id"], field["name"], field["type"]
    for part in ("element", "key", "value"):
        if part in node:
            yield node[f"{part}-id"], None, node[part]


def _numbered(node: Any) -> Iterator[tuple[int, str]]:
    for number, name, kind in _fields(node):
        if name is not None:
            yield number, name
        yield from _numbered(kind)


def _paths(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    for number, name, kind in _fields(node):
        if name is not None:
            yield (*path, name), number
        yield from _paths(kind, (*path, name or "element"))


def _named(kind: Type, node: Any, names: Mapping[int, Sequence[str]]) -> Type:
    if not isinstance(node, dict):
        return kind
    if isinstance(kind, Struct):
        fields = {field["name"]: field for field in node.get("fields", ())}
        return Struct(tuple(_named_column(one, fields.get(one.name), names) for one in kind.columns))
    inside = parts(kind)
    there = [node[part] for part in ("element", "key", "value") if part in node]
    pairs = zip(inside, there, strict=True)
    return with_parts(kind, tuple(replace(one, type=_named(one.type, own, names)) for one, own in pairs))


def _named_column(column: Column, field: Node | None, names: Mapping[int, Sequence[str]]) -> Column:
    if field is None:
        return column
    earlier = [name for name in names.get(field["id"], ()) if name != column.name]
    kind = _named(column.type, field["type"], names)
    return replace(column, type=kind, aliases=tuple(dict.fromkeys(earlier)))
