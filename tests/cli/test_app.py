"""What holds for every verb: usage errors."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["bogus"], "No such command 'bogus'; see 'calve --help'"),
        (["read"], "Missing argument 'TABLE'; see 'calve read --help'"),
        (["run", "--bogus"], "No such option '--bogus'; see 'calve run --help'"),
    ],
)
def test_a_usage_error_is_one_sentence_that_names_the_help_of_its_verb(calve, arguments, line):
    ended = calve(*arguments)
    assert (ended.code, ended.err) == (64, f"{line}\n")


def test_a_reason_that_no_letter_can_have_is_refused(calve):
    ended = calve("dead-letter", "list", "--reason", "wrong_typ")
    assert ended.code == 64
    assert "Cannot find reason 'wrong_typ': there is " in ended.err
    assert "did you mean 'wrong_type'" in ended.err
