import json

import pytest

from calve.catalogs import Catalog as CatalogDeclaration
from calve.errors import ConfigurationError, NotPermitted, Unavailable
from calve.runtime import check
from calve.sink.declaration import IcebergSink


def test_everything_is_tried_and_nothing_is_left_behind(calve, ready):
    ended = calve("check", "-o", "json")
    source, sink = json.loads(ended.out)
    assert ended.code == 0
    assert source["steps"][0]["seen"] == "30 rows of 4 fields"
    tried = [step["tried"].split(" '")[0] for step in sink["steps"]]
    assert tried[:3] == ["reach the catalog", "list its namespaces", "create namespace"]
    assert tried[3:6] == ["create table", "write and commit a row", "read it back"]
    assert tried[6:] == ["drop the table", "drop namespace"]
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
    assert lines[1].startswith("  FAIL  reach the catalog: Cannot reach catalog")
    assert lines[-1].startswith("  What to do: check the address of the rest catalog at http://127.0.0.1:1")


def test_a_namespace_created_for_a_table_that_cannot_be_is_dropped(lake, monkeypatch):
    def refuse(*_):
        raise NotPermitted("Cannot create table: not allowed")

    monkeypatch.setattr("calve.sink.prepare.create", refuse)
    sink = IcebergSink.model_validate({"catalog": lake.declaration, "namespace": "a.b", "table": "t"})
    found = check.check_sink(lake.spark, "lake", sink)
    assert found.error.exit_code == 77
    assert "may create and drop tables in 'a.b'" in found.advice
    assert not lake.catalog.has_namespace(["a"])


def test_what_cannot_be_read_back_is_a_failure(lake, monkeypatch):
    monkeypatch.setattr(check, "_write", lambda spark, writer: None)
    sink = IcebergSink.model_validate({"catalog": lake.declaration, "namespace": "shop", "table": "t"})
    found = check.check_sink(lake.spark, "lake", sink)
    assert "it holds 0 rows where one was written" in str(found.error)
    assert [step.tried for step in found.steps if not step.succeeded] == ["read it back"]
    assert not lake.catalog.has_namespace(["shop"])


def test_a_scratch_table_needs_no_column_of_the_sink():
    declared = {"namespace": "n", "table": "t", "sort_by": ["x"], "partition_by": ["day(x)"], "branch": "b"}
    scratch = check.scratch(IcebergSink.model_validate(declared))
    assert scratch.table.startswith("calve_check_")
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
    assert found.advice.startswith(advice)


def test_advice_on_a_sink_that_is_wrongly_declared():
    sink = IcebergSink.model_validate({"namespace": "n", "table": "t", "catalog": CatalogDeclaration()})
    assert check._sink_advice(ConfigurationError("x"), sink).startswith("check 'catalog'")


def test_unknown_names_get_suggestions(calve, project):
    ended = calve("check", "--sink", "lak")
    assert ended.code == 64
    assert ended.err == "Cannot find sink 'lak': there is lake; did you mean 'lake'?\n"
    assert calve("check", "--source", "x").code == 64
