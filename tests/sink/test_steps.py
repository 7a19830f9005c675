"""What is decided about a table before rows are written to it, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from calve.errors import DataRefused, TableMismatch
from calve.iceberg import shape
from calve.iceberg.name import TableName
from calve.partitioning import PartitionField, partition_field
from calve.schema import AddColumn, DropColumn, MakeOptional, RenameColumn, Schema, apply, parse
from calve.sink import evolve
from calve.sink.declaration import IcebergSink
from calve.sink.tombstones import followed

NAME = TableName("c", ("shop",), "t")


def metadata(ddl: str, *partition: str, sort: tuple[str, ...] = ()) -> Any:
    fields = tuple(map(partition_field, partition))
    return SimpleNamespace(
        schema=lambda: parse(ddl),
        partition=lambda: fields,
        partition_fields=lambda: fields,
        sort_columns=lambda: sort,
        format_version=2,
    )


def sink(**keys: Any) -> IcebergSink:
    return IcebergSink.model_validate({"namespace": "shop", "table": "t", "schema_evolution": "full", **keys})


def test_what_rows_lack_is_dropped_only_where_the_source_says_so():
    table = metadata("id INT, b STRING")
    said = evolve.steps(table, sink(), NAME, parse("id INT"), is_said=True)
    assert [type(one) for one in said.columns] == [DropColumn]
    assert not evolve.steps(table, sink(), NAME, parse("id INT"), is_said=False)
    needed = metadata("id INT, b STRING NOT NULL")
    with pytest.raises(DataRefused, match="'b' is missing in the rows"):
        evolve.steps(needed, sink(), NAME, parse("id INT"), is_said=False)


@pytest.mark.parametrize(
    "keys", [{"partition_by": ["b"]}, {"sort_by": ["b"]}, {"commit_mode": "upsert", "key_fields": ["b"]}]
)
def test_what_the_declaration_needs_is_never_dropped(keys):
    table = metadata("id INT, b STRING", *keys.get("partition_by", ()))
    with pytest.raises(TableMismatch, match="'b' is missing in the rows, and the declaration"):
        evolve.steps(table, sink(**keys), NAME, parse("id INT"), is_said=True)


def test_what_the_table_itself_is_sorted_by_is_never_dropped():
    with pytest.raises(TableMismatch, match="'b' is missing in the rows"):
        evolve.steps(metadata("id INT, b STRING", sort=("b",)), sink(), NAME, parse("id INT"), is_said=True)


def test_a_column_that_partitions_are_made_of_can_be_called_differently_by_an_alias():
    column = replace(parse("day DATE").columns[0], aliases=("date",))
    rows = Schema((*parse("id INT").columns, column))
    found = evolve.steps(metadata("id INT, date DATE", "date"), sink(partition_by=["day"]), NAME, rows, True)
    assert found.columns == (RenameColumn(("date",), "day"),)
    assert found.partition == ()


def test_partition_fields_follow_renames_into_structs():
    made = [RenameColumn(("s", "a"), "x"), RenameColumn(("s",), "t")]
    assert evolve.renamed(PartitionField("bucket", "s.a", 4), made) == PartitionField("bucket", "t.x", 4)
    assert evolve.renamed(PartitionField("identity", "sa"), made) == PartitionField("identity", "sa")


def test_a_summary_of_changes_is_bounded_and_tells_how_many_it_leaves_out():
    events = [
        {"change": "add_column", "column": f"c{n}" * 20, "before": None, "after": "INT"} for n in range(99)
    ]
    text = evolve.summary(events)
    told = json.loads(text)
    assert len(text.encode()) <= evolve.LIMIT
    assert told[-1] == {"more": len(events) - len(told) + 1}
    assert json.loads(evolve.summary(events[:1])) == events[:1]


def test_what_is_inside_a_type_is_called_as_it_is_now():
    def kind(a, b, c):
        ddl = f"s STRUCT<{a}: INT, l: ARRAY<STRUCT<{b}: INT>>, m: MAP<STRING, STRUCT<{c}: INT>>>"
        return parse(ddl).columns[0].type

    names = {("s", "a"): "x", ("s", "l", "element", "b"): "y", ("s", "m", "value", "c"): "z"}
    found = shape.called(kind("a", "b", "c"), ("s",), lambda path: names.get(path, path[-1]))
    assert found == kind("x", "y", "z")


WHEN = "deleted_at TIMESTAMP NOT NULL"


@pytest.mark.parametrize(
    ("table", "wanted", "after"),
    [
        ("id INT NOT NULL, at INT", "id BIGINT NOT NULL, at BIGINT", "id BIGINT NOT NULL, at BIGINT"),
        ("id BIGINT NOT NULL, at BIGINT", "id INT NOT NULL, at INT", "id BIGINT NOT NULL, at BIGINT"),
        ("id INT NOT NULL, at FLOAT NOT NULL", "id INT NOT NULL, at DOUBLE", "id INT NOT NULL, at DOUBLE"),
        ("id INT NOT NULL, at INT", "id INT NOT NULL, at INT", "id INT NOT NULL, at INT"),
    ],
)
def test_tombstones_have_the_types_of_the_table(table, wanted, after):
    old, new = parse(f"{table}, {WHEN}"), parse(f"{wanted}, {WHEN}")
    found = followed(old, new, {})
    assert found.refusals == ()
    assert apply(old, found.changes) == parse(f"{after}, {WHEN}")
    assert followed(apply(old, found.changes), new, {}).changes == ()


def test_another_order_leaves_the_one_of_before_in_the_tombstones():
    old = parse(f"id INT NOT NULL, at INT NOT NULL, {WHEN}")
    found = followed(old, parse(f"id INT NOT NULL, lsn BIGINT, {WHEN}"), {})
    assert found.changes == (MakeOptional(("at",)), AddColumn((), parse("lsn BIGINT").columns[0]))


def test_an_order_that_is_called_differently_keeps_its_values():
    old, new = parse(f"id INT NOT NULL, at INT, {WHEN}"), parse(f"id INT NOT NULL, ts BIGINT, {WHEN}")
    assert apply(old, followed(old, new, {"at": "ts", "x": "y"}).changes) == new
    aliased = Schema(tuple(replace(one, aliases=("at",)) if one.name == "ts" else one for one in new.columns))
    assert followed(old, aliased, {}).changes[0] == RenameColumn(("at",), "ts")


def test_an_order_of_another_kind_is_refused():
    old = parse(f"id INT NOT NULL, at INT, {WHEN}")
    assert followed(old, parse(f"id INT NOT NULL, at STRING, {WHEN}"), {}).refusals


def test_partitions_that_the_table_decides_cannot_be_made_anew():
    (flaw,) = sink(partitioning="table_default", partition_evolution=True).flaws()
    assert flaw.message == "has no effect with 'partitioning: table_default'"
