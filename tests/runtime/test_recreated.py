"""A table that was dropped and created again between two runs."""

import shutil

import pytest

from calve import declare
from calve.cli import app
from calve.errors import StartRefused
from calve.iceberg.catalog import Catalog
from calve.runtime import run as runtime
from calve.runtime import session
from calve.runtime.stop import Stop
from calve.sink import prepare
from tests.faults import evidence

DECLARATION = """
version: "1.0"
sources:
  orders: {connector: datagen, config: {rows: 20, fields: {id: sequence}}}
sinks:
  lake: {connector: iceberg, config: {namespace: shop, table: orders}}
pipelines:
  orders: {source: orders, sink: lake}
"""
ALL = list(range(1, 21))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "calve.yaml").write_text(DECLARATION)
    return tmp_path


@pytest.fixture
def run(spark, folder):
    """Runs the pipeline to its end; returns its error."""

    def to_the_end():
        project = declare.load(folder)
        return runtime.run(spark, project, [project.pipeline("orders")], Stop())[0].error

    return to_the_end


@pytest.fixture
def recreate(spark, folder):
    """Drops the table; somebody else creates it again."""

    def do():
        pipeline = declare.load(folder).pipeline("orders")
        catalog = Catalog(session.branch_off(spark, [pipeline.sink.catalog]), "calve")
        catalog.drop(prepare.table_name(pipeline.sink))
        prepare.create(catalog, pipeline.sink, pipeline.source.columns())

    return do


@pytest.fixture
def calve(spark, folder, monkeypatch):
    """Runs a verb with the Spark that is there; returns its exit code."""
    monkeypatch.setattr(session, "start", lambda *arguments: Kept(spark))
    return lambda *arguments: app.run([*arguments, "--config", str(folder)])


class Kept:
    """The Spark of all tests, which a verb believes to be its own."""

    def __init__(self, spark):
        self.newSession = spark.newSession

    def stop(self):
        pass


def ids(folder):
    return evidence.values(evidence.embedded(folder).load_table("shop.orders"), "id")


def test_it_is_refused_until_somebody_decides(run, recreate, calve, folder):
    assert run() is None
    recreate()
    for _ in range(2):
        error = run()
        assert isinstance(error, StartRefused)
        assert error.exit_code == 65
        assert "'shop.orders': it was dropped and created again since the last run" in str(error)
        assert error.command == "calve repair --pipeline orders --restart-from earliest"
        assert ids(folder) == []
    assert calve("plan") == 65
    assert calve(*error.command.split()[1:], "--yes") == 0
    assert calve("plan") == 0
    assert run() is None
    assert ids(folder) == ALL


def test_without_the_status_of_the_last_run_there_is_nothing_to_compare(run, recreate, folder):
    run()
    recreate()
    shutil.rmtree(folder / ".calve")
    assert run() is None
    assert ids(folder) == ALL


def test_a_status_that_cannot_be_read_is_as_good_as_none(run, recreate, folder):
    run()
    recreate()
    (folder / ".calve" / "status" / "orders.json").write_text('{"pipeline": "orders", "uuids": 7}')
    assert run() is None


def test_a_table_that_was_dropped_is_created_anew_without_a_question(run, spark, folder):
    run()
    pipeline = declare.load(folder).pipeline("orders")
    Catalog(session.branch_off(spark, [pipeline.sink.catalog]), "calve").drop(
        prepare.table_name(pipeline.sink)
    )
    assert run() is None
    assert ids(folder) == ALL


def test_a_run_of_the_same_table_goes_on(run, folder):
    run()
    text = (folder / "calve.yaml").read_text()
    (folder / "calve.yaml").write_text(text.replace("rows: 20", "rows: 25"))
    assert run() is None
    assert ids(folder) == list(range(1, 26))


def test_another_table_is_no_table_that_was_created_again(run, recreate, folder):
    run()
    text = (folder / "calve.yaml").read_text()
    (folder / "calve.yaml").write_text(text.replace("table: orders", "table: others"))
    assert run() is None
    assert evidence.values(evidence.embedded(folder).load_table("shop.others"), "id") == ALL
