"""What is decided about a table before rows are written to it, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from calve.errors import DataRefused, TableMismatch
from calve.iceberg.name import TableName
from calve.partitioning import PartitionField, partition_field
from calve.schema import DropColumn, RenameColumn, Schema, parse
from calve.sink import evolve
from calve.sink.declaration import IcebergSink

NAME = TableName("c", ("shop",), "t")


def metadata(ddl: str, *partition: str) -> Any:
    fields = tuple(map(partition_field, partition))
    return SimpleNamespace(
        schema=lambda: parse(ddl),
        partition=lambda: fields,
        partition_fields=lambda: fields,
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
    events = [{"change": "add_column", "column": f"c{n}" * 20, "before": None, "after": "INT"} for n in range(99)]
    text = evolve.summary(events)
    told = json.loads(text)
    assert len(text.encode()) <= evolve.LIMIT
    assert told[-1] == {"more": len(events) - len(told) + 1}
    assert json.loads(evolve.summary(events[:1])) == events[:1]
