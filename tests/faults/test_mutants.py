"""Protections that only real parts can show: with one switched off, the table shows what it was there for."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress

import pyarrow as pa
import pytest
from pydantic import PrivateAttr

from calve import crash
from calve.crash import Crash, Fault
from calve.errors import CalveError, StartRefused
from calve.iceberg.stage import Staged
from calve.runtime import repair
from calve.runtime.stop import Stop
from calve.sink import writer
from calve.sources.datagen import DatagenSource
from calve.sources.kafka import KafkaSource
from calve.testing.catalog import FaultyCatalog
from calve.testing.faults import CatalogFault
from tests.faults import evidence
from tests.faults.cycle import ROWS, Cycle
from tests.faults.kinds import BATCH, KINDS
from tests.faults.protections import ELSEWHERE
from tests.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.rest]

ALL = range(1, ROWS + 1)
FOREIGN = 1000
FIRST_BATCH, SECOND_BATCH = 2, 3
"""Which of a run's commits it is; the first one is the fence."""


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


@pytest.fixture(scope="module")
def faulty(rest_catalog):
    with FaultyCatalog(rest_catalog.uri) as catalog:
        yield catalog


@pytest.fixture(scope="module")
def through_the_proxy(spark, faulty):
    return Lake.rest(spark, faulty.uri)


@pytest.fixture
def cycle(through_the_proxy, faulty, rest_catalog):
    return Cycle(through_the_proxy, faulty, evidence.rest(rest_catalog.uri))


def lost_answer(cycle, patch):
    cycle.run(CatalogFault("catalog.commit", SECOND_BATCH, "apply_504"))
    return ALL


def conflict_although_it_landed_and_a_foreign_append(cycle, patch):
    """Before the client hears of the conflict, somebody else appends a row."""
    real = cycle.faulty._fire

    def fire(*arguments):
        append_foreign(cycle.table())
        real(*arguments)

    patch.setattr(cycle.faulty, "_fire", fire)
    cycle.run(CatalogFault("catalog.commit", SECOND_BATCH, "conflict_landed"))
    return [*ALL, FOREIGN]


def append_foreign(table):
    row = table.scan(limit=1).to_arrow()
    table.append(row.set_column(0, row.schema.field(0), pa.array([FOREIGN], pa.int64())))


def conflict(cycle, patch):
    cycle.run(CatalogFault("catalog.commit", FIRST_BATCH, "conflict"))
    return ALL


def files_lost_by_the_write(cycle, patch):
    """The first write hands over nothing of what it has written."""
    real, written = writer.stage, []

    def stage(*arguments):
        written.append(real(*arguments))
        return Staged((), 0, 0) if len(written) == 1 else written[-1]

    patch.setattr(writer, "stage", stage)
    cycle.run()
    assert written
    return ALL


class ForgetfulSource(DatagenSource):
    """Rows that are gone as soon as they are acknowledged."""

    _forgotten: int = PrivateAttr(default=0)

    def acknowledge(self, position):
        self._forgotten = position["row"]

    def read(self, spark, after, to):
        return super().read(spark, {"row": min(max(after["row"], self._forgotten), to["row"])}, to)


def crash_before_the_commit(cycle, patch):
    source = ForgetfulSource(rows=ROWS)
    crash.load((Fault("commit.before", nth=2),))
    with pytest.raises(Crash):
        cycle.run(source=source)
    crash.load(())
    cycle.run(source=source)
    return ALL


def stop_while_the_catalog_is_away(cycle, patch):
    stop, real = Stop(), crash.point

    def point(name):
        if name == "commit.before":
            stop.request()
        real(name)

    patch.setattr(crash, "point", point)
    cycle.run(CatalogFault("catalog.commit", FIRST_BATCH, "fail_503"), stop=stop)
    # The second batch was begun by then, so it is in flight too.
    return range(1, 2 * BATCH + 1)


def compaction_under_an_upsert(cycle, patch):
    """The files that the second batch has looked up are rewritten before it commits."""
    cycle.kind = KINDS[0]
    real, batches = crash.point, []

    def point(name):
        if name == "commit.before" and len(batches.append(name) or batches) == 2:
            table = f"'{cycle.namespace}.t'"
            cycle.lake.call("rewrite_data_files", table=table, options="map('rewrite-all', 'true')")
        real(name)

    patch.setattr(crash, "point", point)
    cycle.run()
    return cycle.kind.expected(ROWS)


TROUBLE = {
    "the writer deletes no file": lost_answer,
    "no retry by the library": conflict_although_it_landed_and_a_foreign_append,
    "independent row count": files_lost_by_the_write,
    "acknowledge only after the commit": crash_before_the_commit,
    "the batch in flight outlives a stop": stop_while_the_catalog_is_away,
    "Java's errors are told apart": conflict,
    "look up again when files moved": compaction_under_an_upsert,
}
IN_KAFKA = "the source still has the position"


def protections(*names):
    return [one for one in ELSEWHERE if one.name in names]


def assert_killed(protection, findings):
    """An invariant that the protection is there for is broken; an exception alone does not count."""
    assert {finding.invariant for finding in findings} & set(protection.breaks), findings


def test_every_protection_has_its_trouble():
    assert {one.name for one in ELSEWHERE} == {*TROUBLE, IN_KAFKA}


@pytest.mark.parametrize("protection", protections(*TROUBLE), ids=str)
def test_with_this_protection_the_trouble_breaks_nothing(cycle, protection, monkeypatch):
    expected = TROUBLE[protection.name](cycle, monkeypatch)
    assert cycle.findings(expected) == []


@pytest.mark.parametrize("protection", protections(*TROUBLE), ids=str)
def test_without_this_protection_the_trouble_breaks_an_invariant(cycle, protection, monkeypatch):
    protection.off(monkeypatch)
    expected = ALL
    with suppress(CalveError):
        expected = TROUBLE[protection.name](cycle, monkeypatch)
    assert_killed(protection, cycle.findings(expected))


@pytest.fixture
def recreated_topic(cycle, kafka):
    """Reads a topic, then one that was created anew under its name; returns the ids that both held."""
    topic = f"orders.{uuid.uuid4().hex[:8]}"
    keys = {"bootstrap_servers": kafka.bootstrap, "topics": [topic], "schema": "id BIGINT NOT NULL"}

    def read():
        cycle.run(source=KafkaSource.model_validate(keys), once=True)

    def run():
        fill(kafka, topic, range(1, 6))
        read()
        kafka.delete_topic(topic)
        fill(kafka, topic, range(6, 14))
        try:
            read()
        except StartRefused:
            pipeline = cycle.pipeline(KafkaSource.model_validate(keys))
            repair.write(repair.restart_from(cycle.lake.spark, pipeline, "earliest"), pipeline)
            read()
        return range(1, 14)

    return run


def fill(kafka, topic, ids):
    kafka.create_topic(topic)
    kafka.produce(topic, [json.dumps({"id": number}) for number in ids])


def test_a_topic_that_was_created_anew_is_read_from_its_beginning_after_a_decision(cycle, recreated_topic):
    assert cycle.findings(recreated_topic()) == []


@pytest.mark.parametrize("protection", protections(IN_KAFKA), ids=str)
def test_a_topic_that_was_created_anew_loses_rows_without_this_protection(
    cycle, recreated_topic, protection, monkeypatch
):
    protection.off(monkeypatch)
    assert_killed(protection, cycle.findings(recreated_topic()))
