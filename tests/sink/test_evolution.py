"""What becomes of a running pipeline when its rows change, for each kind of change, policy and mode."""

from __future__ import annotations

import decimal
import json
import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from calve import crash, schema
from calve.crash import Crash, Fault
from calve.errors import DataRefused, Fenced, TableMismatch
from calve.iceberg import evolve
from calve.iceberg.lookup import known_at
from calve.patience import Patience
from calve.position import parse as parse_mark
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.schema import Array, Column, Decimal, Map, Primitive, Schema, Struct
from calve.sink.declaration import IcebergSink
from calve.sink.writer import Writer
from calve.sources.files import FilesSource
from tests.changes import with_duckdb, with_pyiceberg
from tests.lake import Lake
from tests.script import Batch, ScriptSource

S = "s STRUCT<a: INT>"


@dataclass(frozen=True)
class Case:
    """Two batches, and the columns and rows that a policy leaves; None where it refuses the second one."""

    before: Batch
    after: Batch
    add_columns: tuple[str, list[Any]] | None
    full: tuple[str, list[Any]] | None = None
    says: bool = True
    keys: tuple[tuple[str, Any], ...] = ()


def case(before, after, add_columns, full="same", says=True, **keys):
    full = add_columns if full == "same" else full
    return Case(Batch(*before), Batch(*after), add_columns, full, says, tuple(keys.items()))


ID = "id INT NOT NULL"
CASES = {
    "a new column": case(
        (ID, [(1,)]),
        (f"{ID}, b STRING", [(2, "x")]),
        (f"{ID}, b STRING", [(1, None), (2, "x")]),
    ),
    "a new column that is NOT NULL and first": case(
        (ID, [(1,)]),
        (f"b STRING NOT NULL, {ID}", [("x", 2)]),
        (f"{ID}, b STRING", [(1, None), (2, "x")]),
        (f"b STRING, {ID}", [(None, 1), ("x", 2)]),
    ),
    "a new column of NULLs that the source says": case(
        (ID, [(1,)]),
        (f"{ID}, b STRING", [(2, None)]),
        (f"{ID}, b STRING", [(1, None), (2, None)]),
    ),
    "new columns inside": case(
        (f"{ID}, {S}, l ARRAY<{S[2:]}>, m MAP<STRING, {S[2:]}>", [(1, (1,), [(1,)], {"k": (1,)})]),
        (
            f"{ID}, s STRUCT<b: INT, a: INT>, l ARRAY<STRUCT<a: INT, b: INT>>, m MAP<STRING, STRUCT<b: INT>>",
            [(2, (8, 9), [(8, 9), None], {"k": (8,)})],
        ),
        (
            f"{ID}, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>, "
            "m MAP<STRING, STRUCT<a: INT, b: INT>>",
            [
                (1, (1, None), [(1, None)], {"k": (1, None)}),
                (2, (9, 8), [(8, 9), None], {"k": (None, 8)}),
            ],
        ),
        says=False,
    ),
    "wider types": case(
        (f"{ID}, a INT, b FLOAT, c DECIMAL(5,2), l ARRAY<INT>", [(1, 1, 0.5, None, [1])]),
        (f"{ID}, a BIGINT, b DOUBLE, c DECIMAL(9,2), l ARRAY<BIGINT>", [(2, 2**40, 0.1, None, [2**40])]),
        (
            f"{ID}, a BIGINT, b DOUBLE, c DECIMAL(9,2), l ARRAY<BIGINT>",
            [(1, 1, 0.5, None, [1]), (2, 2**40, 0.1, None, [2**40])],
        ),
    ),
    "narrower types": case(
        (f"{ID}, a BIGINT, s STRUCT<a: BIGINT, b: INT>", [(1, 2**40, (1, 2))]),
        (f"{ID}, a INT, s STRUCT<a: INT>", [(2, 7, (3,))]),
        (f"{ID}, a BIGINT, s STRUCT<a: BIGINT, b: INT>", [(1, 2**40, (1, 2)), (2, 7, (3, None))]),
        says=False,
    ),
    "a missing column": case(
        (f"{ID}, b STRING", [(1, "x")]),
        (ID, [(2,)]),
        (f"{ID}, b STRING", [(1, "x"), (2, None)]),
        says=False,
    ),
    "a column that is gone": case(
        (f"{ID}, b STRING, c INT", [(1, "x", 1)]),
        (f"{ID}, c INT", [(2, 2)]),
        (f"{ID}, b STRING, c INT", [(1, "x", 1), (2, None, 2)]),
        (f"{ID}, c INT", [(1, 1), (2, 2)]),
    ),
    "a missing column that is NOT NULL": case(
        (f"{ID}, b STRING NOT NULL", [(1, "x")]),
        (ID, [(2,)]),
        None,
        says=False,
    ),
    "a column that may be NULL now": case(
        (f"{ID}, b STRING NOT NULL", [(1, "x")]),
        (f"{ID}, b STRING", [(2, None)]),
        (f"{ID}, b STRING", [(1, "x"), (2, None)]),
    ),
    "a renamed column": case(
        (f"{ID}, b STRING", [(1, "x")]),
        (f"{ID}, c STRING", [(2, "y")]),
        (f"{ID}, b STRING, c STRING", [(1, "x", None), (2, None, "y")]),
        (f"{ID}, c STRING", [(1, "x"), (2, "y")]),
        renames={"b": "c"},
    ),
    "another type": case(
        (f"{ID}, a INT, s STRUCT<a: INT>", [(1, 7, (1,))]),
        (f"{ID}, a STRING, s STRUCT<a: DATE>", [(2, "seven", (None,))]),
        None,
        (
            f"{ID}, a INT, s STRUCT<a: INT, a_date: DATE>, a_string STRING",
            [(1, 7, (1, None), None), (2, None, (None, None), "seven")],
        ),
        says=False,
    ),
    "another type, refused": case(
        (f"{ID}, a INT", [(1, 7)]),
        (f"{ID}, a STRING", [(2, "seven")]),
        None,
        type_change="refuse",
    ),
    "another order": case(
        (f"{ID}, a INT, b INT, s STRUCT<a: INT, b: INT>", [(1, 2, 3, (4, 5))]),
        (f"b INT, {ID}, a INT, s STRUCT<b: INT, a: INT>", [(3, 2, 2, (5, 4))]),
        (f"{ID}, a INT, b INT, s STRUCT<a: INT, b: INT>", [(1, 2, 3, (4, 5)), (2, 2, 3, (4, 5))]),
        (f"b INT, {ID}, a INT, s STRUCT<b: INT, a: INT>", [(3, 1, 2, (5, 4)), (3, 2, 2, (5, 4))]),
    ),
}


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


