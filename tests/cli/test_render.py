import sys

import pytest

from calve.cli import render
from calve.cli.render import Line, Pairs, Table


@pytest.fixture
def on_terminal(monkeypatch, capsys):
    """Shows blocks on a terminal that is 40 places wide; what it would show."""

    def show(*blocks):
        monkeypatch.setenv("COLUMNS", "40")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        render.show("text", None, blocks)
        return capsys.readouterr().out

    return show


def test_columns_are_aligned_and_nothing_trails():
    table = Table(("id", "name"), [[1, "a"], [1000, "long enough"]], indent=2)
    assert render.lines([table]) == ["  id    name", "  1     a", "  1000  long enough"]


def test_wide_characters_take_two_places():
    assert render.lines([Table(("a", "b"), [["漢字", 1], ["x", 2]])]) == ["a     b", "漢字  1", "x     2"]


def test_a_list_in_pairs_takes_a_line_each():
    pairs = Pairs({"columns": ["id", "name"], "epoch": 3})
    assert render.lines([pairs, Line("end")]) == ["columns  id", "         name", "epoch    3", "end"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (12, "12"),
        ("grün", "grün"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
    ],
)
def test_a_cell_is_one_line(value, text):
    assert render.cell(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s ago"), (59, "59 s ago"), (60, "1 min ago"), (7200, "2 h ago")]
)
def test_ages_have_one_unit(seconds, text):
    assert render.ago(seconds) == text


def test_json_is_printed_instead_of_the_blocks(capsys):
    render.show("json", {"a": "ä"}, [Line("not this")])
    assert capsys.readouterr().out == '{\n  "a": "ä"\n}\n'


def test_plain_text_is_not_cut_and_does_not_need_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    render.show("text", None, [Table(("a",), [["x" * 200]])])
    assert "x" * 200 in capsys.readouterr().out


def test_cells_are_cut_to_the_terminal(on_terminal):
    lines = on_terminal(Table(("a", "b"), [["x" * 100, "y"], ["漢" * 100, "z"]])).splitlines()
    assert lines[1:] == ["x" * 36 + "…  y", "漢" * 18 + "…  z"]


def test_narrow_columns_stay_as_they_are_when_a_wide_one_is_cut(on_terminal):
    lines = on_terminal(Table(("id", "text", "at"), [[12345, "x" * 100, "2026-01-01"]])).splitlines()
    assert lines[1] == f"12345  {'x' * 20}…  2026-01-01"


def test_what_looks_like_markup_is_shown_as_it_is(on_terminal):
    assert on_terminal(Table(("a",), [["[red]y"]]), Line("[red]z")).splitlines()[1:] == ["[red]y", "[red]z"]


def test_wrapped_cells_are_whole(on_terminal):
    assert on_terminal(Table(("a",), [["word " * 20]], wrap=True)).count("word") == 20
