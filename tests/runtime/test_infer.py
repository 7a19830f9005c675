"""Pipelines whose records tell their columns themselves."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from calve import schema
from calve.errors import BadRecord, DataRefused
from calve.project import ResolvedPipeline
from calve.runtime import letters, runner
from calve.runtime.letters import Wanted
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink import dead_letter
from calve.sink.declaration import IcebergSink
from calve.sources.files import FilesSource

UPSERT = {"commit_mode": "upsert", "key_fields": ["id"]}


class Inbox:
    """A folder of files and a pipeline that takes one of them in a batch."""

    def __init__(self, lake, folder, *, options=None, format="json", **keys):
        self.lake, self.folder = lake, folder
        self.source = {"path": str(folder), "format": format, "max_files_per_batch": 1}
        self.source |= {"options": options} if options else {}
        self.keys = {"batch_size": 1, "schema_evolution": "add_columns", **keys}
        folder.mkdir()

    def put(self, number: int, *records: Any) -> None:
        text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in records)
        path = self.folder / f"{number}.txt"
        path.write_text(text)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))

    def declared(self):
        source = FilesSource.model_validate(self.source)
        assert source.flaws() == []
        sink = IcebergSink.model_validate(
            {"catalog": self.lake.declaration, "namespace": "shop", "table": "t", **self.keys}
        )
        return ResolvedPipeline("t", source, sink, (), "t", True)

    def run(self):
        Runner(self.declared(), self.lake.spark, Stop(), Report("t"), once=True).run()

    @property
    def columns(self):
        return self.lake.catalog.load(self.lake.name("t")).metadata().schema()

    def rows(self):
        found = self.lake.spark.table(self.lake.name("t").sql()).collect()
        return sorted((row.asDict(recursive=True) for row in found), key=repr)

    def letters(self):
        found = self.lake.spark.table(self.lake.name("t__dead_letter").sql())
        rows = found.selectExpr("CAST(value AS STRING)", "reason", "replayed_at IS NOT NULL").collect()
        return sorted(map(tuple, rows))


@pytest.mark.parametrize("policy", ["add_columns", "full"])
def test_a_few_rows_decide_about_a_new_table_and_the_rest_of_the_batch_adds(
    lake, tmp_path, monkeypatch, policy
):
    monkeypatch.setattr(runner, "FIRST_LOOK", 1)
    inbox = Inbox(lake, tmp_path / "in", schema_evolution=policy)
    inbox.source["max_files_per_batch"] = 100
    for number in range(1, 5):
        inbox.put(number, {"id": number})
    inbox.put(5, {"id": 5, "late": 1.5})
    inbox.run()
    added = f"SELECT summary['added-records'] FROM {lake.name('t').sql()}.snapshots ORDER BY committed_at"
    # Fences and schema changes bring no rows.
    assert [row[0] for row in lake.spark.sql(added).collect() if row[0] is not None] == ["5"]
    assert inbox.columns == schema.parse("id BIGINT, late DOUBLE")
    assert {"id": 5, "late": 1.5} in inbox.rows()


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_the_first_batch_decides_and_later_ones_add(lake, tmp_path, mode):
    keys = {"commit_mode": "upsert", "key_fields": ["id"]} if mode == "upsert" else {}
    inbox = Inbox(lake, tmp_path / "in", **keys)
    inbox.put(1, {"id": 1, "x": 1.5, "o": {"a": 1}, "none": None})
    inbox.put(2, {"id": 2, "x": 2, "o": {"b": "t"}, "l": [{"c": 1}]}, {"id": 3})
    inbox.run()
    inbox.put(3, {"none": "now", "id": 4})
    inbox.run()
    keyed = " NOT NULL" if mode == "upsert" else ""
    assert inbox.columns == schema.parse(
        f"id BIGINT{keyed}, x DOUBLE, o STRUCT<a: BIGINT, b: STRING>, l ARRAY<STRUCT<c: BIGINT>>, none STRING"
    )
    nothing = {"x": None, "o": None, "l": None, "none": None}
    assert inbox.rows() == [
        {**nothing, "id": 1, "x": 1.5, "o": {"a": 1, "b": None}},
        {**nothing, "id": 2, "x": 2.0, "o": {"a": None, "b": "t"}, "l": [{"c": 1}]},
        {**nothing, "id": 3},
        {**nothing, "id": 4, "none": "now"},
    ]


@pytest.fixture
def looked_at(monkeypatch):
    """How many batches were looked at before they were read."""
    seen, real = [], FilesSource._columns_in

    def columns_in(self, spark, after, to):
        seen.append(to)
        return real(self, spark, after, to)

    monkeypatch.setattr(FilesSource, "_columns_in", columns_in)
    return seen


@pytest.mark.parametrize("keys", [{}, {"dead_letter": "off"}, UPSERT, {**UPSERT, "order_by": "a"}])
def test_only_batches_that_tell_something_new_are_looked_at_before_they_are_read(
    lake, tmp_path, looked_at, keys
):
    inbox = Inbox(lake, tmp_path / "in", **keys)
    inbox.put(1, {"id": 1, "a": 1, "o": {"x": 1}})
    inbox.put(2, {"id": 2, "none": None})
    inbox.put(3, *({"id": number, "a": 3} for number in range(3, 100)), {"id": 100, "o": {"y": "new"}})
    inbox.put(4, {"id": 101, "o": {"y": "z"}})
    inbox.run()
    assert len(looked_at) == 2
    inbox.put(5, {"id": 102, "a": 5})
    inbox.run()
    assert len(looked_at) == 2
    assert inbox.columns.names == ("id", "a", "o")
    found = {row["id"]: row for row in inbox.rows()}
    assert sorted(found) == list(range(1, 103))
    assert found[100] == {"id": 100, "a": None, "o": {"x": None, "y": "new"}}
    assert found[101]["o"] == {"x": None, "y": "z"}
    assert found[2] == {"id": 2, "a": None, "o": None}


def test_what_a_batch_that_was_guessed_wrong_has_of_bad_records_is_told_once(lake, tmp_path, looked_at):
    inbox = Inbox(lake, tmp_path / "in")
    inbox.put(1, {"id": 1})
    inbox.put(2, "bad", {"id": 2}, {"id": 3, "new": 1}, "worse")
    inbox.put(3, "worst", {"id": 4})
    inbox.run()
    assert len(looked_at) == 2
    assert [row["id"] for row in inbox.rows()] == [1, 2, 3, 4]
    assert [one[0] for one in inbox.letters()] == ["bad", "worse", "worst"]


def test_strict_tables_and_several_ones_are_looked_at_in_every_batch(lake, tmp_path, looked_at):
    inbox = Inbox(lake, tmp_path / "in", schema_evolution="strict")
    inbox.put(1, {"id": 1, "a": 1})
    inbox.put(2, {"id": 2})
    with pytest.raises(DataRefused, match="column 'a' is missing in the rows"):
        inbox.run()
    assert len(looked_at) == 2


def test_a_record_that_is_nested_too_deeply_is_a_dead_letter(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in")
    deep = '{"id": 2, "x": ' + "[" * 30_000 + "]" * 30_000 + "}"
    inbox.put(1, {"id": 1}, deep)
    inbox.put(2, {"id": 3}, deep)
    inbox.run()
    assert inbox.rows() == [{"id": 1}, {"id": 3}]
    assert [one[1] for one in inbox.letters()] == ["too_deep", "too_deep"]


def test_mixed_types_are_refused_with_the_path_and_nothing_is_written(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in")
    inbox.put(1, {"id": 1})
    inbox.put(2, {"id": 2, "o": {"a": 1}}, {"id": 3, "o": {"a": "x"}})
    with pytest.raises(DataRefused, match=r"field 'o\.a' is BIGINT AND STRING in different") as caught:
        inbox.run()
    assert caught.value.exit_code == 65
    assert inbox.rows() == [{"id": 1}]
    assert inbox.columns == schema.parse("id BIGINT")


def test_a_batch_without_records_is_nothing_to_worry_about_once_there_is_a_table(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in")
    inbox.put(1, {"id": 1})
    inbox.put(2, "")
    inbox.put(3, {"id": 3})
    inbox.run()
    assert inbox.rows() == [{"id": 1}, {"id": 3}]


def test_fields_that_differ_by_case_only_are_refused(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in")
    inbox.put(1, {"o": {"id": 1, "Id": 2}})
    with pytest.raises(DataRefused, match=r"fields 'o\.id' and 'o\.Id' differ by case only"):
        inbox.run()


def test_a_type_that_changes_is_a_dead_letter_or_becomes_a_column(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in")
    inbox.put(1, {"id": 1, "a": 1})
    inbox.put(2, {"id": 2, "a": "x"})
    inbox.run()
    assert inbox.rows() == [{"id": 1, "a": 1}]
    assert inbox.letters() == [('{"id": 2, "a": "x"}', "wrong_type", False)]
    inbox.keys["schema_evolution"] = "full"
    inbox.put(3, {"id": 3, "a": "y"})
    inbox.run()
    assert inbox.rows() == [{"id": 1, "a": 1, "a_string": None}, {"id": 3, "a": None, "a_string": "y"}]


def test_an_odd_record_does_not_stop_a_pipeline_whose_table_has_decided(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in")
    inbox.put(1, {"id": 1, "d": 0.5})
    odd = [{"id": "s"}, {"id": 1.5}, {"id": 2**63}, {"id": 4, "d": 2**53 + 1}]
    inbox.put(2, {"id": 2}, *odd, {"id": 3, "new": "x"})
    inbox.run()
    assert inbox.columns == schema.parse("id BIGINT, d DOUBLE, new STRING")
    assert [row["id"] for row in inbox.rows()] == [1, 2, 3]
    reasons = {json.loads(value)["id"]: reason for value, reason, _ in inbox.letters()}
    assert reasons == {"s": "wrong_type", 1.5: "wrong_type", 2**63: "out_of_range", 4: "out_of_range"}


def test_ids_of_19_digits_stay_what_they_are(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in", format="csv", options={"header": True})
    inbox.put(1, "id", "1234567890123456789", "1234567890123456788")
    inbox.put(2, "id", "7", "00501")
    inbox.run()
    assert inbox.columns == schema.parse("id BIGINT")
    assert sorted(row["id"] for row in inbox.rows()) == [7, 1234567890123456788, 1234567890123456789]
    assert inbox.letters() == [("00501", "wrong_type", False)]


def test_csv_with_a_header_is_inferred(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in", format="csv", options={"header": True})
    inbox.put(1, "id,zip,n", "1,007,1.5", "2,x,2")
    inbox.put(2, "id,extra,zip", "3,true,5")
    inbox.run()
    assert inbox.columns == schema.parse("id BIGINT, zip STRING, n DOUBLE, extra BOOLEAN")
    assert [tuple(row.values()) for row in inbox.rows()] == [
        (1, "007", 1.5, None),
        (2, "x", 2.0, None),
        (3, "5", None, True),
    ]


def test_a_bad_record_is_told_by_its_place_also_where_the_schema_is_inferred(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in", dead_letter="off")
    inbox.put(1, {"id": 1}, "nothing")
    with pytest.raises(BadRecord, match=r"1\.txt' line 2"):
        inbox.run()


def test_bad_records_go_to_their_table_also_where_the_schema_is_inferred(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in", commit_mode="upsert", key_fields=["id"])
    inbox.put(1, {"id": 1, "a": 1}, "nothing", {"a": 1})
    inbox.put(2, {"a": 2}, {"b": 3})
    inbox.put(3, {"id": 3, "b": 4})
    inbox.run()
    assert inbox.rows() == [{"id": 1, "a": 1, "b": None}, {"id": 3, "a": None, "b": 4}]
    assert inbox.letters() == [
        ("nothing", "malformed", False),
        ('{"a": 1}', "null", False),
        ('{"a": 2}', "null", False),
        ('{"b": 3}', "null", False),
    ]


def test_what_is_read_once_more_for_its_bad_records_has_the_columns_of_the_rows(lake, tmp_path, monkeypatch):
    monkeypatch.setattr(dead_letter, "CARRIED_RECORDS", 0)
    inbox = Inbox(lake, tmp_path / "in")
    inbox.source["schema"] = "id BIGINT NOT NULL, a INT NOT NULL"
    inbox.put(1, {"id": 1, "a": 1})
    inbox.run()
    del inbox.source["schema"]
    inbox.keys["schema_evolution"] = "full"
    inbox.put(2, {"id": 2, "a": "x"}, {"id": 3})
    inbox.run()
    assert inbox.columns == schema.parse("id BIGINT NOT NULL, a INT, a_string STRING")
    assert inbox.rows() == [{"id": 1, "a": 1, "a_string": None}, {"id": 2, "a": None, "a_string": "x"}]
    assert inbox.letters() == [('{"id": 3}', "null", False)]


def test_dead_letters_are_replayed_with_the_columns_that_they_have(lake, tmp_path):
    inbox = Inbox(lake, tmp_path / "in")
    inbox.source["schema"] = "id BIGINT, a INT"
    inbox.put(1, {"id": 1, "a": 1})
    inbox.run()
    del inbox.source["schema"]
    inbox.put(2, '{"id": 2, "a": 3000000000, "note": "n"}', "nothing", {"id": 3})
    inbox.run()
    assert inbox.rows()[1:] == [{"id": 3, "a": None, "note": None}]
    lake.spark.sql(f"ALTER TABLE {lake.name('t').sql()} ALTER COLUMN a TYPE BIGINT")
    lake.spark.sql(f"ALTER TABLE {lake.name('t').sql()} DROP COLUMN note")
    told = letters.replay(lake.spark, inbox.declared(), Wanted(), 10)
    assert (told.taken, dict(told.refused)) == (1, {"malformed": 1})
    assert {"id": 2, "a": 3000000000, "note": "n"} in inbox.rows()
    assert [one[2] for one in inbox.letters()] == [False, True]
