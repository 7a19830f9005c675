"""The broken declarations: each gives the problems written in it, and shows no secret."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest

from calve import declare
from calve.errors import DeclarationError, exit_code

BROKEN = sorted((Path(__file__).parents[1] / "broken").glob("*.yaml"))


def notes(file: Path, word: str) -> list[str]:
    """The comments in `file` that begin with `word`."""
    return re.findall(rf"^# {word}: (.*)$", file.read_text(), re.MULTILINE)


def problems(file: Path) -> DeclarationError:
    environment = dict(note.split("=", 1) for note in notes(file, "environment"))
    with pytest.raises(DeclarationError) as caught:
        declare.load(file, environment)
    return caught.value


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_a_broken_declaration_gives_its_problems_with_their_lines(file: Path) -> None:
    found = [f"{one.line} | {one.path} | {one.message}" for one in problems(file).problems]
    assert found == notes(file, "expect")
    assert exit_code(problems(file)) == 78


@pytest.mark.parametrize(
    "file", [file for file in BROKEN if "CANARY" in file.read_text()], ids=lambda file: file.stem
)
def test_no_secret_is_shown(file: Path) -> None:
    error = problems(file)
    shown = "".join(traceback.format_exception(error)) + repr(error) + repr(error.problems)
    assert "CANARY" not in shown


def test_there_are_enough_broken_declarations() -> None:
    assert len(BROKEN) >= 40
    assert sum("CANARY" in file.read_text() for file in BROKEN) >= 15
