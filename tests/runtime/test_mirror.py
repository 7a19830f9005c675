"""Iceberg into Iceberg: whatever happens to the table that is read, the other one has the same rows."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter

import pytest

from calve import crash
from calve.crash import Crash, Fault
from calve.errors import ConfigurationError, StartRefused, TableMismatch
from calve.position import parse
from calve.project import ResolvedPipeline
from calve.runtime import repair
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources.iceberg import IcebergSource
from calve.sources.source import Limits
from tests.changes import KINDS, LAYOUTS, Sink
from tests.origin import COLUMNS, Origin

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("CALVE_FAULT_SEED", "7"))
UPSERT = {"commit_mode": "upsert", "key_fields": ["id"]}
EVERYTHING = Limits(10**9)
AT_THE_START = ("start.before_fence", "fence.applied", "fence.swapped")


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


class Mirror:
    """A pipeline from the table `t` of a lake to another one."""

    def __init__(self, lake, sink=UPSERT, origin="t", **keys) -> None:
        self.lake = lake
        keys = {"read_mode": "changes", "start_snapshot": "full", **keys}
        once = keys["read_mode"] in ("batch", "snapshot")
        asked = {} if once else {"poll_interval": "0s"}
        self.keys = {name: value for name, value in {**asked, **keys}.items() if value is not None}
        self.place = {"catalog": lake.declaration, "namespace": "shop", "table": origin}
        self.declared = {"catalog": lake.declaration, "namespace": "copy", "table": "t", **sink}

    def pipeline(self) -> ResolvedPipeline:
        source = IcebergSource.model_validate({**self.place, **self.keys})
        assert source.flaws() == []
        sink = IcebergSink.model_validate({"batch_size": 1, **self.declared})
        return ResolvedPipeline("mirror", source, sink, (), "mirror", True)

    def run(self):
        report = Report("mirror")
        Runner(self.pipeline(), self.lake.spark, Stop(), report, once=True).run()
        return report.status

    def table(self):
        return self.lake.catalog.load(self.lake.name("t", "copy"))

    def rows(self, *columns: str) -> Counter:
        frame = self.lake.spark.table(self.table().name.sql())
        return Counter(tuple(row) for row in (frame.select(*columns) if columns else frame).collect())

    def position(self) -> dict:
        return parse(self.table().metadata().property("calve.sink.mirror")).position


def origin_rows(sink) -> Counter:
    return Counter(sink.rows())


def head(sink) -> int:
    return sink.lake.catalog.load(sink.writer.name).metadata().java.currentSnapshot().snapshotId()


def filled(lake, kind: str) -> Sink:
    """A table to mirror, with rows that `kind` of deletes will take away."""
    sink = Sink(lake, KINDS[kind], LAYOUTS["partitioned"], columns=COLUMNS)
    sink.take(*(("u", (key, "eu" if key % 2 else "us", key)) for key in range(8)))
    return sink


VECTORS = "vectors"
"""The kind of deletes where it does not matter which."""


@pytest.fixture(
    params=[VECTORS, *(pytest.param(kind, marks=pytest.mark.full) for kind in KINDS if kind != VECTORS)]
)
def origin(request, lake):
    return filled(lake, request.param)


@pytest.fixture
def vectored(lake):
    return filled(lake, VECTORS)


def busy(sink, number: int = 0) -> None:
    """Rows come, change and go."""
    sink.take(("u", (number + 1, "eu", 50 + number)), ("d", (number + 2, None, None)))
    sink.take(("u", (number + 20, "us", 7)), ("u", (number + 1, "us", 60 + number)))


def test_a_mirror_has_the_state_first_and_then_what_follows(lake, origin):
    mirror = Mirror(lake)
    mirror.run()
    assert mirror.rows() == origin_rows(origin)
    busy(origin)
    mirror.run()
    assert mirror.rows() == origin_rows(origin)
    assert mirror.position() == {"snapshot": head(origin)}
    before = mirror.table().metadata().file
    assert mirror.run().batches == 0
    assert mirror.table().metadata().file == before


def crashed(lake, origin, point: str, with_upkeep: bool) -> None:
    """A mirror that dies at `point` and, perhaps after an upkeep of the table it reads, goes on."""
    mirror = Mirror(lake, {**UPSERT, "max_batch_size": 3}, files_per_batch=1)
    mirror.run()
    busy(origin)
    crash.load((Fault(point, nth=1 if point in AT_THE_START else 2),))
    with pytest.raises(Crash):
        mirror.run()
    assert len(crash.fired()) == 1
    crash.load(())
    if with_upkeep:
        lake.call("rewrite_data_files", table="'shop.t'", options="map('rewrite-all', 'true')")
        assert expire_consumed(lake, origin, mirror.position()["snapshot"]) > 0
    mirror.run()
    assert mirror.rows() == origin_rows(origin)


CRASHES = [
    (point, kind, upkeep) for point in crash.POINTS for kind in sorted(KINDS) for upkeep in (False, True)
]
SOME_CRASHES = [CRASHES[6 * number + number % 6] for number in range(len(crash.POINTS))]
"""Every point once, by turns with each kind, and with an upkeep or without."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("point", "kind", "with_upkeep"), SOME_CRASHES)
def test_a_crash_at_any_point_leaves_a_mirror_that_goes_on(lake, point, kind, with_upkeep):
    crashed(lake, filled(lake, kind), point, with_upkeep)


