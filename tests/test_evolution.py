"""Changes of schemas: found, made, judged by a policy, all without Spark."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.schema import (
    AddColumn,
    Array,
    Column,
    Decimal,
    DropColumn,
    Evolution,
    MakeOptional,
    Map,
    MoveColumn,
    Policy,
    Primitive,
    RenameColumn,
    Schema,
    SchemaError,
    Struct,
    UpdateType,
    apply,
    changes,
    event,
    evolution,
    is_compatible,
    landing,
    parse,
    storable,
    to_sql,
)

PLAIN = ["boolean", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp"]
names = st.sampled_from(["a", "b", "c", "d", "e", "two words", "x.y", "`"])
leaves = st.sampled_from(PLAIN).map(Primitive) | st.builds(Decimal, st.integers(5, 9), st.just(2))


def columns(types, nullable):
    one = st.builds(Column, names, types, nullable)
    return st.lists(one, min_size=1, max_size=5, unique_by=lambda column: column.name).map(tuple)


def types(nullable):
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Array, inner, nullable)
            | st.builds(Map, leaves, inner, nullable)
            | columns(inner, nullable).map(Struct)
        ),
        max_leaves=8,
    )


def schemas(nullable):
    return columns(types(nullable), nullable).map(Schema)


quick = settings(max_examples=100, deadline=None)
every = schemas(st.booleans())
loose = schemas(st.just(True))
FULL, ADD, STRICT = Policy("full"), Policy("add_columns"), Policy("strict")


@pytest.mark.thorough
@quick
@given(every)
def test_a_schema_does_not_differ_from_itself(schema):
    assert changes(schema, schema) == []
    for policy in (FULL, ADD, STRICT):
        assert evolution(schema, schema, policy).changes == ()
        assert evolution(schema, schema, policy).refusals == ()


@pytest.mark.thorough
@quick
@given(every, loose)
def test_making_the_changes_gives_the_other_schema(old, new):
    assert apply(old, changes(old, new)) == new


@pytest.mark.thorough
@quick
@given(every, every)
def test_only_not_null_is_not_taken_over(old, new):
    after = apply(old, changes(old, new))
    assert after.names == new.names
    assert changes(after, new) == []


@pytest.mark.thorough
@quick
@given(every, every, st.sampled_from([FULL, ADD]), st.booleans(), st.sampled_from(["new_column", "variant"]))
def test_what_a_policy_does_it_does_once(old, new, policy, is_said, type_change):
    policy = Policy(policy.mode, type_change, is_said=is_said, format_version=3)
    first = evolution(old, new, policy)
    if first.refusals:
        assert first.changes == ()
        return
    after = apply(old, first.changes)
    assert evolution(after, new, policy) == Evolution()


@pytest.mark.thorough
@quick
@given(every, every)
def test_adding_columns_takes_nothing_away(old, new):
    found = evolution(old, new, ADD)
    kinds = {type(change) for change in found.changes}
    assert kinds <= {AddColumn, UpdateType, MakeOptional}
    if found.changes:
        after = apply(old, found.changes)
        assert after.names[: len(old.names)] == old.names


@pytest.mark.thorough
@quick
@given(every, every)
def test_what_a_batch_lacks_by_chance_is_never_dropped_nor_moved(old, new):
    found = evolution(old, new, Policy("full", is_said=False))
    assert not [one for one in found.changes if isinstance(one, (DropColumn, MoveColumn))]


@pytest.mark.thorough
@quick
@given(st.permutations(["a", "b", "c", "d", "e", "f"]))
def test_one_column_out_of_place_is_one_move(order):
    old = Schema(tuple(Column(name, Primitive("int")) for name in order))
    name = random.Random(repr(order)).choice(order)
    rest = [one for one in order if one != name]
    moved = [*rest, name]
    new = Schema(tuple(Column(one, Primitive("int")) for one in moved))
    found = changes(old, new)
    assert len(found) <= 1
    assert apply(old, found) == new


NESTED = "id INT, s STRUCT<a: INT>, l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>"


@pytest.mark.parametrize(
    ("old", "new", "change", "sql"),
    [
        (
            "a INT",
            "a INT, b STRING COMMENT 'its'",
            AddColumn((), Column("b", Primitive("string"), comment="its")),
            "ADD COLUMN b STRING COMMENT 'its'",
        ),
        (
            NESTED,
            NESTED.replace("l ARRAY<STRUCT<a: INT>>", "l ARRAY<STRUCT<a: INT, b: DATE>>"),
            AddColumn(("l", "element"), Column("b", Primitive("date"))),
            "ADD COLUMN l.element.b DATE",
        ),
        (
            NESTED,
            NESTED.replace("STRING, STRUCT<a: INT>", "STRING, STRUCT<a: INT, b: DATE>"),
            AddColumn(("m", "value"), Column("b", Primitive("date"))),
            "ADD COLUMN m.value.b DATE",
        ),
        (
            "a INT, `b c` INT",
            "a INT",
            DropColumn(("b c",), Column("b c", Primitive("int"))),
            "DROP COLUMN `b c`",
        ),
        (
            "a INT",
            "a BIGINT",
            UpdateType(("a",), Primitive("int"), Primitive("bigint")),
            "ALTER COLUMN a TYPE BIGINT",
        ),
        (
            "a ARRAY<INT>",
            "a ARRAY<BIGINT>",
            UpdateType(("a", "element"), Primitive("int"), Primitive("bigint")),
            "ALTER COLUMN a.element TYPE BIGINT",
        ),
        ("a INT NOT NULL", "a INT", MakeOptional(("a",)), "ALTER COLUMN a DROP NOT NULL"),
        ("a INT, b INT, c INT", "c INT, a INT, b INT", MoveColumn(("c",), None, "b"), "ALTER COLUMN c FIRST"),
        (
            "a INT, b INT, c INT",
            "b INT, c INT, a INT",
            MoveColumn(("a",), "c", None),
            "ALTER COLUMN a AFTER c",
        ),
    ],
)
def test_each_kind_of_change_and_its_sql(old, new, change, sql):
    found = changes(parse(old), parse(new))
    assert found == [change]
    assert to_sql(found, "shop.t") == [f"ALTER TABLE shop.t {sql}"]
    assert event(found[0])["column"] == ".".join(change.path)


def test_a_rename_is_told_and_comes_before_what_happens_inside():
    old, new = parse("s STRUCT<a: INT>, b INT"), parse("t STRUCT<x: BIGINT>, b INT")
    found = changes(old, new, {"s": "t", "s.a": "x"})
    assert found[:2] == [RenameColumn(("s", "a"), "x"), RenameColumn(("s",), "t")]
    assert found[2] == UpdateType(("t", "x"), Primitive("int"), Primitive("bigint"))
    assert apply(old, found) == new
    assert to_sql(found, "t")[1] == "ALTER TABLE t RENAME COLUMN s TO t"
    assert event(found[0]) == {"change": "rename_column", "column": "s.a", "before": "a", "after": "x"}


def test_a_rename_that_took_place_is_none_any_more():
    assert changes(parse("b INT"), parse("b INT"), {"a": "b"}) == []
    # Rows that still have the old name do not tell of a rename.
    assert changes(parse("a INT"), parse("a INT"), {"a": "b"}) == []


def aliased(ddl, **aliases):
    """The columns of `ddl`, some of which were called differently before; `s__a` is column `a` inside `s`."""

    def told(path, column):
        inside = column.type
        if isinstance(inside, Struct):
            inside = Struct(tuple(told((*path, one.name), one) for one in inside.columns))
        return replace(column, type=inside, aliases=tuple(aliases.get("__".join(path), ())))

    return Schema(tuple(told((one.name,), one) for one in parse(ddl).columns))


@pytest.mark.parametrize(
    ("old", "new", "renames"),
    [
        ("a INT, b INT", aliased("c INT, b INT", c=["a"]), {"a": "c"}),
        ("a INT, b INT", aliased("c INT, b INT", c=["x", "a"]), {"a": "c"}),
        # What is still there under its own name was not renamed, nor what has its new name already.
        ("a INT, b INT", aliased("a INT, c INT", c=["a"]), {}),
        ("a INT, c INT", aliased("c INT", c=["a"]), {}),
        # Two that were called one: the first keeps its values.
        ("a INT, b INT", aliased("c INT", c=["b", "a"]), {"b": "c"}),
        ("a INT", aliased("c INT, d INT", c=["a"], d=["a"]), {"a": "c"}),
        ("s STRUCT<a: INT>", aliased("s STRUCT<b: INT>", s__b=["a"]), {"s.a": "b"}),
        ("s STRUCT<a: INT>", aliased("t STRUCT<b: INT>", t=["s"], t__b=["a"]), {"s": "t", "s.a": "b"}),
    ],
)
def test_aliases_are_renames_where_the_policy_has_them(old, new, renames):
    old = parse(old)
    found = evolution(old, new, FULL)
    told = {".".join(one.path): one.name for one in found.changes if isinstance(one, RenameColumn)}
    assert told == renames
    assert apply(old, found.changes) == new
    assert evolution(apply(old, found.changes), new, FULL) == Evolution()
    assert not [one for one in evolution(old, new, ADD).changes if isinstance(one, RenameColumn)]


def test_without_renames_a_column_that_the_source_calls_differently_now_is_refused():
    old, new = parse("a INT, b INT"), aliased("c INT, b INT", c=["a"])
    (line,) = evolution(old, new, ADD).refusals
    assert "column 'a' is called 'c' in the source now; 'schema_evolution: full' renames it" in line
    # A column of the new name that somebody has added, or an alias that the table does not have, is none.
    assert evolution(parse("a INT, b INT, c INT"), new, ADD) == Evolution()
    assert evolution(parse("b INT"), new, ADD).refusals == ()


def test_what_the_declaration_renames_counts_before_aliases():
    policy = Policy("full", renames={"a": "d"})
    found = evolution(parse("a INT"), aliased("c INT, d INT", c=["a"]), policy)
    assert found.changes[0] == RenameColumn(("a",), "d")
    assert len([one for one in found.changes if isinstance(one, RenameColumn)]) == 1


def test_a_column_of_the_key_is_not_renamed_by_an_alias_either():
    for keys in (["id"], ["key"]):
        found = evolution(
            parse("id INT NOT NULL"), aliased("key INT NOT NULL", key=["id"]), Policy("full", keys=keys)
        )
        assert any("cannot be renamed" in line for line in found.refusals)


@pytest.mark.parametrize(
    "change",
    [
        UpdateType(("x",), Primitive("int"), Primitive("bigint")),
        MoveColumn(("a",), "nothing"),
        AddColumn((), Column("a", Primitive("int"))),
        RenameColumn(("a",), "s"),
        MakeOptional(("a", "element")),
    ],
)
def test_a_change_that_cannot_be_made_is_an_error(change):
    with pytest.raises(SchemaError):
        apply(parse("a INT, s STRUCT<a: INT>"), [change])


WIDER = [("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("DECIMAL(5,2)", "DECIMAL(9,2)"), ("SMALLINT", "BIGINT")]


@pytest.mark.parametrize(("old", "new"), WIDER)
@pytest.mark.parametrize("policy", [ADD, FULL])
def test_a_wider_type_is_taken_over_and_a_narrower_one_fits(old, new, policy):
    wide = evolution(parse(f"a {old}"), parse(f"a {new}"), policy)
    assert [type(change) for change in wide.changes] == [UpdateType]
    assert evolution(parse(f"a {new}"), parse(f"a {old}"), policy).changes == ()
    assert is_compatible(parse(f"a {new}"), parse(f"a {old}"), policy)
    assert not is_compatible(parse(f"a {new}"), parse(f"a {old}"), STRICT)


OTHER = [("INT", "STRING"), ("BIGINT", "DOUBLE"), ("DECIMAL(5,2)", "DECIMAL(9,3)"), ("DATE", "TIMESTAMP")]
OTHER += [("INT", "STRUCT<a: INT>"), ("ARRAY<INT>", "ARRAY<STRING>"), ("MAP<INT, INT>", "MAP<BIGINT, INT>")]
WORDS = {"DECIMAL(9,3)": "decimal_9_3", "STRUCT<a: INT>": "struct", "ARRAY<STRING>": "array"}
WORDS["MAP<BIGINT, INT>"] = "map"


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_another_type_is_refused_or_becomes_a_column_of_its_own(old, new):
    table, rows = parse(f"a {old} NOT NULL, b INT"), parse(f"a {new} NOT NULL, b INT")
    (line,) = evolution(table, rows, ADD).refusals
    assert "column 'a" in line
    assert "in the rows" in line
    assert "in the table" in line
    assert evolution(table, rows, Policy("full", "refuse")).refusals
    found = evolution(table, rows, FULL).changes
    name = f"a_{WORDS.get(new, new.lower())}"
    assert apply(table, found) == parse(f"a {old}, b INT, {name} {new}") or isinstance(found[-1], MoveColumn)
    assert {one.column.name for one in found if isinstance(one, AddColumn)} == {name}
    assert MakeOptional(("a",)) in found
    assert landing(table.columns, rows.columns[0], FULL).name == name


def test_another_type_inside_a_struct_is_a_column_beside_it():
    table, rows = parse("l ARRAY<STRUCT<a: INT>>"), parse("l ARRAY<STRUCT<a: STRING>>")
    assert evolution(table, rows, Policy("full", is_said=False)).changes == (
        AddColumn(("l", "element"), Column("a_string", Primitive("string"))),
    )


def test_a_variant_takes_whatever_comes_where_the_format_has_it():
    policy = Policy("full", "variant", format_version=3)
    found = evolution(parse("a INT"), parse("a STRING"), policy).changes
    assert found[0] == AddColumn((), Column("a_variant", Primitive("variant")))
    after = apply(parse("a INT"), found)
    assert evolution(after, parse("a DATE"), policy).changes == ()
    (line,) = evolution(parse("a INT"), parse("a DATE"), Policy("full", "variant")).refusals
    assert "from format_version 3 on" in line


def test_a_column_that_is_missing_is_null_if_it_may_be():
    table = parse("a INT, b STRING, c INT NOT NULL")
    assert evolution(table, parse("a INT, c INT NOT NULL"), ADD).changes == ()
    (line,) = evolution(table, parse("a INT"), ADD).refusals
    assert line == "column 'c' is missing in the rows and INT NOT NULL in the table"


def test_a_column_is_dropped_only_where_the_source_says_so_and_nothing_needs_it():
    table, rows = parse("a INT, b STRING"), parse("a INT")
    assert evolution(table, rows, FULL).changes == (DropColumn(("b",), Column("b", Primitive("string"))),)
    assert evolution(table, rows, Policy("full", is_said=False)).changes == ()
    assert evolution(table, rows, Policy("full", used=["b"])).refusals
    assert evolution(table, rows, Policy("full", keys=["b"])).refusals


def test_the_key_stays_as_it_is():
    table = parse("id INT NOT NULL, n INT")
    policy = Policy("full", keys=["id"], renames={"id": "key"})
    for rows in ("id INT, n INT", "key INT NOT NULL, n INT", "id STRING NOT NULL, n INT", "n INT"):
        assert evolution(table, parse(rows), policy).refusals, rows
    assert is_compatible(table, parse("id BIGINT NOT NULL, n INT"), policy)


def test_new_columns_may_be_null_whatever_the_rows_say():
    found = evolution(parse("a INT"), parse("a INT, b STRUCT<c: INT NOT NULL> NOT NULL"), ADD).changes
    assert apply(parse("a INT"), found) == parse("a INT, b STRUCT<c: INT NOT NULL>")


def test_a_name_that_differs_by_case_only_is_refused():
    for table, rows in (("Id INT", "id INT"), ("s STRUCT<Id: INT>", "s STRUCT<id: INT>")):
        (line,) = evolution(parse(table), parse(rows), ADD).refusals
        assert "by case only" in line


def test_rows_with_the_name_that_a_type_change_would_give_are_refused():
    (line,) = evolution(parse("a INT, b INT"), parse("a STRING, a_string INT"), FULL).refusals
    assert "column 'a_string' would come twice" in line
    inner = evolution(parse("s STRUCT<a: INT>"), parse("s STRUCT<a: STRING, a_string: INT>"), FULL)
    assert "column 's.a_string' would come twice" in inner.refusals[0]


def test_what_is_always_null_is_added_once_its_type_is_known():
    rows = parse("a INT, b VOID, c STRUCT<d: VOID>, e STRUCT<f: VOID, g: INT>, h ARRAY<VOID>")
    assert storable(rows) == parse("a INT, e STRUCT<g: INT>")
    assert evolution(parse("a INT, b INT"), rows, ADD).changes == (
        AddColumn((), Column("e", Struct((Column("g", Primitive("int")),)))),
    )


def test_a_change_inside_a_key_of_a_map_is_refused():
    table = parse("m MAP<STRUCT<a: INT>, INT>")
    assert evolution(table, parse("m MAP<STRUCT<a: INT, b: INT>, INT>"), ADD).refusals
    assert evolution(table, parse("m MAP<STRUCT<a: BIGINT>, INT>"), ADD).refusals


@pytest.mark.parametrize("rows", ["a INT", "a INT, b INT, c INT", "a BIGINT, b INT", "a INT NOT NULL, b INT"])
def test_strict_refuses_any_difference_but_the_order(rows):
    assert evolution(parse("a INT, b INT"), parse(rows), STRICT).refusals
    assert not evolution(parse("a INT, b INT"), parse("b INT, a INT"), STRICT).refusals


def test_nullability_that_a_batch_shows_does_not_relax_the_table():
    table, rows = parse("a INT NOT NULL"), parse("a INT")
    assert evolution(table, rows, ADD).changes == (MakeOptional(("a",)),)
    assert evolution(table, rows, Policy(is_said=False)).refusals
