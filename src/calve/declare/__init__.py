"""Declarations: files that become a Project, or problems with their lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from calve import model, pending
from calve.declare import yaml
from calve.declare.build import Building
from calve.declare.variables import Substitution, concealed
from calve.errors import DeclarationError
from calve.model import Flaw, Problem
from calve.project import Project

FILE = "calve.yaml"
"""The name of the declaration in a directory."""


def load(path: str | Path, environment: Mapping[str, str] | None = None) -> Project:
    """The project that a file, or `calve.yaml` in a directory, declares; raises DeclarationError."""
    shown = os.path.join(path, FILE) if os.path.isdir(path) else str(path)
    file = Path(os.path.abspath(shown))
    try:
        document = yaml.read(_bytes(shown))
    except yaml.Unreadable as error:
        raise DeclarationError([Problem(shown, error.line, "", error.message)]) from None
    substitution = Substitution(os.environ if environment is None else environment, str(file.parent))
    raw = substitution.applied(document.value)
    building = Building(str(file.parent))
    project = building.project(raw)
    certain = [*(flaw for _, flaw in document.flaws), *substitution.flaws, *pending.flaws(raw)]
    found = [*certain[len(document.flaws) :], *_unexplained(building.flaws, certain)]
    problems = {
        *(_problem(shown, line, flaw) for line, flaw in document.flaws),
        *(
            _problem(shown, _line(flaw.path, document.lines), concealed(flaw, substitution.insertions))
            for flaw in found
        ),
    }
    if problems or project is None:
        raise DeclarationError(list(problems))
    return project.placed(file)


def _bytes(shown: str) -> bytes:
    try:
        with open(shown, "rb") as file:
            return file.read(yaml.MAX_BYTES + 1)
    except OSError as error:
        raise yaml.Unreadable(0, f"cannot be read: {(error.strerror or 'unknown').lower()}") from None


def _unexplained(flaws: Iterable[Flaw], certain: Iterable[Flaw]) -> list[Flaw]:
    """Those of `flaws` that are not at or below a place where something certain is wrong already."""
    places = [flaw.path for flaw in certain if flaw.path]
    return [flaw for flaw in flaws if not any(flaw.path[: len(place)] == place for place in places)]


def _problem(shown: str, line: int, flaw: Flaw) -> Problem:
    return Problem(shown, line, _dotted(flaw.path), flaw.message)


def _line(path: model.Path, lines: Mapping[model.Path, int]) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)


def _dotted(path: model.Path) -> str:
    return "".join(map(_step, path)).removeprefix(".")


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if re.fullmatch(r"[\w-]+", part) else f"['{part}']"