@pytest.mark.full
@pytest.mark.parametrize(
    ("point", "kind", "with_upkeep"), [one for one in CRASHES if one not in SOME_CRASHES]
)
def test_a_crash_at_any_point_leaves_a_mirror_of_any_table_that_goes_on(lake, point, kind, with_upkeep):
    crashed(lake, filled(lake, kind), point, with_upkeep)


def expire_consumed(lake, origin, number: int) -> int:
    """Expire all that came before a snapshot; how many these were."""
    history = origin.writer.table.refresh().history("t")
    older = [one.id for one in history.ancestors(number)][1:]
    lake.call("expire_snapshots", table="'shop.t'", snapshot_ids=f"array({', '.join(map(str, older))})")
    return len(older)


def test_a_mirror_outlives_compaction_and_the_expiry_of_what_it_has_read(lake, origin):
    mirror = Mirror(lake)
    for number in range(2):
        mirror.run()
        lake.call("rewrite_data_files", table="'shop.t'", options="map('rewrite-all', 'true')")
        mirror.run()
        assert mirror.position() == {"snapshot": head(origin)}, "the position does not move over compaction"
        expire(lake)
        origin.writer.table.refresh()
        busy(origin, number)
    mirror.run()
    assert mirror.rows() == origin_rows(origin)


def expire(lake) -> None:
    later = (dt.datetime.now(dt.timezone.utc) + dt.timedelta(days=1)).strftime("%Y-%m-%d %H:%M:%S")
    lake.call("expire_snapshots", table="'shop.t'", older_than=f"TIMESTAMP '{later}'", retain_last="1")


def test_a_snapshot_that_is_expired_before_it_was_read_is_refused_with_the_command(lake, vectored):
    mirror = Mirror(lake)
    mirror.run()
    busy(vectored)
    expire(lake)
    with pytest.raises(StartRefused) as caught:
        mirror.run()
    assert str(caught.value).endswith("decide with: calve repair --restart-from full")
    pipeline = mirror.pipeline()
    repair.write(repair.restart_from(lake.spark, pipeline, "full"), pipeline)
    assert mirror.position() == {"snapshot": head(vectored), "state": True, "behind": ""}
    mirror.run()
    assert origin_rows(vectored) - mirror.rows() == Counter()


@pytest.mark.parametrize("place", ["full", "earliest", "current", "latest"])
def test_a_restart_begins_where_it_is_told(lake, vectored, place):
    mirror = Mirror(lake)
    mirror.run()
    pipeline = mirror.pipeline()
    found = repair.restart_from(lake.spark, pipeline, place)
    state = {"state": True, "behind": ""}
    first = vectored.writer.table.refresh().snapshots()[0].id
    wanted = {
        "full": {"snapshot": head(vectored), **state},
        "earliest": {"snapshot": first, **state},
        "current": {"snapshot": head(vectored)},
        "latest": {"snapshot": head(vectored)},
    }
    assert found.position == wanted[place]
    again = repair.restart_from(lake.spark, pipeline, str(first))
    assert again.position == {"snapshot": first}


