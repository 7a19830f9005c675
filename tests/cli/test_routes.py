"""The verbs on a project whose rows go to several tables."""

import json

import pytest

from calve import crash, declare
from calve.cli import choose
from calve.crash import Crash, Fault
from calve.errors import StartRefused, UsageError
from calve.iceberg.catalog import Catalog
from calve.iceberg.name import TableName
from calve.runtime.session import branch_off
from tests.cli.conftest import to_the_end

DECLARATION = """
version: "1.0"
sources:
  orders:
    connector: datagen
    config: {rows: 40, fields: {id: sequence}}
sinks:
  lake:
    connector: iceberg
    config: {namespace: shop, table: "orders_{region}", max_batch_size: 20, batch_size: 20}
pipelines:
  orders:
    source: orders
    sink: lake
    transforms: [{sql: "SELECT *, if(id % 2 = 0, 'eu', 'us') AS region FROM input"}]
"""


@pytest.fixture
def project(tmp_path, calve):
    file = tmp_path / "calve.yaml"
    file.write_text(DECLARATION)
    yield file
    crash.load(())


@pytest.fixture
def routed(project, kept, spark):
    """The project, its tables, and a run of it that may be made to crash."""
    return Routed(project, spark)


class Routed:
    def __init__(self, file, spark):
        self.file, self.spark = file, spark

    def run(self, *faults):
        crash.load(faults)
        error = to_the_end(self.file, self.spark)[0].error
        crash.load(())
        return error

    def session(self):
        return branch_off(self.spark, [declare.load(self.file).pipeline("orders").sink.catalog])

    def load(self, name):
        return Catalog(self.session(), "calve").load(TableName("calve", ("shop",), name))

    def drop(self, name):
        Catalog(self.session(), "calve").drop(TableName("calve", ("shop",), name))

    def ids(self, name):
        rows = self.session().sql(f"SELECT id FROM calve.shop.{name}").collect()
        return sorted(row.id for row in rows)

    def change(self, before, after):
        self.file.write_text(self.file.read_text().replace(before, after))


EVEN, ODD = list(range(2, 41, 2)), list(range(1, 41, 2))


def test_a_table_is_chosen_by_its_own_name_and_the_list_by_the_declared_one(project):
    loaded = declare.load(project)
    for text in ("orders_{region}", "shop.orders_{region}", "orders__routes", "shop.orders__routes"):
        found = choose.table(loaded, text)
        assert (str(found.name), found.lists) == ("shop.orders__routes", True)
    for text in ("orders_eu", "shop.orders_eu"):
        found = choose.table(loaded, text)
        assert (str(found.name), found.lists) == ("shop.orders_eu", False)
    with pytest.raises(UsageError, match=r"there is shop\.orders__routes"):
        choose.table(loaded, "bills")


def read(calve, table):
    return [json.loads(line) for line in calve("read", table, "-n", "50", "-o", "json").out.splitlines()]


def test_plan_status_read_and_verify_know_all_tables(calve, routed):
    ended = calve("plan", "--offline")
    assert "writes to tables 'shop.orders_{region}'" in ended.out
    assert "shop.orders__routes" in ended.out
    [first] = json.loads(calve("plan", "-o", "json").out)
    assert (first["exists"], first["tables"], first["lead"]) == (False, None, "shop.orders__routes")
    assert routed.run() is None
    ended = calve("plan")
    assert ended.code == 0
    assert "shop.orders_eu" in ended.out
    [after] = json.loads(calve("plan", "-o", "json").out)
    assert (after["exists"], after["waiting"], after["position"]) == (True, 0, {"row": 40})
    assert after["tables"] == ["shop.orders_eu", "shop.orders_us"]
    assert "shop.orders_{region}" in calve("status").out
    assert sorted(row["table_name"] for row in read(calve, "orders_{region}")) == ["orders_eu", "orders_us"]
    assert sorted(row["id"] for row in read(calve, "orders_eu")) == EVEN
    ended = calve("verify", "orders_{region}", "--key", "id", "--files")
    assert ended.code == 0, ended.out
    assert [line.partition(":")[0] for line in ended.out.splitlines()] == [
        "shop.orders__routes",
        "shop.orders_eu",
        "shop.orders_us",
    ]
    value = json.loads(calve("verify", "orders_{region}", "-o", "json").out)
    assert [one["table"] for one in value["tables"]] == ["shop.orders_eu", "shop.orders_us"]