def pipeline(lake, source, mode="append", **keys):
    if mode == "upsert":
        keys = {"key_fields": ["id"], **keys}
    sink = IcebergSink.model_validate(
        {"catalog": lake.declaration, "namespace": "shop", "table": "t", "commit_mode": mode, **keys}
    )
    assert sink.flaws() == []
    return ResolvedPipeline("t", source, sink, (), "t", True)


def run(lake, declared):
    report = Report("t")
    Runner(declared, lake.spark, Stop(), report).run()
    return report.status


def table(lake):
    return lake.catalog.load(lake.name("t"))


def rows(lake):
    return sorted(map(plain, lake.spark.table(lake.name("t").sql()).collect()), key=repr)


def plain(value):
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("policy", ["strict", "add_columns", "full"])
@pytest.mark.parametrize("name", CASES)
def test_a_change_in_a_running_pipeline(lake, name, policy, mode):
    one = CASES[name]
    keys = {"schema_evolution": policy, **(dict(one.keys) if policy == "full" else {})}
    source = ScriptSource(batches=[one.before, one.after], says=one.says)
    declared = pipeline(lake, source, mode, batch_size=1, max_batch_size=1, **keys)
    expected = None if policy == "strict" else getattr(one, policy)
    if policy == "strict" and name == "another order":
        expected = one.add_columns
    if expected is None:
        refused(lake, declared, one, policy)
        return
    assert run(lake, declared).batches == 2
    metadata = table(lake).metadata()
    assert metadata.schema() == schema.parse(expected[0])
    assert rows(lake) == sorted(expected[1], key=repr)
    assert parse_mark(metadata.property("calve.sink.t")).position == {"batch": 2}
    if mode == "append":
        assert sorted(map(tupled, with_pyiceberg(metadata.file)), key=repr) == rows(lake)