@pytest.mark.parametrize(
    "seed", [SEED, *(pytest.param(SEED + more, marks=pytest.mark.full) for more in range(1, 20))]
)
def test_a_mirror_follows_a_table_that_several_engines_change(lake, seed):
    chance = random.Random(seed)
    origin = Origin(lake, chance, "t", unique=True)
    mirror = Mirror(lake)
    for _ in range(4):
        for _ in range(chance.randint(1, 3)):
            if chance.random() < 0.9:
                way = chance.choice(
                    [origin.upsert, origin.delete, origin.update, origin.merge, origin.compact]
                )
                origin.told.append(way.__name__)
                way()
        mirror.run()
        copied = mirror.rows() if lake.catalog.has_table(lake.name("t", "copy")) else Counter()
        assert copied == origin.rows(), f"seed {seed}: {'; '.join(origin.told)}"


def test_a_column_that_is_added_is_mirrored(lake, vectored):
    mirror = Mirror(lake)
    mirror.run()
    lake.spark.sql(f"ALTER TABLE {vectored.writer.name.sql()} ADD COLUMN note STRING")
    lake.spark.sql(f"INSERT INTO {vectored.writer.name.sql()} VALUES (70, 'eu', 1, 'new')")
    mirror.run()
    assert mirror.rows() == Counter(
        tuple(row) for row in lake.spark.table(vectored.writer.name.sql()).collect()
    )


def test_a_rename_is_mirrored_with_full_and_refused_without(lake, vectored):
    mirror = Mirror(lake)
    mirror.run()
    name = vectored.writer.name.sql()
    lake.spark.sql(f"ALTER TABLE {name} RENAME COLUMN amount TO total")
    lake.spark.sql(f"INSERT INTO {name} VALUES (70, 'eu', 1)")
    with pytest.raises(TableMismatch, match="column 'amount' is called 'total' in the source now"):
        mirror.run()
    mirror.declared["schema_evolution"] = "full"
    mirror.run()
    assert mirror.table().metadata().schema().names == ("id", "region", "total")
    rows = Counter(tuple(row) for row in lake.spark.table(name).collect())
    assert mirror.rows() == rows
    lake.spark.sql(f"ALTER TABLE {name} RENAME COLUMN total TO amount")
    lake.spark.sql(f"INSERT INTO {name} VALUES (71, 'eu', 2)")
    mirror.run()
    assert mirror.table().metadata().schema().names == ("id", "region", "amount")
    assert mirror.rows() == Counter(tuple(row) for row in lake.spark.table(name).collect())


def test_a_column_that_was_dropped_and_added_again_is_refused_with_the_command(lake, vectored):
    mirror = Mirror(lake)
    mirror.run()
    name = vectored.writer.name.sql()
    lake.spark.sql(f"ALTER TABLE {name} DROP COLUMN amount")
    lake.spark.sql(f"ALTER TABLE {name} ADD COLUMN amount BIGINT")
    lake.spark.sql(f"INSERT INTO {name} VALUES (70, 'eu', 1)")
    with pytest.raises(StartRefused, match="column 'amount' is another one than at snapshot"):
        mirror.run()


def test_changes_can_be_kept_as_they_are(lake, origin):
    first = head(origin)
    busy(origin)
    mirror = Mirror(lake, {"change_columns": True}, start_snapshot=first)
    mirror.run()
    found = mirror.rows("_op", "id", "amount")
    assert found == Counter({("u", 1, 50): 1, ("d", 2, 2): 1, ("i", 20, 7): 1, ("u", 1, 60): 1})
    assert len(mirror.rows("_seq")) == 2
    assert all(row[0] is not None for row in mirror.rows("_ts"))


@pytest.mark.parametrize("mode", ["batch", "incremental", "changes"])
def test_a_table_that_keeps_changes_is_mirrored_as_it_is(lake, vectored, mode):
    first = head(vectored)
    busy(vectored)
    kept = Mirror(lake, {"change_columns": True}, start_snapshot=first)
    kept.run()
    sink = {"namespace": "again"}
    again = Mirror(lake, sink, read_mode=mode, start_snapshot=None if mode == "batch" else "full")
    again.place = {**again.place, "namespace": "copy"}
    again.run()
    found = lake.spark.table(lake.name("t", "again").sql())
    assert Counter(map(tuple, found.select("_op", "id", "_seq").collect())) == kept.rows("_op", "id", "_seq")


