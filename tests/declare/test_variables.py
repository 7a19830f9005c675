"""Variables in values, and keeping them out of messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.declare.variables import Insertion, Substitution, concealed
from calve.model import Flaw


def applied(value: Any, directory: str = "/", **environment: str) -> Any:
    substitution = Substitution(environment, directory)
    result = substitution.applied(value)
    assert substitution.flaws == []
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "x"),
        ("<${A}${A}>", "<xx>"),
        ("${B:-y}", "y"),
        ("${A:-y}", "x"),
        ("${EMPTY}", ""),
        ("${EMPTY:-y}", "y"),
        ("${B:-}", ""),
        ("$${A}", "${A}"),
        ("$A {A} $", "$A {A} $"),
        ("${YAML}", "[1, 2]: {a: *b}"),
        ("${NESTED}", "${A}"),
    ],
)
def test_variables_are_replaced(text: str, expected: str) -> None:
    given = {"A": "x", "EMPTY": "", "YAML": "[1, 2]: {a: *b}", "NESTED": "${A}"}
    assert applied({"k": [text, 1, None]}, **given) == {"k": [expected, 1, None]}


def test_a_file_is_put_in_without_its_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("first\nsecond\n")
    assert applied("${file:secret}", str(tmp_path)) == "first\nsecond"
    assert applied(f"${{file:{tmp_path}/secret}}") == "first\nsecond"


def test_files_that_cannot_be_put_in_are_flaws(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (2**20 + 1))
    (tmp_path / "binary").write_bytes(b"\xff")
    substitution = Substitution({}, str(tmp_path))
    substitution.applied(["${file:large}", "${file:binary}", "${file:.}"])
    assert [flaw.message for flaw in substitution.flaws] == [
        "cannot read file 'large': larger than 1 MiB",
        "cannot read file 'binary': not text in UTF-8",
        "cannot read file '.': is a directory",
    ]


def test_what_was_put_in_does_not_show_itself() -> None:
    assert "geheim" not in repr(Insertion(("a",), "${A}", "geheim"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("no source is called 'geheim'", "no source is called '${A}'"),
        ("no source is called 'my-geheim-x'", "no source is called 'my-${A}-x'"),
        ("did you mean 'eheim'?", "did you mean '${A}'?"),
        ("expected one of json, csv", "expected one of json, csv"),
    ],
)
def test_a_message_shows_the_variable_instead(message: str, expected: str) -> None:
    flaw = Flaw(("a", "b"), message)
    assert concealed(flaw, [Insertion(("a",), "${A}", "geheim")]).message == expected


def test_a_message_elsewhere_keeps_words_that_are_short_parts_of_a_value() -> None:
    insertions = [Insertion(("a",), "${A}", "a type of some kind")]
    assert concealed(Flaw(("b",), "did you mean 'type'?"), insertions).message == "did you mean 'type'?"


@settings(max_examples=80)
@given(st.text(alphabet="abcXYZ09.-_/ ", min_size=4, max_size=20).filter(lambda text: text.strip() == text))
def test_a_whole_value_is_never_shown(text: str) -> None:
    flaw = concealed(
        Flaw(("b",), f"no source is called '{text}' ({text})"), [Insertion(("a",), "${A}", text)]
    )
    assert text not in flaw.message
