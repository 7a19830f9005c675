"""What every declaration is made of: frozen models, typed scalars and problems."""

from __future__ import annotations

import ast
import difflib
import inspect
import os
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from calve import redaction

Path = tuple[str | int, ...]
"""The keys and indexes that lead to a value of a declaration."""


@dataclass(frozen=True, order=True)
class Flaw:
    """One thing wrong in a declaration, before its file and line are known."""

    path: Path
    message: str

    def under(self, *path: str | int) -> Flaw:
        """The same, seen from further out."""
        return Flaw((*path, *self.path), self.message)


class Model(BaseModel):
    """A declaration: frozen, and with no key that it does not know."""

    # Building every model when it is imported would double the time of `calve validate`.
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any) -> Any:
        """As text, true is refused where pydantic would take it for 1."""
        if not isinstance(value, dict) or not any(isinstance(one, bool) for one in value.values()):
            return value
        fields = {field.alias or key: field for key, field in cls.model_fields.items()}
        wrong = [key for key, one in value.items() if isinstance(one, bool) and key in fields]
        return value | {key: _text(value[key]) for key in wrong if _is_number(fields[key].annotation)}

    def flaws(self) -> list[Flaw]:
        """What is wrong with keys that are each right: two that contradict, one that has no effect."""
        return []


def _is_number(annotation: Any) -> bool:
    types = set(get_args(annotation) or (annotation,))
    return bool(types & {int, float}) and bool not in types


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong in a declaration."""

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class Secret:
    """A value that shows itself only to who asks for it by `reveal`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself; from now on it is taken out of every text that leaves the process."""
        redaction.remember(self._value)
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    @classmethod
    def _validate(cls, value: Any) -> Secret:
        if isinstance(value, Secret):
            return value
        if not isinstance(value, str):
            scalar = isinstance(value, (bool, int, float))
            raise ValueError("expected text; put the value in quotes" if scalar else "expected text")
        if not value:
            raise ValueError("must not be empty")
        return cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        shown = core_schema.plain_serializer_function_ser_schema(str)
        return core_schema.no_info_plain_validator_function(cls._validate, serialization=shown)

    @classmethod
    def __get_pydantic_json_schema__(cls, _: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "writeOnly": True}


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _seconds(value: Any) -> float:
    text = str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", text)
    if match is None:
        raise ValueError("not a duration; write a number and a unit, such as 500ms, 30s, 10m, 2h or 7d")
    seconds = float(match[1]) * _UNITS[match[2] or "s"]
    if seconds < 0:
        raise ValueError("a duration cannot be negative")
    return seconds


def _bytes(value: Any) -> int:
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError("not a size; write a number and a unit, such as 512KiB, 1MiB or 2GB")
    size = int(float(match[1]) * _SIZES[(match[2] or "B").upper()])
    if size < 1:
        raise ValueError("a size must be at least one byte")
    return size


def name(value: str) -> str:
    """`value`, if it may name a source, sink or pipeline; raises ValueError."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", value):
        raise ValueError("not a name; use letters, digits, '_' and '-', and begin with a letter or '_'")
    return value


def is_uri(value: str) -> bool:
    """Whether `value` names its scheme, as in `s3://bucket/path` or `file:/path`."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", value) is not None


def location(value: str, info: ValidationInfo) -> str:
    """The URI that `value` is, or the absolute path that it means in the declaration's directory."""
    if not value:
        raise ValueError("must not be empty")
    if is_uri(value):
        return value
    directory = (info.context or {}).get("directory") or os.getcwd()
    return os.path.normpath(os.path.join(directory, os.path.expanduser(value)))


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?`, if `word` looks like something that is known."""
    spelling = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), spelling, n=1)
    return f"; did you mean '{spelling[close[0]]}'?" if close else ""


Duration = Annotated[float, BeforeValidator(_seconds, json_schema_input_type=str | int | float)]
"""A length of time, held in seconds."""

Size = Annotated[int, BeforeValidator(_bytes, json_schema_input_type=str | int)]
"""A number of bytes."""

Text = Annotated[str, BeforeValidator(_text, json_schema_input_type=str | int | bool)]
"""The value of a property that is passed on: text, or a whole number or true or false, which become text."""

SecretText = Annotated[Secret, BeforeValidator(_text, json_schema_input_type=str | int | bool)]
"""The value of a property that is passed on and may be a secret."""

Location = Annotated[str, AfterValidator(location)]
"""A URI, or a path; a relative path is one from the directory of the declaration's file."""

Name = Annotated[str, AfterValidator(name)]
"""The name of a source, sink or pipeline."""


def matching(pattern: str, message: str) -> AfterValidator:
    """Refuses text that does not match `pattern`, with `message`."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


Namespace = Annotated[
    str,
    matching(
        r"[\w-]+(\.[\w-]+)*", "not a namespace; use letters, digits, '_' and '-', and '.' between levels"
    ),
]
"""The namespace of a table; levels are divided by dots."""

TableName = Annotated[str, matching(r"[\w-]+", "not the name of a table; use letters, digits, '_' and '-'")]
"""The name of a table in its namespace."""

Branch = Annotated[
    str,
    matching(
        r"\w[\w.-]*", "not the name of a branch; use letters, digits, '_', '-' and '.', the last two inside"
    ),
]
"""The name of a branch or a tag of a table."""


def documentation(model: type[BaseModel]) -> dict[str, str]:
    """The string under each field of `model` and of the models it extends."""
    docs: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner not in (BaseModel, Model):
            docs.update(_field_strings(owner))
    return docs


def _field_strings(model: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    pairs = zip(body.body, body.body[1:], strict=False)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
