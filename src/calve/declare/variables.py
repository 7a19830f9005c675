"""`${NAME}`, `${NAME:-default}` and `${file:/path}` in values, replaced after parsing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calve.model import Flaw, Path

_VARIABLE = re.compile(r"\$\$\{|\$\{(?P<inside>[^}]*)(?P<end>\}?)")
_INSIDE = re.compile(
    r"(?:file:(?P<file>.+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?)", re.DOTALL
)
_LIMIT = 2**20


class Undefined(Exception):
    """A variable that nothing can be put in for."""


@dataclass(frozen=True)
class Insertion:
    """A text that was put in for a variable. It may be a secret."""

    path: Path
    variable: str
    text: str = field(repr=False)


class Substitution:
    """Replaces variables and remembers what was put in, and what could not be."""

    def __init__(self, environment: Mapping[str, str], directory: str) -> None:
        self.environment = environment
        self.directory = directory
        self.insertions: list[Insertion] = []
        self.flaws: list[Flaw] = []

    def applied(self, value: Any, path: Path = ()) -> Any:
        """`value` with every variable in its texts replaced."""
        if isinstance(value, dict):
            return {key: self.applied(child, (*path, key)) for key, child in value.items()}
        if isinstance(value, list):
            return [self.applied(child, (*path, index)) for index, child in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) and "${" in value else value

    def _text(self, text: str, path: Path) -> str:
        try:
            return _VARIABLE.sub(lambda match: self._put_in(match, path), text)
        except Undefined as error:
            self.flaws.append(Flaw(path, str(error)))
            return text

    def _put_in(self, match: re.Match[str], path: Path) -> str:
        if match[0] == "$${":
            return "${"
        inside = _INSIDE.fullmatch(match["inside"]) if match["end"] else None
        if inside is None:
            raise Undefined(
                "not a variable; write ${NAME}, ${NAME:-default} or ${file:/path}, and $${ for '${'"
            )
        variable = f"${{file:{inside['file']}}}" if inside["file"] else f"${{{inside['name']}}}"
        text = self._file(inside["file"]) if inside["file"] else self._variable(inside)
        self.insertions.append(Insertion(path, variable, text))
        return text

    def _variable(self, inside: re.Match[str]) -> str:
        name, default = inside["name"], inside["default"]
        text = self.environment.get(name)
        if default is not None:
            return text or str(default)
        if text is None:
            raise Undefined(f"the environment has no '{name}'; set it, or write ${{{name}:-default}}")
        return text

    def _file(self, name: str) -> str:
        try:
            with open(os.path.join(self.directory, os.path.expanduser(name)), "rb") as file:
                data = file.read(_LIMIT + 1)
            if len(data) > _LIMIT:
                raise Undefined(f"cannot read file '{name}': larger than 1 MiB")
            return data.decode().rstrip("\r\n")
        except OSError as error:
            raise Undefined(f"cannot read file '{name}': {(error.strerror or 'unknown').lower()}") from None
        except UnicodeDecodeError:
            raise Undefined(f"cannot read file '{name}': not text in UTF-8") from None


def concealed(flaw: Flaw, insertions: list[Insertion]) -> Flaw:
    """`flaw` with what was put in for variables taken out of its message again."""
    message = flaw.message
    for insertion in insertions:
        if insertion.text:
            message = _without(message, insertion, _is_related(flaw.path, insertion.path))
    return Flaw(flaw.path, message)


def _is_related(one: Path, other: Path) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _without(message: str, insertion: Insertion, related: bool) -> str:
    def quoted(match: re.Match[str]) -> str:
        inner = match[1]
        telling = related or len(inner) >= 6 or inner == insertion.text
        return f"'{insertion.variable}'" if inner and telling and inner in insertion.text else match[0]

    message = re.sub(r"'([^']*)'", quoted, message)
    if related or len(insertion.text) >= 4:
        whole = (
            rf"(?<!\w){re.escape(insertion.text)}(?!\w)"
            if len(insertion.text) < 8
            else re.escape(insertion.text)
        )
        message = re.sub(whole, lambda _: insertion.variable, message)
    return message
