"""The keys of declarations, read off the models: what `connectors` and `schema` show."""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import json
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from calve import pending, registry
from calve.model import Duration, Location, Model, Secret, SecretText, Size, Text, documentation
from calve.sources.declared import Declared

KINDS = ("source", "transform", "sink")
REQUIRED = "required"

_WORDS: tuple[tuple[Any, str], ...] = (
    (Duration, "duration"),
    (Size, "size"),
    (Location, "path or URI"),
    (Text, "text"),
    (SecretText, "secret"),
    (Secret, "secret"),
    (Declared, "columns as DDL"),
    (bool, "true or false"),
    (int, "whole number"),
    (float, "number"),
    (str, "text"),
    (decimal.Decimal, "number"),
    (datetime.datetime, "time"),
    (datetime.date, "date"),
    (Any, "any value"),
)


@dataclass(frozen=True)
class Key:
    """One key of a declaration; keys of sections have the section's name and a dot before them."""

    name: str
    type: str
    default: str
    doc: str


@dataclass(frozen=True)
class Connector:
    """A source, transform or sink that declarations can name."""

    kind: str
    name: str
    doc: str
    model: type[Model]

    def all_keys(self) -> list[Key]:
        """All its keys, those of sections included."""
        places = {f"{self.kind}s.{one}.config" for one in ("*", self.name)}
        return [_with_pending(key, places) for key in keys(self.model)]


def names() -> list[tuple[str, str]]:
    """Kind and name of every connector there is."""
    return [(kind, name) for kind in KINDS for name in registry.names(kind)]


def connector(kind: str, name: str) -> Connector:
    """The connector of that kind and name."""
    model = registry.find(kind, name)
    return Connector(kind, name, _one_line(inspect.getdoc(model) or ""), model)


def keys(model: type[Model], prefix: str = "") -> list[Key]:
    """The keys of `model` and of the sections in it."""
    docs, hints = documentation(model), get_type_hints(model, include_extras=True)
    found = []
    for field_name, field in model.model_fields.items():
        name = f"{prefix}{field.alias or field_name}"
        hint = hints[field_name]
        if field_name == "type" and _tag(model):
            continue
        found.append(Key(name, words(hint), _default(field, hint), _one_line(docs.get(field_name, ""))))
        for place, section in sections(hint, name):
            found += keys(section, f"{place}.")
    return found


def words(hint: Any) -> str:
    """A type in plain words."""
    for known, text in _WORDS:
        if hint == known:
            return text
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return words(arguments[0])
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (Union, types.UnionType):
        return _union([argument for argument in arguments if argument is not type(None)])
    if origin is list:
        return f"list of {words(arguments[0])}"
    if origin is dict:
        return f"names, each with {words(arguments[1])}"
    if isinstance(hint, type) and issubclass(hint, Model):
        return _tag(hint) or "section"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return " | ".join(str(member.value) for member in hint)
    return getattr(hint, "__name__", str(hint))


def sections(hint: Any, name: str) -> Iterator[tuple[str, type[Model]]]:
    """The models that a value of a key may be, and the key's name as it leads into each."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Model):
        yield (f"{name}({_tag(hint)})" if _tag(hint) else name), hint
    elif origin is Annotated:
        yield from sections(arguments[0], name)
    elif origin is dict:
        yield from sections(arguments[1], f"{name}.<name>")
    elif origin is list:
        yield from sections(arguments[0], f"{name}[]")
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from sections(argument, name)


def _union(arguments: list[Any]) -> str:
    tagged = all(_is_tagged(argument) for argument in arguments)
    return (" | " if tagged else " or ").join(dict.fromkeys(words(argument) for argument in arguments))


def _is_tagged(hint: Any) -> bool:
    return any(_tag(model) for _, model in sections(hint, ""))


def _tag(model: type[Model]) -> str:
    """The value of `type` that chooses this model among others."""
    field = model.model_fields.get("type")
    return (
        str(field.default)
        if field is not None and get_origin(field.annotation) is Literal and field.default
        else ""
    )


def _default(field: FieldInfo, hint: Any) -> str:
    """The default as a declaration would have it; nothing where the key does nothing when left out."""
    if field.is_required():
        return REQUIRED
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or isinstance(value, (Model, dict)) or value == []:
        return ""
    if isinstance(value, float):
        return f"{value:g}s" if hint == Duration else f"{value:g}"
    return json.dumps(value) if isinstance(value, (bool, list)) else str(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _with_pending(key: Key, places: set[str]) -> Key:
    """The key with a word on what of it is not available yet."""
    for place in places:
        values = pending.KEYS.get(f"{place}.{key.name}")
        if values == pending.ANY:
            return Key(key.name, key.type, key.default, f"{key.doc} Not available yet.")
        listed = ", ".join(value for value in values or () if isinstance(value, str))
        if listed:
            return Key(key.name, key.type, key.default, f"{key.doc} Not available yet: {listed}.")
    return key
