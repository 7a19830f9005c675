"""A process that was suspended wakes up after another one took over: it changes nothing of what is kept."""

from __future__ import annotations

import inspect
import threading
import time

import pytest

from calve import crash, position
from calve.errors import Fenced
from calve.project import ResolvedPipeline
from calve.runtime import letters
from calve.runtime.letters import Wanted
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.dead_letter import Letters
from calve.sink.declaration import IcebergSink
from calve.sink.routed import Routed
from calve.sources.datagen import DatagenSource
from calve.sources.files import FilesSource
from calve.transforms.sql import SqlTransform
from tests.lake import Lake

LETTERS = "orders__dead_letter"
QUICK = {"batch_size": 1, "flush_interval_secs": 1}
DEADLINE = 60


@pytest.fixture
def pipeline(lake, tmp_path):
    (tmp_path / "in").mkdir()

    def make(schema="id BIGINT NOT NULL, amount INT", source=(), **keys):
        sink = {"catalog": lake.declaration, "namespace": "shop", "table": "orders", **QUICK, **keys}
        declared = {"path": str(tmp_path / "in"), "schema": schema, **dict(source)}
        made = FilesSource.model_validate(declared), IcebergSink.model_validate(sink)
        return ResolvedPipeline("orders", *made, (), "orders", True)

    return make


def write(tmp_path, name, *lines):
    hidden = tmp_path / "in" / f".{name}"
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(tmp_path / "in" / name)


def run(lake, pipeline, stop=None):
    Runner(pipeline, lake.spark, stop or Stop(), Report("orders"), once=stop is None).run()


def found(lake, table, columns="id"):
    rows = lake.spark.sql(f"SELECT {columns} FROM {lake.name(table).sql()}").collect()
    return sorted(tuple(row) if len(row) > 1 else row[0] for row in rows)


def values(lake):
    return found(lake, LETTERS, "CAST(value AS STRING)")