def tupled(value):
    """What a reader gives for a row, with structs as tuples."""
    if isinstance(value, tuple):
        return tuple(map(tupled, value))
    if isinstance(value, dict):
        return tuple(map(tupled, value.values()))
    if isinstance(value, list):
        # PyIceberg gives a map as a list of pairs.
        if value and isinstance(value[0], tuple):
            return {key: tupled(one) for key, one in value}
        return [tupled(one) for one in value]
    return value


def refused(lake, declared, one, policy):
    """The second batch changes nothing: neither the schema nor the rows nor the position."""
    with pytest.raises(TableMismatch if one.says else DataRefused) as caught:
        run(lake, declared)
    assert caught.value.exit_code == (78 if one.says else 65)
    said = str(caught.value)
    assert "\n" not in said
    assert "the rows have (" in said
    assert "the table has (" in said
    assert f"'schema_evolution' is '{policy}'" in said
    metadata = table(lake).metadata()
    assert metadata.schema() == schema.parse(one.before.columns)
    assert metadata.java.schemas().size() == 1
    assert rows(lake) == sorted(one.before.rows, key=repr)
    assert parse_mark(metadata.property("calve.sink.t")).position == {"batch": 1}


def script(*batches, **keys):
    return ScriptSource(batches=[Batch(*batch) for batch in batches], **keys)


ONE = {"batch_size": 1, "max_batch_size": 1}


def test_a_change_is_one_commit_without_rows_and_is_told_in_the_next_summary(lake, caplog):
    source = script((ID, [(1,)]), (f"{ID}, a INT, b INT", [(2, 2, 2)]), (f"{ID}, a INT, b INT", [(3, 3, 3)]))
    with caplog.at_level("INFO", "calve"):
        run(lake, pipeline(lake, source, **ONE))
    metadata = table(lake).metadata()
    assert metadata.java.schemas().size() == 2
    told = [one.summary.get("calve.schema-changes") for one in metadata.snapshots()]
    # The change itself leaves a snapshot without rows, so that a fenced process changes nothing.
    assert [one for one in told if one] == told[3:4]
    assert json.loads(told[3]) == [
        {"change": "add_column", "column": name, "before": None, "after": "INT"} for name in "ab"
    ]
    logged = [record for record in caplog.records if hasattr(record, "schema_change")]
    assert [record.schema_change["column"] for record in logged] == ["a", "b"]
    assert logged[0].getMessage() == "table 'shop.t': column 'a' is added as INT"


def test_ids_of_columns_that_stay_never_change(lake):
    source = script(
        (f"{ID}, a INT, s STRUCT<x: INT, y: INT>", [(1, 1, (1, 1))]),
        (f"b BIGINT, {ID}, s STRUCT<y: INT, z: INT>, n INT", [(2, 2, (2, 2), 2)]),
    )
    run(lake, pipeline(lake, script((f"{ID}, a INT, s STRUCT<x: INT, y: INT>", [(1, 1, (1, 1))]))))
    before = every_id(table(lake).metadata())
    run(lake, pipeline(lake, source, schema_evolution="full", renames={"a": "b"}, **ONE))
    after = every_id(table(lake).metadata())
    assert after["b"] == before["a"]
    assert [after[name] for name in ("id", "s", "s.y")] == [before[name] for name in ("id", "s", "s.y")]
    assert not {after["s.z"], after["n"]} & set(before.values())
    assert rows(lake) == [(1, 1, (1, None), None), (2, 2, (2, 2), 2)]


def every_id(metadata):
    names = metadata.java.schema().idToName()
    return {str(names[number]): int(number) for number in names}


def opened(lake, columns, **keys):
    declared = pipeline(lake, script((columns, [])), **keys).sink
    writer = Writer(lake.spark, declared, "t", Patience(5))
    writer.find("script")
    writer.open("script", {"batch": 0}, schema.parse(columns))
    return writer


