"""Pipelines that Structured Streaming drives: every batch once, whatever happens to it and its checkpoint."""

import json
import shutil
import threading
import time

import pytest

from calve import crash
from calve.crash import Crash, Fault
from calve.errors import ConfigurationError, StartRefused
from calve.position import parse
from calve.project import ResolvedPipeline
from calve.runtime import repair
from calve.runtime.plan import plan
from calve.runtime.report import Report
from calve.runtime.stop import Stop
from calve.runtime.streaming import StreamingRunner, output_mode, runner_of
from calve.sink.declaration import IcebergSink
from calve.sources.datagen import DatagenSource
from calve.sources.spark import SparkSource
from calve.transforms.sql import SqlTransform
from tests.lake import Lake

REACHED = (
    *("start.before_fence", "fence.applied", "fence.swapped", "read.after", "stage.before", "stage.after"),
    *("commit.before", "commit.applied", "commit.swapped", "commit.confirmed", "batch.end"),
)


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


@pytest.fixture
def inbox(tmp_path):
    """A folder of JSON files, each of which is a batch."""
    folder = tmp_path / "inbox"
    folder.mkdir()

    def put(name, *rows):
        lines = "".join(json.dumps({"id": number, "name": text}) + "\n" for number, text in rows)
        (tmp_path / name).write_text(lines)
        # Spark reads whatever is there, so a file comes whole or not at all.
        (tmp_path / name).rename(folder / name)

    put("1.json", (1, "a"), (2, "b"))
    return put


@pytest.fixture
def pipeline(lake, tmp_path, inbox):
    def make(*sql, source=None, **keys):
        told = source or {
            "format": "json",
            "path": str(tmp_path / "inbox"),
            "schema": "id BIGINT, name STRING",
            "options": {"maxFilesPerTrigger": "1"},
        }
        sink = {"catalog": lake.declaration, "namespace": "shop", "table": "t", **keys}
        return ResolvedPipeline(
            "ticks",
            SparkSource.model_validate({**told, "checkpoint": str(tmp_path / "checkpoint")}),
            IcebergSink.model_validate(sink),
            tuple(SqlTransform(sql=one) for one in sql),
            "ticks",
            True,
        )

    return make


def run(lake, pipeline, stop=None, once=True):
    report = Report("ticks")
    runner_of(pipeline, lake.spark, stop or Stop(), report, once).run()
    return report.status


def table(lake):
    return lake.catalog.load(lake.name("t"))


def mark(lake):
    return parse(table(lake).metadata().property("calve.sink.ticks"))


def test_the_mode_of_a_commit_tells_what_a_batch_brings():
    def mode(**keys):
        return output_mode(IcebergSink.model_validate({"namespace": "shop", "table": "t", **keys}))

    assert mode() == "append"
    assert mode(commit_mode="upsert", key_fields=["id"]) == "update"
    assert mode(commit_mode="overwrite", overwrite="table") == "complete"
    assert mode(commit_mode="overwrite") == "append"


def test_the_source_decides_what_runs_a_pipeline(lake, pipeline):
    streaming = pipeline()
    assert isinstance(runner_of(streaming, lake.spark, Stop(), Report("x")), StreamingRunner)
    other = ResolvedPipeline("x", DatagenSource(rows=1), streaming.sink, (), "x", True)
    assert not isinstance(runner_of(other, lake.spark, Stop(), Report("x")), StreamingRunner)


def test_batches_land_with_their_numbers_and_a_second_run_goes_on_behind_them(lake, pipeline, inbox):
    inbox("2.json", (3, "c"))
    status = run(lake, pipeline())
    assert (status.rows, status.batches, status.epoch) == (3, 2, 1)
    assert lake.ids(table(lake)) == [1, 2, 3]
    first = mark(lake)
    assert first.position["batch"] == 1
    inbox("3.json", (4, "d"))
    status = run(lake, pipeline())
    assert (status.rows, status.epoch) == (1, 2)
    assert lake.ids(table(lake)) == [1, 2, 3, 4]
    assert mark(lake).position == {"checkpoint": first.position["checkpoint"], "batch": 2}


def test_a_second_run_with_nothing_new_writes_nothing(lake, pipeline):
    run(lake, pipeline())
    before = table(lake).metadata().file
    assert run(lake, pipeline()).batches == 0
    assert table(lake).metadata().file == before