class Other:
    """Another process that runs a pipeline until it is stopped."""

    def __init__(self, open_lake, pipeline):
        self._stop, self.errors = Stop(), []
        self._thread = threading.Thread(target=self._work, args=(open_lake, pipeline), daemon=True)
        self._thread.start()

    def _work(self, open_lake, pipeline):
        try:
            run(open_lake(), pipeline, self._stop)
        except BaseException as error:
            self.errors.append(error)

    def goes_on_until(self, condition):
        """Wait until something is so, while the process must not end."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert self.errors == []
            assert time.monotonic() < deadline, "nothing happened"
            time.sleep(0.1)

    def stop(self):
        self._stop.request()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()


@pytest.fixture
def other(spark, lake):
    """Starts another process, which is stopped at the end."""
    started = []

    def start(pipeline):
        started.append(Other(lambda: Lake.open(spark, lake.declaration), pipeline))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def suspended_at(monkeypatch):
    """Have this thread do something when it reaches a crash point, as often as is said."""

    def plan(point, deed, nth=1):
        reached, here = [], threading.current_thread()

        def reach(name):
            if name == point and threading.current_thread() is here:
                reached.append(name)
                if len(reached) == nth:
                    deed()

        monkeypatch.setattr(crash, "point", reach)

    return plan


def test_it_neither_takes_nor_deletes_dead_letters(lake, pipeline, tmp_path, suspended_at, other):
    write(tmp_path, "a", '{"id": 1}', "x")
    others = []

    def take_over():
        write(tmp_path, "b", '{"id": 2}', "y")
        others.append(other(pipeline()))
        others[0].goes_on_until(lambda: found(lake, "orders") == [1, 2])

    suspended_at("read.after", take_over)
    with pytest.raises(Fenced):
        run(lake, pipeline())
    assert values(lake) == ["x", "y"]
    # The rightful one goes on, and finds its own table of letters.
    write(tmp_path, "c", '{"id": 3}', "z")
    others[0].goes_on_until(lambda: found(lake, "orders") == [1, 2, 3])
    others[0].stop()
    assert others[0].errors == []
    assert values(lake) == ["x", "y", "z"]


def test_one_that_wakes_up_behind_its_look_at_the_rows_leaves_no_letter(
    lake, pipeline, tmp_path, suspended_at
):
    """The declaration was mended meanwhile: for the one that took over, the record is good."""
    write(tmp_path, "a", '{"id": 1, "amount": 3000000000}')
    mended = pipeline("id BIGINT NOT NULL, amount BIGINT")
    suspended_at("start.before_fence", lambda: run(lake, mended), nth=2)
    with pytest.raises(Fenced):
        run(lake, pipeline())
    assert found(lake, "orders", "id, amount") == [(1, 3000000000)]
    assert values(lake) == []


UPSERT = {"commit_mode": "upsert", "key_fields": ["id"], "order_by": "amount"}
CHANGES = ("op STRING, id BIGINT NOT NULL, amount INT", {"operation": {"field": "op"}})


def test_it_does_not_take_the_tombstones(lake, pipeline, tmp_path, suspended_at, other):
    write(tmp_path, "a", '{"op": "c", "id": 1, "amount": 1}', '{"op": "c", "id": 2, "amount": 1}')
    others = []

    def take_over():
        others.append(other(pipeline(*CHANGES, **UPSERT)))
        others[0].goes_on_until(lambda: found(lake, "orders") == [1, 2])

    suspended_at("start.before_fence", take_over, nth=2)
    with pytest.raises(Fenced):
        run(lake, pipeline(*CHANGES, **UPSERT))
    write(tmp_path, "b", '{"op": "d", "id": 1, "amount": 5}')
    others[0].goes_on_until(lambda: found(lake, "orders") == [2])
    others[0].stop()
    assert others[0].errors == []
    assert found(lake, "orders__tombstones", "id, amount") == [(1, 5)]


def routed(lake, sql, **keys):
    declared = {"catalog": lake.declaration, "namespace": "shop", "table": "orders_{region}"}
    source = DatagenSource.model_validate({"rows": 10, "fields": {"id": "sequence"}})
    sink = IcebergSink.model_validate({**declared, **QUICK, **keys})
    return ResolvedPipeline("orders", source, sink, (SqlTransform(sql=sql),), "orders", True)


def test_it_writes_to_no_table_that_the_new_declaration_does_not_name(lake, suspended_at):
    before = routed(lake, "SELECT *, 'eu' AS region FROM input")
    now = routed(lake, "SELECT *, 'us' AS region FROM input", allowed_tables=["orders_us"])
    # The table is listed, and not there yet.
    suspended_at("commit.confirmed", lambda: run(lake, now))
    with pytest.raises(Fenced):
        run(lake, before)
    assert found(lake, "orders_us") == list(range(1, 11))
    is_there = lake.catalog.has_table(lake.name("orders_eu"))
    assert (found(lake, "orders_eu") if is_there else []) == []


def test_a_replay_does_not_replay_what_another_has_taken(lake, pipeline, tmp_path, suspended_at, monkeypatch):
    monkeypatch.setattr(letters, "CHUNK", 1)
    write(tmp_path, "a", '{"id": 1, "amount": 3000000000}', '{"id": 2, "amount": 3000000000}', '{"id": 3}')
    run(lake, pipeline())
    mended = pipeline("id BIGINT NOT NULL, amount BIGINT")
    suspended_at("start.before_fence", lambda: letters.replay(lake.spark, mended, Wanted(), 10))
    told = letters.replay(lake.spark, mended, Wanted(), 10)
    assert found(lake, "orders") == [1, 2, 3]
    assert told.taken == 0
    assert found(lake, LETTERS, "replayed_at IS NULL") == [False, False]


def belong_to_no_epoch(patch):
    patch.setattr(position, "is_of_later_epoch", lambda *arguments: False)


def take_letters_blindly(patch):
    belong_to_no_epoch(patch)
    patch.setattr(Letters, "_take_late", Letters._take)


def do_not_look_at_the_lead(patch):
    patch.setattr(Routed, "_check_lead", lambda self: None)


@pytest.mark.parametrize(
    ("switch", "history"),
    [
        pytest.param(take_letters_blindly, test_it_neither_takes_nor_deletes_dead_letters, id="letters"),
        pytest.param(belong_to_no_epoch, test_it_does_not_take_the_tombstones, id="tombstones"),
        pytest.param(
            do_not_look_at_the_lead,
            test_it_writes_to_no_table_that_the_new_declaration_does_not_name,
            id="routes",
            marks=pytest.mark.full,
        ),
    ],
)
def test_without_its_protection_a_history_ends_otherwise(request, monkeypatch, switch, history):
    """Each of them is needed: what the tests above see with all of them on does not hold without it."""
    names = inspect.signature(history).parameters
    given = {name: request.getfixturevalue(name) for name in names}
    switch(monkeypatch)
    with pytest.raises(AssertionError):
        history(**given)
