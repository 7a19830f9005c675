import os
import re
import shutil
from pathlib import Path

import pytest

from calve import declare
from calve.cli import init
from calve.runtime import run as runtime
from calve.runtime.session import branch_off
from calve.runtime.stop import Stop
from calve.sink.prepare import table_name

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(file.parent for file in (ROOT / "examples").glob("*/calve.yaml"))
ENVIRONMENT = {"CATALOG_CREDENTIAL": "client:secret", "KAFKA_USER": "calve", "KAFKA_PASSWORD": "secret"}


@pytest.fixture
def project(tmp_path):
    def copy(name):
        shutil.copytree(
            ROOT / "examples" / name,
            tmp_path / name,
            ignore=shutil.ignore_patterns("warehouse", ".calve", "checkpoint"),
        )
        return declare.load(tmp_path / name, ENVIRONMENT)

    return copy


def run(spark, project):
    pipelines = [project.pipeline(name) for name in project.pipelines]
    runs = runtime.run(spark, project, pipelines, Stop(), once=True)
    for one in runs:
        if one.error is not None:
            raise one.error
    session = branch_off(spark, [pipelines[0].sink.catalog])
    return session.table(table_name(pipelines[0].sink).sql()), runs[0].report.status


def run_one(spark, project, name):
    """Run one pipeline to the end of what is there; its table."""
    pipeline = project.pipeline(name)
    (one,) = runtime.run(spark, project, [pipeline], Stop(), once=True)
    if one.error is not None:
        raise one.error
    return branch_off(spark, [pipeline.sink.catalog]).table(table_name(pipeline.sink).sql())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_example_loads(example):
    assert declare.load(example, ENVIRONMENT).pipelines


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_example_is_listed(example):
    assert f"]({example.name}/calve.yaml)" in (ROOT / "examples" / "README.md").read_text()


def test_generated_orders_are_all_in_the_table(spark, project):
    rows, status = run(spark, project("orders"))
    assert status.rows == rows.count() == rows.select("id").distinct().count() == 5000


def test_files_are_transformed_and_a_later_file_is_read_alone(spark, project):
    declared = project("files")
    rows, _ = run(spark, declared)
    assert sorted((row.id, row.country) for row in rows.collect()) == [
        (1, "NG"),
        (2, "BR"),
        (4, "BR"),
        (5, "EG"),
        (6, "SE"),
    ]
    line = '{"id": 7, "country": "jp", "amount": 1, "ordered": "2026-01-03T00:00:00Z"}\n'
    (declared.directory / "inbox" / "2026-01-03.json").write_text(line)
    rows, status = run(spark, declare.load(declared.directory, ENVIRONMENT))
    assert status.rows == 1
    assert rows.count() == 6


def test_an_hour_is_written_once_when_its_watermark_has_passed(spark, project):
    declared = project("windows")
    run_one(spark, declared, "sales_by_hour")
    line = '{"id": 7, "country": "JP", "amount": 1, "ordered": "2026-01-03T00:00:00Z"}\n'
    (declared.directory / "inbox" / "2026-01-03.json").write_text(line)
    rows = run_one(spark, declare.load(declared.directory, ENVIRONMENT), "sales_by_hour")
    hours = rows.selectExpr("date_format(hour, 'dd HH') AS hour", "country", "orders", "amount").collect()
    found = sorted((row.hour, row.country, row.orders, float(row.amount)) for row in hours)
    assert found[:3] == [("01 08", "BR", 1, 7.0), ("01 08", "NG", 2, 15.0), ("01 09", "NG", 1, 1.0)]
    assert [one for one in found if one[1] == "JP"] == []
    assert len({one[:2] for one in found}) == len(found)


def test_orders_are_joined_with_a_table(spark, project):
    declared = project("enriched")
    run_one(spark, declared, "customers")
    rows = run_one(spark, declared, "enriched").collect()
    assert sorted((row.id, row.name, row.country) for row in rows) == [
        (10, "Ada", "NG"),
        (11, "Bia", "BR"),
        (12, None, None),
    ]


def test_totals_follow_the_rows_of_another_table(spark, project):
    declared = project("totals")
    for count in (2000, 3000):
        file = declared.directory / "calve.yaml"
        file.write_text(file.read_text().replace("rows: 2000", f"rows: {count}"))
        declared = declare.load(declared.directory, ENVIRONMENT)
        orders = run_one(spark, declared, "orders")
        totals = run_one(spark, declared, "totals")
        truth = orders.groupBy("customer").agg({"*": "count", "amount": "sum"}).collect()
        found = {row.customer: (row.orders, row.spent) for row in totals.collect()}
        assert found == {row.customer: (row["count(1)"], row["sum(amount)"]) for row in truth}
        assert totals.count() == len(found) == 4


def test_the_readers_of_the_quickstart_read_what_init_declares(spark, tmp_path, monkeypatch):
    init.write(tmp_path)
    declaration = tmp_path / "calve.yaml"
    declaration.write_text(declaration.read_text().replace("rows_per_second: 2000", ""))
    run(spark, declare.load(tmp_path, {}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    page = (ROOT / "docs" / "quickstart.md").read_text()
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(block, names)
    assert names["orders"].scan().to_arrow().num_rows == 20_000
    assert os.path.exists("warehouse/catalog.db")