def test_a_writer_whose_epoch_is_over_changes_nothing(lake):
    old = opened(lake, ID)
    opened(Lake.open(lake.spark, lake.declaration), ID)
    with pytest.raises(Fenced) as caught:
        old.fit(schema.parse(f"{ID}, a INT"))
    assert caught.value.exit_code == 80
    assert table(lake).metadata().schema() == schema.parse(ID)


def test_a_column_that_was_renamed_in_the_table_is_not_added_a_second_time(lake):
    columns = f"{ID}, a INT"
    run(lake, pipeline(lake, script((columns, [(1, 1)]))))
    lake.spark.sql(f"ALTER TABLE {lake.name('t').sql()} RENAME COLUMN a TO b")
    both = script((columns, [(1, 1)]), (columns, [(2, 2)]))
    with pytest.raises(
        TableMismatch, match=r"its column 'a' was renamed to 'b'.*'renames: {a: b}'"
    ) as caught:
        run(lake, pipeline(lake, both))
    assert caught.value.exit_code == 78
    run(lake, pipeline(lake, both, schema_evolution="full", renames={"a": "b"}))
    assert rows(lake) == [(1, 1), (2, 2)]


def test_a_name_that_was_renamed_away_is_added_where_the_rows_have_both(lake):
    run(lake, pipeline(lake, script((f"{ID}, a INT", [(1, 1)]))))
    lake.spark.sql(f"ALTER TABLE {lake.name('t').sql()} RENAME COLUMN a TO b")
    both = f"{ID}, b INT, a INT"
    run(lake, pipeline(lake, script((both, [(1, 1, 1)]), (both, [(2, 2, 3)]))))
    assert rows(lake) == [(1, 1, None), (2, 2, 3)]


def test_a_column_that_a_second_writer_added_meanwhile_is_taken_as_it_is(lake):
    writer = opened(lake, ID)
    lake.spark.sql(f"ALTER TABLE {lake.name('t').sql()} ADD COLUMN a INT")
    writer.fit(schema.parse(f"{ID}, a INT, b INT"))
    assert table(lake).metadata().schema() == schema.parse(f"{ID}, a INT, b INT")
    assert json.loads(writer.committer.notes["calve.schema-changes"])[0]["column"] == "b"


def test_a_second_writer_between_the_decision_and_the_swap_makes_it_decide_again(lake, monkeypatch):
    writer = opened(lake, ID)
    make, calls = evolve._make, []

    def slow(transaction, steps):
        make(transaction, steps)
        if not calls:
            lake.spark.sql(f"ALTER TABLE {lake.name('t').sql()} ADD COLUMN a INT")
        calls.append(steps)

    monkeypatch.setattr(evolve, "_make", slow)
    writer.fit(schema.parse(f"{ID}, a INT, b INT"))
    assert table(lake).metadata().schema() == schema.parse(f"{ID}, a INT, b INT")
    assert [len(steps.columns) for steps in calls] == [2, 1]


@pytest.mark.parametrize("point", crash.SCHEMA_POINTS)
def test_a_crash_around_the_schema_commit_leaves_no_half_state(lake, point):
    source = script((ID, [(1,)]), (f"{ID}, a INT", [(2, 2)]))
    crash.load((Fault(point),))
    with pytest.raises(Crash):
        run(lake, pipeline(lake, source, **ONE))
    crash.load(())
    names = table(lake).metadata().schema().names
    assert names == (("id", "a") if point == "schema.swapped" else ("id",))
    run(lake, pipeline(lake, source, **ONE))
    assert table(lake).metadata().schema() == schema.parse(f"{ID}, a INT")
    assert rows(lake) == [(1, None), (2, 2)]


KEYED = {"mode": "upsert", **ONE}


@pytest.mark.parametrize("deletes", ["position", "equality"])
def test_upserts_find_old_rows_in_files_of_before_a_change(lake, deletes):
    source = script(
        (f"{ID}, a INT", [(1, 1), (2, 1)]),
        ("id BIGINT NOT NULL, a BIGINT, b STRING", [(2, 2, "x"), (3, 2, "x")]),
        ("id BIGINT NOT NULL, a BIGINT, b STRING", [(1, 3, "y"), (3, 3, "y")]),
    )
    run(lake, pipeline(lake, source, deletes=deletes, **KEYED))
    assert rows(lake) == [(1, 3, "y"), (2, 2, "x"), (3, 3, "y")]
    if deletes == "position":
        assert sorted(with_pyiceberg(table(lake).metadata().file)) == rows(lake)


