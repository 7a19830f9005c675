import json

import pytest

from calve.errors import ConfigurationError, NotPermitted, Unavailable
from calve.iceberg.stage import NOTHING
from calve.runtime import check
from calve.sink.declaration import IcebergSink


def test_everything_is_tried_and_nothing_is_left_behind(calve, ready):
    ended = calve("check", "-o", "json")
    source, sink = json.loads(ended.out)
    assert ended.code == 0
    assert source["steps"][0]["seen"] == "30 rows of 4 fields"
    steps = [(step["step"], step["status"], step["tried"].split(" '")[0]) for step in sink["steps"]]
    assert steps[:3] == [(step, "skipped", step) for step in ("resolve", "connect", "tls")]
    assert {status for _, status, _ in steps[3:]} == {"ok"}
    assert [tried for _, _, tried in steps[3:]] == [
        *("open the catalog", "list its namespaces", "create namespace", "create table", "write a row"),
        *("commit it", "have a commit refused that comes too late", "read it back"),
        *("drop the table", "drop namespace"),
    ]
    assert sink["warnings"] == []
    assert (sink["passed"], sink["exit_code"], sink["cause"]) == (True, 0, None)
    assert [path.name for path in (ready.parent / "warehouse").iterdir()] == ["catalog.db"]


@pytest.mark.usefixtures("kept")
def test_a_namespace_that_was_there_stays(calve, finished):
    before = set(finished.parent.rglob("*"))
    ended = calve("check", "--sink", "lake", "--config", str(finished))
    assert ended.code == 0
    assert "drop namespace" not in ended.out
    assert set(finished.parent.rglob("*")) == before


def test_only_what_is_named_is_tried(calve, ready):
    assert [one["kind"] for one in json.loads(calve("check", "--source", "orders", "-o", "json").out)] == [
        "source"
    ]
    assert [one["kind"] for one in json.loads(calve("check", "--sink", "lake", "-o", "json").out)] == ["sink"]


def test_a_catalog_that_does_not_answer_ends_with_69_and_says_what_to_do(calve, ready):
    away = "catalog: {type: rest, rest: {uri: 'http://127.0.0.1:1'}}, namespace: shop"
    ready.write_text(ready.read_text().replace("namespace: shop", away))
    ended = calve("check", "--sink", "lake")
    assert ended.code == 69
    lines = ended.out.splitlines()
    assert lines[0] == "sink lake (the rest catalog at http://127.0.0.1:1): failed"
    assert lines[1] == "  ok    resolve the catalog at 127.0.0.1:1: 127.0.0.1"
    assert lines[2].startswith("  FAIL  connect to the catalog at 127.0.0.1:1: Cannot connect")
    assert lines[3] == "  –     tls: an earlier step failed"
    assert lines[-2] == "  Likely cause: nothing listens at the address"
    assert lines[-1].startswith("  What to do: check that the service runs")


def test_a_namespace_created_for_a_table_that_cannot_be_is_dropped(lake, monkeypatch):
    def refuse(*_):
        raise NotPermitted("Cannot create table: not allowed")

    monkeypatch.setattr("calve.sink.prepare.create", refuse)
    sink = IcebergSink.model_validate({"catalog": lake.declaration, "namespace": "a.b", "table": "t"})
    found = check.check_sink(lake.spark, "lake", sink)
    assert found.exit_code == 77
    assert "creating and dropping tables" in found.diagnosis.advice or "credentials" in found.diagnosis.advice
    assert [step.step for step in found.steps if step.status == "failed"] == ["create"]
    assert {step.step for step in found.steps if step.status == "skipped"} >= {"write", "commit", "read"}
    assert not lake.catalog.has_namespace(["a"])


def test_what_cannot_be_read_back_is_a_failure(lake, monkeypatch):
    monkeypatch.setattr(check, "_staged", lambda spark, writer: NOTHING)
    sink = IcebergSink.model_validate({"catalog": lake.declaration, "namespace": "shop", "table": "t"})
    found = check.check_sink(lake.spark, "lake", sink)
    assert "it holds 0 rows where one was written" in str(found.error)
    assert [step.tried for step in found.steps if step.status == "failed"] == ["read it back"]
    assert not lake.catalog.has_namespace(["shop"])


def test_a_catalog_that_swaps_without_comparing_is_refused_by_name(lake, monkeypatch):
    monkeypatch.setattr(check.swap, "held_back", lambda table: lambda: None)
    sink = IcebergSink.model_validate({"catalog": lake.declaration, "namespace": "shop", "table": "t"})
    found = check.check_sink(lake.spark, "lake", sink)
    assert str(found.error).startswith("Cannot rely on the memory catalog")
    assert found.exit_code == 78
    assert not lake.catalog.has_namespace(["shop"])


def test_a_catalog_that_keeps_one_snapshot_is_noticed(lake, monkeypatch):
    monkeypatch.setattr("calve.iceberg.table.Metadata.snapshots", lambda self: [object()])
    sink = IcebergSink.model_validate({"catalog": lake.declaration, "namespace": "shop", "table": "t"})
    found = check.check_sink(lake.spark, "lake", sink)
    assert found.error is None
    assert [line for line in found.warnings if "keeps 1 snapshot of a table" in line]


def test_a_scratch_table_needs_no_column_of_the_sink():
    declared = {"namespace": "n", "table": "t", "sort_by": ["x"], "partition_by": ["day(x)"], "branch": "b"}
    declared |= {"commit_mode": "upsert", "key_fields": ["x"], "order_by": "y"}
    scratch = check.scratch(IcebergSink.model_validate(declared))
    assert scratch.table.startswith("calve_check_")
    assert (scratch.commit_mode, scratch.key_fields, scratch.order_by) == ("append", [], None)
    assert (scratch.partition_fields_declared(), scratch.sort_fields(), scratch.branch) == ((), (), "main")


class Away:
    """A source that cannot be used."""

    connector = "away"

    def __init__(self, error):
        self.error = error

    def check(self):
        raise self.error


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (Unavailable("x"), "check the address"),
        (NotPermitted("x"), "check the credentials"),
        (ConfigurationError("x"), "check the keys"),
    ],
)
def test_a_source_that_fails_gets_advice(error, advice):
    found = check.check_source("away", Away(error))
    assert found.error is error
    assert found.diagnosis.advice.startswith(advice)
    assert found.exit_code == error.exit_code


def test_unknown_names_get_suggestions(calve, project):
    ended = calve("check", "--sink", "lak")
    assert ended.code == 64
    assert ended.err == "Cannot find sink 'lak': there is lake; did you mean 'lake'?\n"
    assert calve("check", "--source", "x").code == 64
