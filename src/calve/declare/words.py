"""What pydantic found wrong, in our words and at the user's keys. No value of the user is repeated."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from calve.model import Flaw, Path, suggestion

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "dict": "keys and values",
    "mapping": "keys and values",
    "model": "keys and values",
    "dataclass": "keys and values",
}
_BOUNDS = {
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
}


def flaws(error: ValidationError, raw: Any, model: type[BaseModel]) -> list[Flaw]:
    """The flaws that `error` tells of, which came up when `model` was made of `raw`."""
    found: dict[Path, list[str]] = {}
    for detail in _telling(error, raw):
        path = _path(detail, raw)
        found.setdefault(path, []).append(_message(detail, path, raw, model))
    return [Flaw(path, _joined(messages)) for path, messages in found.items()]


def _telling(error: ValidationError, raw: Any) -> list[Any]:
    """The details, without those of a choice that was not taken where a deeper detail shows which one was."""
    details = error.errors(include_url=False, include_input=False)
    paths = [_path(detail, raw) for detail in details]
    return [
        detail
        for detail, path in zip(details, paths, strict=True)
        if len(detail["loc"]) <= len(path) or not any(_is_inside(other, path) for other in paths)
    ]


def _is_inside(inner: Path, outer: Path) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _path(detail: Any, raw: Any) -> Path:
    """The keys that the user wrote; pydantic puts the names of choices between them."""
    path: list[str | int] = []
    for index, part in enumerate(detail["loc"]):
        here = value_at(raw, tuple(path))
        missing = detail["type"] == "missing" and index == len(detail["loc"]) - 1
        if _has(here, part) or missing:
            path.append(part)
    key = str(detail.get("ctx", {}).get("discriminator", "")).strip("'")
    if detail["type"].startswith("union_tag") and key.isidentifier():
        path.append(key)
    return tuple(path)


def _has(value: Any, part: str | int) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value)


def value_at(raw: Any, path: Path) -> Any:
    """The value that `path` leads to in `raw`, or None."""
    for part in path:
        if not _has(raw, part):
            return None
        raw = raw[part]
    return raw


def _message(detail: Any, path: Path, raw: Any, model: type[BaseModel]) -> str:
    kind, facts = detail["type"], detail.get("ctx", {})
    value = value_at(raw, path)
    if kind in ("missing", "union_tag_not_found"):
        return "required key is missing"
    if kind == "extra_forbidden":
        return f"unknown key{suggestion(str(path[-1]), keys_at(model, path[:-1]))}"
    if kind in ("literal_error", "enum", "union_tag_invalid"):
        return _one_of(str(facts.get("expected") or facts.get("expected_tags")), value)
    if kind in ("value_error", "assertion_error"):
        return str(facts.get("error", "not valid here"))
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**facts)
    if kind.endswith("too_short"):
        return "must not be empty" if facts["min_length"] == 1 else f"is shorter than {facts['min_length']}"
    if kind.endswith("too_long"):
        return f"is longer than {facts['max_length']}"
    if kind == "string_pattern_mismatch":
        return f"must match {facts['pattern']}"
    return _wrong_type(kind, value)


def _one_of(expected: str, value: Any) -> str:
    options = re.findall(r"'([^']*)'", expected) or [expected]
    if len(options) == 1:
        return f"expected {options[0]}{_quotes(value)}"
    hint = suggestion(value, options) if isinstance(value, str) else _quotes(value)
    return f"expected one of {', '.join(options)}{hint}"


def _wrong_type(kind: str, value: Any) -> str:
    expected = _EXPECTED.get(kind.partition("_")[0])
    if expected is None or not kind.endswith(("type", "parsing", "parsing_size", "from_float", "number")):
        return "not valid here"
    return f"expected {expected}" + (_quotes(value) if expected == "text" else "")


def _quotes(value: Any) -> str:
    return "; put the value in quotes" if isinstance(value, (bool, int, float)) else ""


def _joined(messages: list[str]) -> str:
    distinct = list(dict.fromkeys(messages))
    if len(distinct) == 1 or not all(message.startswith("expected ") for message in distinct):
        return distinct[0]
    return "expected " + " or ".join(message.removeprefix("expected ") for message in distinct)


def keys_at(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that may stand in the mapping that `path` leads to inside `model`."""
    models: list[type[BaseModel]] = [model]
    for part in path:
        fields = [_fields(one)[part] for one in models if isinstance(part, str) and part in _fields(one)]
        models = [inner for field in fields for inner in _models(field.annotation)] or models
    return [key for one in models for key in _fields(one)]


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]