def test_an_upsert_by_an_order_that_is_new_looks_into_rows_without_it(lake):
    run(lake, pipeline(lake, script((f"{ID}, a INT", [(1, 1), (2, 1)])), **KEYED))
    columns = f"{ID}, a INT, at INT, s STRUCT<x: INT>"
    source = script((columns, []), (columns, [(1, 2, 5, (1,))]), (columns, [(1, 3, 4, (2,))]))
    run(lake, pipeline(lake, source, order_by="at", **KEYED))
    assert rows(lake) == [(1, 2, 5, (1,)), (2, 1, None, None)]


def test_tombstones_follow_keys_and_orders_that_become_wider(lake, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    files = {"path": str(folder), "max_files_per_batch": 1, "operation": {"field": "op"}}

    def taken(number, kind, *records):
        lines = [json.dumps(dict(zip(("id", "at", "op"), record, strict=True))) for record in records]
        (folder / f"{number}.json").write_text("\n".join(lines))
        columns = f"id {kind} NOT NULL, at {kind}, op STRING"
        source = FilesSource.model_validate({**files, "schema": columns})
        declared = pipeline(lake, source, order_by="at", **KEYED)
        Runner(declared, lake.spark, Stop(), Report("t"), once=True).run()
        return rows(lake)

    assert taken(1, "INT", (1, 5, "c"), (2, 5, "c")) == [(1, 5), (2, 5)]
    assert taken(2, "INT", (1, 7, "d")) == [(2, 5)]
    # An older change than the delete, which only the tombstone of before knows.
    big = 2**40
    assert taken(3, "BIGINT", (1, 6, "c"), (big, big, "c")) == [(big, big), (2, 5)]
    assert taken(4, "BIGINT", (big, big + 2, "d")) == [(2, 5)]
    assert taken(5, "BIGINT", (big, big + 1, "c"), (1, 8, "c")) == [(1, 8), (2, 5)]
    stones = lake.catalog.load(lake.name("t__tombstones")).metadata()
    assert stones.schema() == schema.parse("id BIGINT NOT NULL, at BIGINT, deleted_at TIMESTAMP NOT NULL")


def test_tombstones_follow_in_a_running_pipeline(lake):
    source = script(
        (f"{ID}, at INT", [(1, 1)]),
        ("id BIGINT NOT NULL, at BIGINT", [(2, 2)]),
        ("id BIGINT NOT NULL, at BIGINT", [(1, 0), (2, 3)]),
    )
    run(lake, pipeline(lake, source, order_by="at", **KEYED))
    assert rows(lake) == [(1, 1), (2, 3)]
    stones = lake.catalog.load(lake.name("t__tombstones")).metadata()
    assert stones.schema().names == ("id", "at", "deleted_at")
    assert stones.schema().columns[:2] == schema.parse("id BIGINT NOT NULL, at BIGINT").columns


def test_upserts_go_on_where_the_table_is_partitioned_anew(lake):
    first = script((f"{ID}, region STRING", [(1, "eu"), (2, "us")]))
    run(lake, pipeline(lake, first, partition_by=["region"], **KEYED))
    again = script((f"{ID}, region STRING", []), (f"{ID}, region STRING", [(2, "eu"), (3, "eu")]))
    with pytest.raises(TableMismatch, match="'partition_evolution: true' changes it for new files"):
        run(lake, pipeline(lake, again, partition_by=["bucket(4, id)"], **KEYED))
    assert len(table(lake).metadata().snapshots()) == 2
    keys = {**KEYED, "partition_by": ["bucket(4, id)", "truncate(1, region)"], "partition_evolution": True}
    run(lake, pipeline(lake, again, **keys))
    metadata = table(lake).metadata()
    assert [str(field) for field in metadata.partition()] == ["bucket(4, id)", "truncate(1, region)"]
    assert rows(lake) == [(1, "eu"), (2, "eu"), (3, "eu")]
    assert sorted(with_pyiceberg(metadata.file)) == sorted(with_duckdb(metadata.file)) == rows(lake)
    told = [one.summary.get("calve.schema-changes") for one in metadata.snapshots()]
    assert [one["change"] for one in json.loads(next(filter(None, told)))] == [
        "remove_partition_field",
        "add_partition_field",
        "add_partition_field",
    ]


def test_an_upsert_may_lack_the_column_that_the_table_is_partitioned_by(lake):
    source = script((f"{ID}, region STRING", [(1, "eu")]), (ID, [(1,), (2,)]), says=False)
    run(lake, pipeline(lake, source, partition_by=["region"], **KEYED))
    assert rows(lake) == [(1, None), (2, None)]


def test_each_of_several_tables_follows_the_rows_that_it_gets_and_the_lead_stays(lake):
    first = f"{ID}, region STRING"
    source = script(
        (first, [(1, "eu"), (2, "us")]),
        (f"{first}, b INT", [(3, "eu", 3)]),
        (f"{first}, b INT", [(4, "eu", 4), (5, "us", 5)]),
        (f"{first}, c INT", [(6, "fr", 6)]),
        says=False,
    )
    run(lake, pipeline(lake, source, table="t_{region}", **ONE))
    expected = {
        "t_eu": (f"{first}, b INT", [(1, "eu", None), (3, "eu", 3), (4, "eu", 4)]),
        "t_us": (f"{first}, b INT", [(2, "us", None), (5, "us", 5)]),
        "t_fr": (f"{first}, c INT", [(6, "fr", 6)]),
    }
    for name, (columns, held) in expected.items():
        assert lake.catalog.load(lake.name(name)).metadata().schema() == schema.parse(columns)
        assert sorted(map(tuple, lake.spark.table(lake.name(name).sql()).collect())) == held
    assert lake.catalog.load(lake.name("t__routes")).metadata().java.schemas().size() == 1


def test_of_several_tables_none_is_changed_where_one_cannot_be(lake):
    first = f"{ID}, region STRING"
    run(lake, pipeline(lake, script((first, [(1, "eu"), (2, "us")])), table="t_{region}", **ONE))
    lake.spark.sql(f"ALTER TABLE {lake.name('t_us').sql()} ADD COLUMN b DATE")
    source = script((first, [(0, "eu")]), (f"{first}, b INT", [(3, "eu", 3), (4, "us", 4)]), says=False)
    with pytest.raises(DataRefused, match="column 'b' is INT in the rows and DATE in the table"):
        run(lake, pipeline(lake, source, table="t_{region}", **ONE))
    assert lake.catalog.load(lake.name("t_eu")).metadata().schema() == schema.parse(first)


def test_a_size_of_buckets_can_change_and_a_new_column_can_be_partitioned_by(lake):
    run(lake, pipeline(lake, script((ID, [(1,)])), partition_by=["bucket(4, id)"]))
    source = script((f"{ID}, day DATE", []), (f"{ID}, day DATE", [(2, None)]))
    keys = {"partition_by": ["bucket(8, id)", "day"], "partition_evolution": True}
    run(lake, pipeline(lake, source, **keys, **ONE))
    metadata = table(lake).metadata()
    assert {str(field) for field in metadata.partition()} == {"bucket(8, id)", "day"}
    assert rows(lake) == [(1, None), (2, None)]
    files = lake.spark.sql(f"SELECT spec_id FROM {lake.name('t').sql()}.files").collect()
    assert len({row[0] for row in files}) == 2


def test_a_rest_catalog_takes_a_change_and_a_second_writers_beside_it(rest_catalog, spark):
    lake = Lake.rest(spark, rest_catalog.uri)
    writer = opened(lake, f"{ID}, region STRING", namespace="evolving", partition_by=["region"])
    name = lake.name("t", "evolving")
    lake.spark.sql(f"ALTER TABLE {name.sql()} ADD COLUMN a INT")
    writer.fit(schema.parse("id BIGINT NOT NULL, region STRING, a INT, b INT"))
    metadata = lake.catalog.load(name).metadata()
    assert metadata.schema() == schema.parse("id BIGINT NOT NULL, region STRING, a INT, b INT")
    again = opened(lake, ID, namespace="evolving", partition_by=["id"], partition_evolution=True)
    assert [str(field) for field in again.table.metadata().partition()] == ["id"]
    with pytest.raises(Fenced):
        writer.fit(schema.parse(f"{ID}, c INT"))
    assert lake.catalog.load(name).metadata().schema().names == ("id", "region", "a", "b")


def test_a_variant_takes_values_of_any_type(lake):
    source = script(
        (f"{ID}, a INT", [(1, 1)]),
        (f"{ID}, a STRING", [(2, "two")]),
        (f"{ID}, a STRUCT<x: INT>", [(3, (3,))]),
    )
    keys = {"schema_evolution": "full", "type_change": "variant", "format_version": 3}
    run(lake, pipeline(lake, source, **keys, **ONE))
    found = lake.spark.sql(f"SELECT id, a, to_json(a_variant) FROM {lake.name('t').sql()}").collect()
    assert sorted(map(tuple, found)) == [(1, 1, None), (2, None, '"two"'), (3, None, '{"x":3}')]


def test_rows_that_still_have_the_old_name_land_under_the_new_one(lake):
    source = script((f"{ID}, b INT", [(1, 1)]), (f"{ID}, c INT", [(2, 2)]), (f"{ID}, b INT", [(3, 3)]))
    run(lake, pipeline(lake, source, schema_evolution="full", renames={"b": "c"}, **ONE))
    assert table(lake).metadata().schema() == schema.parse(f"{ID}, c INT")
    assert rows(lake) == [(1, 1), (2, 2), (3, 3)]


def test_rows_of_a_snapshot_are_known_under_the_names_of_now(lake):
    first = f"{ID}, s STRUCT<a: INT, l: ARRAY<STRUCT<b: INT>>>, gone INT"
    run(lake, pipeline(lake, script((first, [(1, (2, [(3,)]), 4)]))))
    renames = {"s": "t", "s.a": "x", "s.l.element.b": "y"}
    now = "n INT, id BIGINT NOT NULL, t STRUCT<l: ARRAY<STRUCT<y: INT, z: INT>>, x: INT>"
    writer = opened(lake, now, schema_evolution="full", renames=renames)
    known = known_at(lake.spark, writer.table, writer.table.metadata().head("main").snapshotId())
    assert known.columns == ["n", "id", "t"]
    assert [plain(row) for row in known.collect()] == [(None, 1, ([(3, None)], 2))]


def avsc(path, *fields):
    path.write_text(json.dumps({"type": "record", "name": "R", "fields": fields}))


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("policy", ["add_columns", "full"])
def test_an_alias_of_avro_renames_a_column_and_keeps_its_id(lake, tmp_path, policy, mode):
    folder, file = tmp_path / "in", tmp_path / "row.avsc"
    folder.mkdir()
    number, text = {"name": "id", "type": "int"}, ["null", "string"]
    declared = {"path": str(folder), "schema": {"file": str(file)}}

    def taken(records):
        (folder / f"{len(list(folder.iterdir()))}.json").write_text("\n".join(map(json.dumps, records)))
        source = FilesSource.model_validate(declared)
        Runner(
            pipeline(lake, source, mode, schema_evolution=policy), lake.spark, Stop(), Report("t"), once=True
        ).run()
        return every_id(table(lake).metadata())

    avsc(file, number, {"name": "b", "type": text})
    before = taken([{"id": 1, "b": "x"}])
    avsc(file, number, {"name": "c", "type": text, "aliases": ["b"]})
    if policy == "full":
        after = taken([{"id": 2, "c": "y"}])
        assert after == {"id": before["id"], "c": before["b"]}
        assert rows(lake) == [(1, "x"), (2, "y")]
    else:
        with pytest.raises(TableMismatch, match="column 'b' is called 'c' in the source now"):
            taken([{"id": 2, "c": "y"}])
        assert every_id(table(lake).metadata()) == before
        assert rows(lake) == [(1, "x")]


MANY = [pytest.param(seed, marks=[pytest.mark.full]) for seed in range(2, 12)]


@pytest.mark.parametrize("seed", [0, 1, *MANY])
def test_random_evolutions_are_read_by_others_as_they_are(lake, seed):
    draw = random.Random(seed)
    columns, batches = [Column("id", Primitive("bigint"), False)], []
    for number in range(4):
        columns = [columns[0], *grown(draw, columns[1:])]
        batches.append((Schema(tuple(columns)).ddl(), [value(draw, one.type, number) for one in columns]))
    source = ScriptSource(batches=[Batch(ddl, [tuple(row)]) for ddl, row in batches])
    run(lake, pipeline(lake, source, **ONE))
    metadata = table(lake).metadata()
    assert metadata.schema() == Schema(tuple(columns))
    whole = Struct(tuple(columns))
    expected = [fitted(tuple(row), Struct(schema.parse(ddl).columns), whole) for ddl, row in batches]
    assert rows(lake) == sorted(expected, key=repr)
    assert sorted(map(tupled, with_pyiceberg(metadata.file)), key=repr) == sorted(expected, key=repr)
    flat = [without_keys(row) for row in expected]
    assert sorted(map(tupled, with_duckdb(metadata.file)), key=repr) == sorted(flat, key=repr)


def without_keys(value):
    """The same with maps as tuples of their values, as `tupled` makes them of what DuckDB gives."""
    if isinstance(value, tuple):
        return tuple(map(without_keys, value))
    if isinstance(value, dict):
        return tuple(map(without_keys, value.values()))
    return [without_keys(one) for one in value] if isinstance(value, list) else value


KINDS = (Primitive("int"), Primitive("string"), Primitive("float"), Decimal(5, 2))
WIDER = {Primitive("int"): Primitive("bigint"), Primitive("float"): Primitive("double")}


def grown(draw, columns, depth=0):
    """Columns of which some are wider, some have more inside, and with new ones behind them."""
    kept = [replace(one, type=wider(draw, one.type, depth)) for one in columns]
    new = [Column(f"c{depth}{len(kept) + n}", kind(draw, depth)) for n in range(draw.randint(1, 2))]
    return [*kept, *new]


def wider(draw, type_, depth):
    if isinstance(type_, Struct):
        return Struct(tuple(grown(draw, type_.columns, depth + 1)))
    if isinstance(type_, Array):
        return Array(wider(draw, type_.element, depth))
    if isinstance(type_, Map):
        return Map(type_.key, wider(draw, type_.value, depth))
    return WIDER.get(type_, type_) if draw.random() < 0.5 else type_


def kind(draw, depth):
    if depth > 1 or draw.random() < 0.5:
        return draw.choice(KINDS)
    struct = Struct(tuple(grown(draw, [], depth + 1)))
    return draw.choice([struct, Array(struct), Map(Primitive("string"), struct), Array(Primitive("int"))])


def value(draw, type_, number):
    """A value of a type; now and then there is none."""
    if isinstance(type_, Struct):
        return tuple(value(draw, one.type, number) for one in type_.columns)
    if isinstance(type_, Array):
        return [value(draw, type_.element, number) for _ in range(draw.randint(1, 2))]
    if isinstance(type_, Map):
        return {f"k{n}": value(draw, type_.value, number) for n in range(draw.randint(1, 2))}
    if isinstance(type_, Decimal):
        return decimal.Decimal(draw.randint(0, 999)) / 100
    if type_.name == "string":
        return f"t{number}"
    return draw.randint(0, 9) + (0.5 if type_.name in ("float", "double") else 0)


def fitted(found, type_, now):
    """A value of `type_` as a column of the type `now` shows it."""
    if isinstance(type_, Struct):
        known = {one.name: (one.type, inner) for one, inner in zip(type_.columns, found, strict=True)}
        return tuple(
            fitted(known[one.name][1], known[one.name][0], one.type) if one.name in known else None
            for one in now.columns
        )
    if isinstance(type_, Array):
        return [fitted(one, type_.element, now.element) for one in found]
    if isinstance(type_, Map):
        return {key: fitted(one, type_.value, now.value) for key, one in found.items()}
    return found