def test_verify_finds_what_is_wrong_with_any_of_them(calve, routed):
    assert routed.run() is None
    data = next((routed.file.parent / "warehouse").glob("shop/orders_us/data/*.parquet"))
    data.unlink()
    ended = calve("verify", "orders_{region}", "--files")
    assert ended.code == 1
    assert "file-exists" in ended.out
    assert "shop.orders_us" in ended.out


def test_an_operator_lets_a_batch_be_finished_otherwise(calve, routed):
    assert isinstance(routed.run(Fault("commit.swapped", 2)), Crash)
    routed.change("id % 2 = 0", "id % 4 = 0")
    error = routed.run()
    assert isinstance(error, StartRefused)
    assert error.command == "calve repair --pipeline orders --accept-routes"
    assert calve("plan").code == 65
    before = routed.load("orders_eu").metadata().file
    assert calve(*error.command.split()[1:]).code == 64
    assert routed.load("orders_eu").metadata().file == before
    ended = calve(*error.command.split()[1:], "--yes")
    assert ended.code == 0
    assert "shop.orders_eu" in ended.out
    assert routed.run() is None
    # What the table has of the first batch is as it was, and the rest is routed as it is declared now.
    assert routed.ids("orders_eu") == [*range(2, 21, 2), *range(24, 41, 4)]
    assert calve("verify", "orders_{region}").code == 0


def test_routes_that_nothing_waits_for_cannot_be_accepted(calve, routed):
    assert routed.run() is None
    ended = calve("repair", "--accept-routes", "--yes")
    assert ended.code == 64
    assert "no batch of the tables of 'shop.orders__routes' is unfinished" in ended.err


def test_a_restart_takes_all_tables_back_also_in_mid_batch(calve, routed):
    assert isinstance(routed.run(Fault("commit.swapped", 2)), Crash)
    ended = calve("repair", "--restart-from", "earliest", "--yes")
    assert ended.code == 0
    assert "The same for shop.orders_eu, shop.orders_us." in ended.out
    assert routed.run() is None
    # The table that had the interrupted batch gets it once more, as the command says.
    assert routed.ids("orders_eu") == sorted([*EVEN, *range(2, 21, 2)])
    assert routed.ids("orders_us") == ODD
    assert calve("verify", "orders_{region}").code == 0


def test_a_list_that_was_dropped_is_made_anew_by_a_decision(calve, routed):
    assert routed.run() is None
    routed.drop("orders__routes")
    error = routed.run()
    assert isinstance(error, StartRefused)
    assert "'shop.orders_eu'" in str(error)
    assert "is not listed in table 'shop.orders__routes'" in str(error)
    assert calve("repair", "--restart-from", '{"row": 40}', "--yes").code == 0
    routed.change("rows: 40", "rows: 44")
    assert routed.run() is None
    assert routed.ids("orders_eu") == [*EVEN, 42, 44]
    assert routed.ids("orders_us") == [*ODD, 41, 43]


def test_another_source_is_accepted_for_all_tables(calve, routed):
    assert routed.run() is None
    routed.change("rows: 40,", "rows: 44, seed: 7,")
    error = routed.run()
    assert isinstance(error, StartRefused)
    assert calve("repair", "--accept-source", "--yes").code == 0
    assert routed.run() is None
    assert routed.ids("orders_us") == [*ODD, 41, 43]


def test_a_rollback_of_one_of_the_tables_is_refused_and_can_be_accepted(calve, routed):
    assert routed.run() is None
    first = routed.load("orders_us").metadata().snapshots()[1].id
    routed.session().sql(f"CALL calve.system.rollback_to_snapshot('shop.orders_us', {first})").collect()
    routed.change("rows: 40", "rows: 44")
    error = routed.run()
    assert isinstance(error, StartRefused)
    assert "table 'shop.orders_us': branch 'main' was rolled back" in str(error)
    assert calve(*error.command.split()[1:], "--yes").code == 0
    assert routed.run() is None
    assert routed.ids("orders_us") == [*range(1, 21, 2), 41, 43]
    assert routed.ids("orders_eu") == [*EVEN, 42, 44]
