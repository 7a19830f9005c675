"""Changes of a table's columns that a program asks for: what is left to be done, and what cannot be."""

import pytest

from calve.api.evolving import checked, is_made, making, towards
from calve.errors import UsageError
from calve.schema import (
    AddColumn,
    Column,
    DropColumn,
    MakeOptional,
    MoveColumn,
    Primitive,
    RenameColumn,
    UpdateType,
    apply,
    parse,
)

TABLE = parse("id INT NOT NULL, name STRING, place STRUCT<zip: STRING>")
TEXT = Primitive("string")
CHANGES = [
    AddColumn((), Column("note", TEXT)),
    AddColumn(("place",), Column("city", TEXT)),
    DropColumn(("name",), Column("name", TEXT)),
    RenameColumn(("name",), "label"),
    UpdateType(("id",), Primitive("int"), Primitive("bigint")),
    MakeOptional(("id",)),
    MoveColumn(("name",), None, "id"),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_change_is_known_by_what_it_leaves(change):
    assert not is_made(TABLE, change)
    assert is_made(apply(TABLE, [change]), change)


def test_an_attempt_that_landed_is_not_made_again():
    decide = making(CHANGES[:1])
    assert list(decide(TABLE)) == CHANGES[:1]
    assert list(decide(apply(TABLE, CHANGES[:1]))) == []


def test_a_change_that_is_there_before_the_first_attempt_is_an_error():
    there = apply(TABLE, CHANGES[:1])
    with pytest.raises(UsageError, match="Cannot add column 'note': it is there already"):
        checked("shop.orders", there, making(CHANGES[:1])(there))


def test_columns_that_are_wanted_become_changes():
    wanted = parse("id BIGINT NOT NULL, name STRING, place STRUCT<zip: STRING>, note STRING")
    assert apply(TABLE, towards(wanted)(TABLE)) == wanted
    assert not towards(TABLE)(TABLE)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            UpdateType(("name",), TEXT, Primitive("int")),
            "Iceberg does not read values of the one as the other",
        ),
        (AddColumn((), Column("note", TEXT, nullable=False)), "have no value for it"),
        (RenameColumn(("nobody",), "x"), "it is not there"),
    ],
)
def test_what_a_table_cannot_have_is_refused_with_its_reason(change, why):
    with pytest.raises(UsageError, match=f"Cannot change table 'shop.orders': .*{why}"):
        checked("shop.orders", TABLE, [change])


def test_a_table_keeps_a_column():
    table = parse("id INT")
    with pytest.raises(UsageError, match="no column would be left"):
        checked("t", table, [DropColumn(("id",), table.columns[0])])


def test_an_identifier_field_stays_as_it_is():
    for change in (DropColumn(("id",), TABLE.columns[0]), MakeOptional(("id",))):
        with pytest.raises(UsageError, match="it is one of the table's identifier fields"):
            checked("t", TABLE, [change], keys=("id",))
        assert checked("t", TABLE, [change]) == [change]
