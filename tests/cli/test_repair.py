import json
from pathlib import Path

import pytest

from calve import declare
from calve.addresses import local_path
from calve.errors import StartRefused
from calve.iceberg.catalog import Catalog
from calve.runtime.session import branch_off
from calve.sink.prepare import table_name
from calve.verify import opening


@pytest.fixture
def table(ready, spark):
    """The table as it is now."""

    def load():
        sink = declare.load(ready).pipeline("orders").sink
        return Catalog(branch_off(spark, [sink.catalog]), "calve").load(table_name(sink))

    return load


@pytest.fixture
def rolled_back(ran, table, ready, spark):
    ran()
    first = table().metadata().snapshots()[1].id
    session = branch_off(spark, [declare.load(ready).pipeline("orders").sink.catalog])
    session.sql(f"CALL calve.system.rollback_to_snapshot('shop.orders', {first})").collect()


def mark(table):
    return table().metadata().mark("calve.sink.orders")


def reason(table):
    return table().metadata().snapshots()[-1].summary["calve.reason"]


@pytest.mark.usefixtures("rolled_back")
def test_the_command_of_a_refusal_lets_the_next_run_begin(calve, ran, table):
    error = ran()[0].error
    assert isinstance(error, StartRefused)
    assert calve(*error.command.split()[1:], "--yes").code == 0
    assert mark(table).position == {"row": 30}
    assert mark(table).epoch == 2
    assert reason(table) == "accepted a rollback"
    assert ran()[0].error is None


@pytest.mark.usefixtures("rolled_back")
def test_without_yes_nothing_is_changed(calve, table):
    before = table().metadata().file
    ended = calve("repair", "--pipeline", "orders", "--accept-rollback")
    assert (ended.code, ended.err) == (64, "Nothing changed; add --yes to write it\n")
    assert calve("repair", "--accept-rollback", "--dry-run", "--yes").code == 0
    assert table().metadata().file == before


@pytest.mark.usefixtures("kept")
def test_a_rollback_that_was_none_cannot_be_accepted(calve, finished):
    ended = calve("repair", "--accept-rollback", "--yes", "--config", str(finished))
    assert (ended.code, ended.err) == (
        64,
        "Cannot accept a rollback of table 'shop.orders': it was not rolled back\n",
    )


@pytest.mark.parametrize(
    ("place", "row"),
    [("earliest", 0), ("latest", 30), ('{"row": 25}', 25)],
    ids=["earliest", "latest", "position"],
)
def test_a_restart_moves_the_mark(calve, ran, table, place, row):
    ran()
    ended = calve("repair", "-p", "orders", "--restart-from", place, "--yes", "-o", "json")
    value = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "Written; 'calve run' begins there\n")
    assert value["before"]["position"] == {"row": 30}
    assert value["after"] == {"epoch": 2, "source": "datagen:0", "position": {"row": row}}
    assert (mark(table).position, mark(table).epoch) == ({"row": row}, 2)
    assert reason(table) == f"restarted from {place}"


def test_rows_after_the_position_are_written_again(calve, ran):
    ran()
    assert "are written once more" in calve("repair", "--restart-from", '{"row": 25}', "--yes").out
    ran()
    assert len(calve("read", "orders", "-n", "99", "-o", "json").out.splitlines()) == 35


def test_a_mark_that_cannot_be_read_is_replaced(calve, ran, table, ready, spark):
    ran()
    session = branch_off(spark, [declare.load(ready).pipeline("orders").sink.catalog])
    session.sql("ALTER TABLE calve.shop.orders SET TBLPROPERTIES ('calve.sink.orders' = 'broken')")
    error = ran()[0].error
    assert calve(*error.command.split()[1:], "--yes").code == 0
    assert mark(table).position == {"row": 0}


@pytest.mark.parametrize("place", ["yesterday", "[1]", '{"column": 1}', '{"row": -5}', '{"row": "5"}'])
@pytest.mark.usefixtures("kept")
def test_a_place_that_the_source_does_not_understand_is_refused(calve, finished, place):
    ended = calve("repair", "--restart-from", place, "--yes", "--config", str(finished))
    assert ended.code == 64
    assert ended.err.startswith("Cannot restart from")


def test_a_pipeline_without_mark_has_no_rollback_to_accept(calve, ran, ready):
    ran()
    ready.write_text(ready.read_text().replace("table: orders,", "table: orders, sink_id: other,"))
    ended = calve("repair", "--pipeline", "other", "--accept-rollback", "--yes")
    assert ended.code == 64
    assert "'other' has no mark in it" in ended.err


@pytest.mark.parametrize("arguments", [[], ["--accept-rollback", "--restart-from", "latest"]])
def test_exactly_one_decision_is_wanted(calve, project, arguments):
    ended = calve("repair", *arguments)
    assert ended.code == 64
    options = "--accept-rollback, --accept-loss, --accept-source, --accept-routes, --restart-from and"
    assert f"one of {options} --previous-metadata" in ended.err


def test_a_table_that_does_not_exist_is_refused(calve, project):
    assert calve("repair", "--restart-from", "earliest").code == 64


def test_one_of_several_pipelines_is_named(calve, project):
    text = project.read_text()
    project.write_text(f"{text}  again: {{source: orders, sink: lake, enabled: false}}\n")
    ended = calve("repair", "--accept-rollback")
    assert ended.code == 64
    assert ended.err == "Cannot repair: name one of again, orders with --pipeline\n"
    assert "did you mean 'again'?" in calve("repair", "-p", "agan", "--accept-rollback").err


DAMAGES = {"gone": Path.unlink, "empty": lambda path: path.write_bytes(b"")}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_metadata_that_cannot_be_read_is_named_with_the_command_that_goes_back(
    calve, ran, ready, table, damage
):
    ran()
    before = table().metadata()
    file = Path(local_path(before.file))
    damage(file)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    error = ran()[0].error
    assert isinstance(error, StartRefused)
    assert str(file) in str(error)
    assert str(error).endswith("decide with: calve repair --pipeline orders --previous-metadata")
    unwritten = calve(*error.command.split()[1:])
    assert (unwritten.code, unwritten.err) == (64, "Nothing changed; add --yes to write it\n")
    assert calve(*error.command.split()[1:], "--yes").code == 0
    assert table().metadata().last_sequence == before.last_sequence - 1
    assert ran()[0].error is None
    rows = opening.embedded(str(ready.parent / "warehouse")).load_table("shop.orders").scan().to_arrow()
    assert (rows.num_rows, len(rows.column("id").unique())) == (30, 30)


@pytest.mark.usefixtures("kept")
def test_metadata_that_can_be_read_is_not_gone_back_from(calve, ran):
    ran()
    ended = calve("repair", "--previous-metadata", "--yes")
    assert ended.code == 64
    assert "no table of 'shop' has metadata that cannot be read" in ended.err