def test_a_plan_tells_the_columns_and_writes_nothing(spark, lake, pipeline):
    found = plan(spark, pipeline("SELECT id, upper(name) AS name FROM input"))
    assert found.refusal is None
    assert found.columns.names == ("id", "name")
    assert (found.marked, found.waiting, found.exists) == (False, None, False)
    assert not lake.catalog.has_table(lake.name("t"))


@pytest.mark.parametrize("point", REACHED)
def test_a_crash_at_any_point_and_a_restart_give_every_row_once(lake, pipeline, inbox, point):
    inbox("2.json", (3, "c"))
    inbox("3.json", (4, "d"))
    crash.load((Fault(point, nth=1 if "fence" in point else 2),))
    with pytest.raises(Crash):
        run(lake, pipeline())
    assert len(crash.fired()) == 1
    crash.load(())
    run(lake, pipeline())
    assert lake.ids(table(lake)) == [1, 2, 3, 4]


def test_groups_that_a_batch_changed_replace_those_of_before(lake, pipeline, inbox):
    counted = "SELECT name, count(*) AS n FROM input GROUP BY name"
    declared = pipeline(counted, commit_mode="upsert", key_fields=["name"])
    run(lake, declared)
    inbox("2.json", (3, "a"), (4, "c"))
    run(lake, declared)
    rows = lake.spark.table(lake.name("t").sql()).collect()
    assert sorted((row.name, row.n) for row in rows) == [("a", 2), ("b", 1), ("c", 1)]


def test_a_lost_checkpoint_is_refused_until_it_is_decided(lake, pipeline, inbox, tmp_path):
    run(lake, pipeline())
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(StartRefused, match=r"up to batch 0 of checkpoint '.*', and the stream has") as caught:
        run(lake, pipeline())
    assert caught.value.exit_code == 65
    assert lake.ids(table(lake)) == [1, 2]
    decided = repair.restart_from(lake.spark, pipeline(), "earliest")
    repair.write(decided, pipeline())
    run(lake, pipeline())
    assert lake.ids(table(lake)) == [1, 1, 2, 2]


def test_an_older_copy_of_the_checkpoint_is_refused(lake, pipeline, inbox, tmp_path):
    run(lake, pipeline())
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    for number in (2, 3):
        inbox(f"{number}.json", (number + 1, "x"))
        run(lake, pipeline())
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "copy").rename(tmp_path / "checkpoint")
    with pytest.raises(StartRefused, match="up to batch 2, and the checkpoint goes on at batch 1"):
        run(lake, pipeline())
    assert lake.ids(table(lake)) == [1, 2, 3, 4]


def test_a_checkpoint_without_its_table_is_refused(lake, pipeline, inbox):
    run(lake, pipeline())
    lake.catalog.drop(lake.name("t"))
    inbox("2.json", (3, "c"))
    with pytest.raises(
        StartRefused, match="knows no batch of a stream, and the checkpoint goes on at batch 1"
    ):
        run(lake, pipeline())


def test_a_stop_ends_between_batches(spark, lake, pipeline):
    stop = Stop()
    clock = {"format": "rate", "options": {"rowsPerSecond": "20"}}
    declared = pipeline("SELECT value AS id FROM input", source=clock, flush_interval_secs=1)
    own = Lake.open(spark, lake.declaration)
    thread = threading.Thread(target=lambda: run(own, declared, stop, once=False))
    thread.start()
    wait_for(lambda: lake.catalog.has_table(lake.name("t")) and len(table(lake).metadata().snapshots()) > 2)
    stop.request()
    thread.join(60)
    assert not thread.is_alive()
    ids = lake.ids(table(lake))
    assert ids == list(range(len(ids)))


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DROP TABLE shop.t", "it is not a SELECT that a stream can run"),
        ("SELECT 1 AS one", "it does not read 'input'"),
        ("SELECT * FROM input ORDER BY id", "it sorts"),
    ],
)
def test_what_a_stream_cannot_run_is_refused(lake, pipeline, sql, why):
    lake.table(lake.name("t"), "id BIGINT, name STRING")
    with pytest.raises(ConfigurationError, match=why):
        run(lake, pipeline(sql))
    assert lake.catalog.has_table(lake.name("t"))


def wait_for(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.05)
