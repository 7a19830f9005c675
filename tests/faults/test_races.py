"""Two starters at the same time, and a foreign writer that never pauses: one JVM, one table."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from calve import crash
from calve.catalogs import Catalog
from calve.errors import Fenced, TryAgain
from calve.position import property_name
from calve.verify.report import Wanted, report
from tests.faults import evidence
from tests.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.rest]

SOURCE = "kafka:cluster"
START = {"row": 0}
COUNTS = [10, pytest.param(100, marks=pytest.mark.full)]


@pytest.fixture(params=["embedded", "rest"])
def shore(request, spark, tmp_path, rest_catalog):
    """A lake, and the same catalog for an independent reader."""
    if request.param == "rest":
        return Lake.rest(spark, rest_catalog.uri), evidence.rest(rest_catalog.uri)
    declared = Catalog.model_validate({"warehouse": str(tmp_path / "warehouse")})
    return Lake.open(spark, declared), evidence.embedded(tmp_path)


class Starter:
    """A process that takes the table over and commits a batch: it knows how that ended."""

    def __init__(self, lake, table, together):
        self._committer = lake.committer(table, retry_for=60)
        self._together = together
        self.epoch = 0
        self.fenced: Fenced | None = None

    def run(self, staged, to):
        try:
            self._together.wait(60)
            self.epoch = self._committer.fence(SOURCE, START).epoch
            self._together.wait(60)
            self._committer.commit(staged, to)
        except Fenced as error:
            self.fenced = error


def race(lake, table, number):
    """Let two starters race for row `number`; both have taken their epoch before either commits."""
    together = threading.Barrier(2)
    staged = lake.staged(table, [number])
    starters = [Starter(lake, table, together) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(one.run, staged, {"row": number}) for one in starters]:
            done.result(120)
    return sorted(starters, key=lambda one: one.epoch)


@pytest.mark.parametrize("races", COUNTS)
def test_of_two_starters_one_goes_on_and_the_other_is_fenced(shore, races):
    lake, _ = shore
    table, epoch = lake.table(), 0
    for number in range(1, races + 1):
        loser, winner = race(lake, table, number)
        assert epoch < loser.epoch < winner.epoch
        assert winner.fenced is None
        assert loser.fenced.exit_code == 80
        epoch = winner.epoch
    assert evidence.values(seen(shore, table), "id") == list(range(1, races + 1))
    print(f"{races} races, {races} fenced, last epoch {epoch}")


class Storm:
    """A foreign writer in a thread of its own that adds empty snapshots in gusts, at most 100 a second.

    With `pauses` it is silent for as long as a gust took, so that there is a moment in which to commit.
    """

    GUST = 10

    def __init__(self, table, pauses=True):
        self.snapshots, self.blown = 0, 0.0
        self._table, self._pauses = table, pauses
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._blow)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._thread.join(60)

    def _blow(self):
        while not self._over.is_set():
            begun = time.monotonic()
            for number in range(self.GUST):
                self._append()
                self._over.wait(max(0.0, begun + (number + 1) / 100 - time.monotonic()))
            took = time.monotonic() - begun
            self.blown += took
            self._over.wait(took if self._pauses else 0)

    def _append(self):
        from py4j.protocol import Py4JJavaError

        # Our commits may use up the attempts of Iceberg's own.
        with suppress(Py4JJavaError):
            self._table.java.newFastAppend().commit()
            self.snapshots += 1

    def __str__(self):
        return f"{self.snapshots} foreign snapshots, {self.snapshots / self.blown:.0f} a second in gusts"


@pytest.fixture
def sailor(shore):
    """A writer that has taken its epoch, and eight batches that it has staged."""
    lake, _ = shore
    table = lake.table()

    def make(retry_for):
        writer = lake.committer(table, retry_for=retry_for)
        writer.fence(SOURCE, START)
        return writer, {number: lake.staged(writer.table, [number]) for number in range(1, 9)}

    return table, make


def seen(shore, table):
    """The table as the independent reader sees it, in which nothing is wrong."""
    found = shore[1].load_table(f"shop.{table.name.table}")
    assert report(found, Wanted(files=True)).findings == []
    return found


def test_a_storm_of_foreign_commits_slows_us_and_loses_nothing(shore, sailor):
    table, make = sailor
    before, (writer, batches) = table.refresh().properties(), make(retry_for=300)
    begun = time.monotonic()
    with Storm(shore[0].catalog.load(table.name)) as storm:
        for number, staged in batches.items():
            writer.commit(staged, {"row": number})
    seconds, retries = time.monotonic() - begun, writer._patience.retries
    print(f"{storm}; {len(batches)} commits of ours in {seconds:.1f} s with {retries} retries")
    assert retries > 0
    assert storm.snapshots > len(batches)
    assert evidence.values(seen(shore, table), "id") == list(batches)
    assert set(table.refresh().properties()) - set(before) == {property_name("orders")}


def test_a_storm_that_leaves_no_moment_ends_the_run_and_loses_nothing(shore, sailor, monkeypatch):
    """Somebody commits between every load of ours and its swap."""
    table, make = sailor
    foreign, (writer, batches) = shore[0].catalog.load(table.name), make(retry_for=1)
    monkeypatch.setattr(crash, "point", lambda name: blow(foreign, name))
    with pytest.raises(TryAgain) as caught:
        writer.commit(batches[1], {"row": 1})
    assert caught.value.exit_code == 75
    assert writer._patience.retries > 1
    assert evidence.values(seen(shore, table), "id") == []
    monkeypatch.undo()
    writer.commit(batches[1], {"row": 1})
    assert evidence.values(seen(shore, table), "id") == [1]


def blow(foreign, point):
    if point == "commit.applied":
        foreign.java.newFastAppend().commit()
