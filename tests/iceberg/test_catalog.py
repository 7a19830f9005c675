"""Catalogs as a start meets them."""

from __future__ import annotations

import pytest

from calve.errors import CalveError
from calve.iceberg.failures import translated
from calve.patience import Patience
from calve.sink import writer
from calve.sink.declaration import IcebergSink

MAKING = (
    "CREATE TABLE iceberg_tables (name TEXT)",
    "ALTER TABLE iceberg_tables ADD COLUMN iceberg_type TEXT",
)
"""What a process does that makes the tables of an embedded catalog."""


@pytest.fixture
def overtaken(spark, tmp_path):
    """Does a step of the making that another process has done just before, with the real driver."""
    properties = spark._jvm.java.util.Properties()
    connection = spark._jvm.org.sqlite.JDBC().connect(f"jdbc:sqlite:{tmp_path / 'made.db'}", properties)
    for statement in MAKING:
        connection.createStatement().execute(statement)

    def do(statement):
        with translated("reach catalog 'calve'"):
            connection.createStatement().execute(statement)

    yield do
    connection.close()


@pytest.fixture
def open_writer(lake):
    sink = IcebergSink.model_validate({"catalog": lake.declaration, "namespace": "shop", "table": "t"})
    patience = Patience(5, sleep=lambda seconds: None)

    def run():
        writer.Writer(lake.spark, sink, "orders", patience)
        return patience.retries

    return run


@pytest.fixture(params=MAKING, ids=["table", "column"])
def being_made(request, overtaken, monkeypatch):
    """The catalog is being made by another process when it is first opened."""
    real, first = writer.Catalog, [request.param]

    def catalog(*arguments):
        while first:
            overtaken(first.pop())
        return real(*arguments)

    monkeypatch.setattr(writer, "Catalog", catalog)


@pytest.mark.usefixtures("being_made")
def test_a_catalog_that_another_process_is_making_is_waited_for(open_writer):
    assert open_writer() == 1


def test_any_other_failure_to_make_a_catalog_is_not(overtaken):
    with pytest.raises(CalveError) as caught:
        overtaken("ALTER TABLE iceberg_tables ADD COLUMN name TEXT")
    assert not caught.value.retryable
