"""YAML as values with lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.declare import yaml


def value(text: str) -> Any:
    document = yaml.read(text.encode())
    assert document.flaws == []
    return document.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1", 1),
        ("a: -0x1", "-0x1"),
        ("a: 0x1F", 31),
        ("a: 0o17", 15),
        ("a: 1.5", 1.5),
        ("a: 1e3", 1000.0),
        ("a: 1.", 1.0),
        ("a: 1.e2", 100.0),
        ("a: .5", 0.5),
        ("a: -.inf", float("-inf")),
        ("a: true", True),
        ("a: 'true'", "true"),
        ("a: yes", "yes"),
        ("a: off", "off"),
        ("a: 2026-01-01", "2026-01-01"),
        ('a: "1"', "1"),
        ("a: |\n  x\n  y\n", "x\ny\n"),
        ("a: [1, b, {c: d}]", [1, "b", {"c": "d"}]),
        ("a: " + "9" * 60, "9" * 60),
    ],
)
def test_scalars_are_what_yaml_1_2_makes_of_them(text: str, expected: Any) -> None:
    assert value(text) == {"a": expected}


def test_every_path_has_the_line_of_its_key() -> None:
    lines = yaml.read(b"a:\n  b: 1\n  c:\n    - x\n    - y: 2\n").lines
    assert lines == {(): 1, ("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1): 5} | {
        ("a", "c", 1, "y"): 5
    }


def test_anchors_and_aliases_repeat_values() -> None:
    assert value("a: &x {b: 1}\nc: *x\n") == {"a": {"b": 1}, "c": {"b": 1}}


def test_merged_keys_yield_to_written_ones() -> None:
    assert value("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3\n")["d"] == {"b": 3, "c": 2}
    assert value("a: &x {b: 1}\nc: &y {b: 2, e: 4}\nd: {<<: [*x, *y]}\n")["d"] == {"b": 1, "e": 4}


def test_merging_what_is_no_mapping_is_refused() -> None:
    assert [flaw.message for _, flaw in yaml.read(b"a: {<<: 5}\n").flaws] == [
        "merges ('<<') what is not keys and values"
    ]


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert value("\ufeffa: 1") == {"a": 1}


def test_a_control_character_is_refused_with_its_line() -> None:
    with pytest.raises(yaml.Unreadable) as caught:
        yaml.read(b"a: 1\nb: \x01\n")
    assert (caught.value.line, caught.value.message) == (
        2,
        "not YAML: a character that is not allowed in text",
    )


def test_nesting_through_aliases_counts() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(yaml.Unreadable, match="nested deeper than 32"):
        yaml.read("\n".join(lines).encode())


def test_values_are_counted_while_the_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    composed, original = 0, yaml._Composition.node

    def node(self: yaml._Composition, *given: Any) -> Any:
        nonlocal composed
        composed += 1
        return original(self, *given)

    monkeypatch.setattr(yaml._Composition, "node", node)
    with pytest.raises(yaml.Unreadable, match="more than 50000 values"):
        yaml.read(b"[" + b"1," * 500_000 + b"1]")
    assert composed < 110_000


@settings(max_examples=60)
@given(st.text(max_size=80) | st.text(alphabet="ab:[]{}&*!<>-|\"' \n\t#%", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        yaml.read(text.encode(errors="replace"))
    except yaml.Unreadable:
        return