def test_appended_rows_are_read_and_nothing_else_is_passed_over(lake, origin):
    mirror = Mirror(lake, {}, read_mode="incremental")
    mirror.run()
    lake.spark.sql(f"INSERT INTO {origin.writer.name.sql()} VALUES (70, 'eu', 1)")
    assert mirror.run().rows == 1
    busy(origin)
    with pytest.raises(StartRefused, match="set 'read_mode: changes', or begin behind it"):
        mirror.run()
    assert Mirror(lake, {}, read_mode="changes", start_snapshot=None).run().rows > 0


def test_a_batch_is_read_once_in_as_many_parts_as_there_are_files(lake, vectored):
    mirror = Mirror(lake, {}, read_mode="batch", start_snapshot=None, files_per_batch=1)
    status = mirror.run()
    assert status.batches == 2
    assert mirror.rows() == origin_rows(vectored)
    busy(vectored)
    assert mirror.run().batches == 0


def test_a_table_that_is_read_as_rows_can_be_upserted(lake, origin):
    busy(origin)
    mirror = Mirror(lake, read_mode="batch", start_snapshot=None)
    mirror.run()
    assert mirror.rows() == origin_rows(origin)


@pytest.mark.parametrize("by", ["snapshot_id", "timestamp", "tag", "branch"])
def test_a_table_is_read_as_it_was(lake, vectored, by):
    then, name = head(vectored), vectored.writer.name.sql()
    wanted = origin_rows(vectored)
    committed = vectored.writer.table.refresh().java.currentSnapshot().timestampMillis()
    busy(vectored)
    lake.spark.sql(f"ALTER TABLE {name} CREATE TAG before_that AS OF VERSION {then}")
    lake.spark.sql(f"ALTER TABLE {name} CREATE BRANCH side AS OF VERSION {then}")
    time = dt.datetime.fromtimestamp(committed / 1000, dt.timezone.utc)
    values = {"snapshot_id": then, "timestamp": time, "tag": "before_that", "branch": "side"}
    mirror = Mirror(lake, {}, read_mode="snapshot", start_snapshot=None, **{by: values[by]})
    mirror.run()
    assert mirror.rows() == wanted


def test_a_filter_and_columns_leave_out_the_rest(lake, vectored):
    busy(vectored)
    keys = {"partition_filter": "region = 'eu'", "columns": ["id", "amount"]}
    mirror = Mirror(lake, {}, read_mode="batch", start_snapshot=None, **keys)
    mirror.run()
    assert mirror.table().metadata().schema().names == ("id", "amount")
    assert mirror.rows() == Counter((row[0], row[2]) for row in vectored.rows() if row[1] == "eu")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"columns": ["id", "amuont"]},
            r"it has no column 'amuont', which 'columns' names; did you mean 'amount'\?",
        ),
        ({"partition_filter": "regon = 'eu'"}, "filter table 'shop.t'"),
        ({"partition_filter": "length(region) + id > 2"}, "cannot be used before rows are read"),
        ({"branch": "side"}, "at branch 'side': there is no such branch; there is main"),
    ],
)
def test_what_the_table_does_not_have_is_the_declarations_mistake(lake, vectored, keys, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        Mirror(lake, **keys).run()
    assert caught.value.exit_code == 78


def test_a_rollback_of_the_table_that_is_read_is_refused(lake, vectored):
    mirror = Mirror(lake)
    first = head(vectored)
    busy(vectored)
    mirror.run()
    lake.call("rollback_to_snapshot", table="'shop.t'", snapshot_id=str(first))
    with pytest.raises(
        StartRefused, match="the table was rolled back behind it, so rows that were read are gone"
    ):
        mirror.run()


def test_compaction_of_the_table_that_is_read_does_not_empty_one_that_is_overwritten(lake, vectored):
    keys = {"commit_mode": "overwrite", "overwrite": "table"}
    mirror = Mirror(lake, keys, read_mode="incremental")
    mirror.run()
    lake.call("rewrite_data_files", table="'shop.t'", options="map('rewrite-all', 'true')")
    mirror.run()
    assert mirror.position() == {"snapshot": head(vectored)}
    assert mirror.rows() == origin_rows(vectored)


def test_nothing_is_waiting_where_there_are_no_new_snapshots(lake, vectored):
    source = Mirror(lake).pipeline().source
    source.identity()
    there = {"snapshot": head(vectored)}
    waiting = source.latest(there, EVERYTHING)
    assert (waiting.to, waiting.rows, waiting.keep) == (there, 0, False)
