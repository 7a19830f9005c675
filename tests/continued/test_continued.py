"""Tables that Calve 0.1.0 wrote are continued: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import fcntl
import shutil
import tarfile

import pytest

from calve import declare
from calve.position import parse
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.session import branch_off
from calve.runtime.stop import Stop
from calve.verify import opening
from calve.verify.report import Wanted, report
from tests.continued.make import ARCHIVE, PLACE, write

TABLES = (
    *("orders", "orders__dead_letter", "cut", "cut__dead_letter", "accounts", "accounts__tombstones"),
    *("routed__routes", "routed_eu", "routed_us"),
)

pytestmark = pytest.mark.spark


@pytest.fixture
def project():
    """What 0.1.0 left, in the folder that its metadata names; one process at a time."""
    with open(f"{PLACE}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(PLACE, filter="data")
        yield declare.load(PLACE / "calve.yaml")
        shutil.rmtree(PLACE)


def test_what_0_1_0_wrote_is_continued(spark, project):
    before = marks()
    assert {mark.version for mark in before.values()} == {0}
    session = branch_off(spark, project.pipeline("orders").catalogs)

    def run():
        for name in ("orders", "cut", "accounts", "routed"):
            Runner(project.pipeline(name), session, Stop(), Report(name), once=True).run()

    def found(table, columns):
        return sorted(
            tuple(row) for row in session.sql(f"SELECT {columns} FROM {sql(project, table)}").collect()
        )

    # What was cut off is finished, and what was finished stays as it is.
    run()
    assert found("orders", "id, amount") == [(1, 7), (2, 3_000_000_000), (3, 9)]
    assert found("orders__dead_letter", LETTER) == [
        ("out_of_range", True),
        ("wrong_type", False),
        ("wrong_type", False),
    ]
    assert found("cut", "id, amount") == [(1, 1), (2, 2)]
    assert found("cut__dead_letter", "CAST(value AS STRING)") == [('{"id": "x"}',), ('{"id": "y"}',)]
    assert found("accounts", "id, version, name") == [(1, 2, "b"), (4, 1, "c")]
    assert [found(f"routed_{one}", "id") for one in ("eu", "us")] == [[(1,), (3,)], [(2,), (4,)]]

    # Deletes that 0.1.0 remembered hold older changes back.
    write("orders_in", "c", {"id": 4, "amount": 4}, {"id": "z"})
    write("cut_in", "c", {"id": 3, "amount": 3}, {"id": "z"})
    late = [(2, 4), (3, 6), (3, 8)]
    write(
        "accounts_in",
        "d",
        *({"op": "u", "id": one, "version": version, "name": "d"} for one, version in late),
    )
    write("routed_in", "c", {"id": 5, "region": "eu"}, {"id": 6, "region": "asia"})
    run()
    assert found("orders", "id") == [(1,), (2,), (3,), (4,)]
    assert found("cut", "id") == [(1,), (2,), (3,)]
    assert len(found("orders__dead_letter", "letter_id")) == 4
    assert len(found("cut__dead_letter", "letter_id")) == 3
    assert found("accounts", "id, version") == [(1, 2), (3, 8), (4, 1)]
    assert [found(f"routed_{one}", "id") for one in ("asia", "eu", "us")] == [
        [(6,)],
        [(1,), (3,), (5,)],
        [(2,), (4,)],
    ]

    after = marks()
    assert {mark.version for name, mark in after.items() if "replay" not in name} == {1}
    assert all(after[name].epoch > mark.epoch for name, mark in before.items() if "replay" not in name)
    for name in TABLES:
        told = report(
            opening.embedded(str(PLACE / "warehouse")).load_table(f"shop.{name}"), Wanted(files=True)
        )
        assert told.findings == [], name


LETTER = "reason, replayed_at IS NOT NULL"


def sql(project, table):
    return f"`{project.pipeline('orders').sink.catalog.spark_name()}`.shop.{table}"


def marks():
    """The marks of all tables, by table and sink."""
    catalog = opening.embedded(str(PLACE / "warehouse"))
    found = {}
    for name in TABLES:
        properties = catalog.load_table(f"shop.{name}").metadata.properties
        own = {key: text for key, text in properties.items() if key.startswith("calve.sink.")}
        found |= {f"{name} {key}": parse(text) for key, text in own.items()}
    return found
