"""Bad records: where they go, that each goes there once, and that the good ones of the same batch land."""

from __future__ import annotations

import contextlib
import json
import threading

import psutil
import pytest

from calve import crash
from calve.crash import Crash, Fault
from calve.errors import BadRecord, DataRefused, Unavailable
from calve.position import parse
from calve.project import ResolvedPipeline
from calve.runtime import letters, repair
from calve.runtime.letters import Wanted
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink import dead_letter
from calve.sink.declaration import IcebergSink
from calve.sources.files import FilesSource

AROUND_THE_SWAP = [
    pytest.param("commit.before", marks=pytest.mark.full),
    "commit.swapped",
    pytest.param("commit.confirmed", marks=pytest.mark.full),
]


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


@pytest.fixture
def pipeline(lake, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()

    def make(schema="id BIGINT NOT NULL, amount INT", source=(), **keys):
        declared = {"path": str(folder), "schema": schema, "max_files_per_batch": 1, **dict(source)}
        sink = {"catalog": lake.declaration, "namespace": "shop", "table": "orders", **keys}
        made = FilesSource.model_validate(declared), IcebergSink.model_validate(sink)
        return ResolvedPipeline("orders", *made, (), "orders", True)

    return make


def write(tmp_path, name, *lines):
    (tmp_path / "in" / name).write_bytes(b"".join(line + b"\n" for line in lines))


def run(lake, pipeline):
    report = Report("orders")
    Runner(pipeline, lake.spark, Stop(), report, once=True).run()
    return report.status


def rows(lake, table="orders", columns="id"):
    found = lake.spark.sql(f"SELECT {columns} FROM {lake.name(table).sql()} ORDER BY 1, 2").collect()
    return [tuple(row) for row in found]


LETTERS = "orders__dead_letter"
WHY = "CAST(value AS STRING), stage, reason"
CSV = {"format": "csv"}
FIXED = {"format": "csv", "options": {"null_value": "NULL"}}


def test_bad_records_go_to_their_table_and_the_others_land(lake, pipeline, tmp_path):
    good = [b'{"id": 1, "amount": 7}', b'{"id": 2}']
    bad = [b'{"id": "abc", "amount": 7}', b"{", b'{"id": 3, "amount": 3000000000}']
    write(tmp_path, "a", good[0], *bad, good[1])
    status = run(lake, pipeline())
    assert rows(lake, columns="id, amount") == [(1, 7), (2, None)]
    assert rows(lake, LETTERS, WHY) == [
        ("{", "decode", "malformed"),
        ('{"id": "abc", "amount": 7}', "cast", "wrong_type"),
        ('{"id": 3, "amount": 3000000000}', "cast", "out_of_range"),
    ]
    assert (status.rows, status.dead_letters) == (2, 3)
    letter = lake.spark.table(lake.name(LETTERS).sql()).where("reason = 'wrong_type'").collect()[0]
    assert json.loads(letter.position) == {"file": str(tmp_path / "in" / "a"), "line": 2}
    assert letter.message == "column 'id': 'abc' is not a BIGINT: not a number"
    assert (letter.pipeline, letter.epoch, letter.replayed_at) == ("orders", 1, None)
    assert letter.source.startswith("files:")
    assert None not in (letter.event_time, letter.batch)


def test_without_bad_records_there_is_no_table_for_them(lake, pipeline, tmp_path):
    write(tmp_path, "a", b'{"id": 1}')
    run(lake, pipeline())
    assert not lake.catalog.has_table(lake.name(LETTERS))


def test_with_off_a_bad_record_stops_the_pipeline(lake, pipeline, tmp_path):
    write(tmp_path, "a", b'{"id": 1}', b'{"id": "abc"}')
    with pytest.raises(BadRecord, match="line 2: column 'id': 'abc' is not a BIGINT"):
        run(lake, pipeline(dead_letter="off"))
    assert rows(lake, columns="id, amount") == []


@pytest.mark.parametrize("limits", [{"max_count": 1}, {"max_ratio": 0.5}])
def test_over_a_limit_nothing_of_the_batch_is_committed(lake, pipeline, tmp_path, limits):
    write(tmp_path, "a", b'{"id": 1}', b"x", b'{"id": 2}')
    run(lake, pipeline(dead_letter=limits))
    write(tmp_path, "b", b'{"id": 3}', b"y", b"z")
    with pytest.raises(DataRefused, match=r"max_(count|ratio)") as stopped:
        run(lake, pipeline(dead_letter=limits))
    assert stopped.value.exit_code == 65
    assert rows(lake, columns="id, amount") == [(1, None), (2, None)]
    assert rows(lake, LETTERS, WHY) == [("x", "decode", "malformed")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("point", ["commit.before", "commit.applied", "commit.swapped", "commit.confirmed"])
@pytest.mark.parametrize("nth", [3, 4])
def test_a_crash_around_either_commit_leaves_every_record_once(lake, pipeline, tmp_path, point, nth):
    """The third commit is that of the second batch's letters, the fourth that of its rows."""
    write(tmp_path, "a", b'{"id": 1}', b"x")
    write(tmp_path, "b", b'{"id": 2}', b"y")
    crash.load((Fault(point, nth=nth),))
    with pytest.raises(Crash):
        run(lake, pipeline())
    crash.load(())
    # The batch that was cut off is read again with more behind it.
    write(tmp_path, "c", b'{"id": 3}', b"z")
    run(lake, pipeline(source={"max_files_per_batch": 10}))
    assert rows(lake, columns="id, amount") == [(1, None), (2, None), (3, None)]
    assert rows(lake, LETTERS, WHY) == [(text, "decode", "malformed") for text in "xyz"]


def test_a_batch_that_was_cut_off_and_is_read_with_another_declaration_keeps_no_letter_too_many(
    lake, pipeline, tmp_path
):
    write(tmp_path, "a", b"1,5", b"2,NULL", b"x,NULL")
    crash.load((Fault("commit.swapped", nth=1),))
    with pytest.raises(Crash):
        run(lake, pipeline("id BIGINT, amount INT", CSV))
    crash.load(())
    assert len(rows(lake, LETTERS, WHY)) == 2
    run(lake, pipeline("id BIGINT, amount INT", FIXED))
    assert rows(lake, columns="id, amount") == [(1, 5), (2, None)]
    assert rows(lake, LETTERS, WHY) == [("x,NULL", "cast", "wrong_type")]


def test_a_batch_that_was_cut_off_stays_so_until_its_letters_are_committed(
    lake, pipeline, tmp_path, monkeypatch
):
    write(tmp_path, "a", b"1,5", b"2,NULL")
    crash.load((Fault("commit.swapped", nth=1),))
    with pytest.raises(Crash):
        run(lake, pipeline("id BIGINT, amount INT", CSV))
    crash.load(())
    real, failures = Runner._start_next, [Unavailable("Cannot reach the store")]

    def fail_once(self, *arguments):
        if failures:
            raise failures.pop()
        real(self, *arguments)

    monkeypatch.setattr(Runner, "_start_next", fail_once)
    run(lake, pipeline("id BIGINT, amount INT", FIXED))
    assert failures == []
    assert rows(lake, columns="id, amount") == [(1, 5), (2, None)]
    assert rows(lake, LETTERS, WHY) == []


def test_letters_of_a_batch_that_was_cut_off_hold_until_they_are_read_again(lake, pipeline, tmp_path):
    """The batch is read again in parts, with a life of its own for each."""
    for name in "ab":
        write(tmp_path, name, b'{"id": 1}', name.encode())
    crash.load((Fault("commit.swapped", nth=1),))
    with pytest.raises(Crash):
        run(lake, pipeline(source={"max_files_per_batch": 10}))
    assert [text for text, *_ in rows(lake, LETTERS, WHY)] == ["a", "b"]
    there = rows(lake, LETTERS, "letter_id, recorded_at")
    crash.load((Fault("acknowledge.before"),))
    with pytest.raises(Crash):
        run(lake, pipeline())
    crash.load(())
    assert rows(lake, LETTERS, "letter_id, recorded_at") == there
    run(lake, pipeline())
    assert rows(lake, columns="id, amount") == [(1, None), (1, None)]
    assert rows(lake, LETTERS, "letter_id, recorded_at") == there


def test_null_keys_of_an_upsert_are_dead_letters(lake, pipeline, tmp_path):
    bad = [b'{"amount": 2}', b'{"id": null, "amount": 3}']
    write(tmp_path, "a", b'{"id": 1, "amount": 1}', *bad, b'{"id": 1, "amount": 4}')
    run(lake, pipeline("id BIGINT, amount INT", commit_mode="upsert", key_fields=["id"]))
    assert rows(lake, columns="id, amount") == [(1, 4)]
    assert rows(lake, LETTERS, WHY) == [
        ('{"amount": 2}', "key", "null_key"),
        ('{"id": null, "amount": 3}', "key", "null_key"),
    ]


def test_an_operation_that_is_none_is_a_dead_letter(lake, pipeline, tmp_path):
    write(tmp_path, "a", b'{"op": "c", "id": 1}', b'{"op": "what", "id": 2}', b'{"op": "c"}')
    run(
        lake,
        pipeline(
            "op STRING, id BIGINT NOT NULL, amount INT",
            {"operation": {"field": "op"}},
            commit_mode="upsert",
            key_fields=["id"],
        ),
    )
    assert rows(lake, columns="id, amount") == [(1, None)]
    assert rows(lake, LETTERS, WHY) == [
        ('{"op": "c"}', "cast", "null"),
        ('{"op": "what", "id": 2}', "decode", "bad_operation"),
    ]


ROUTED = {"table": "orders_{region}", "dead_letter": {"table": LETTERS}}
REGIONS = "id BIGINT NOT NULL, region STRING"
NOWHERE = [b'{"id": 2, "region": "EU"}', b'{"id": 3}']


@pytest.mark.parametrize("keys", [{}, {"commit_mode": "upsert", "key_fields": ["id", "region"]}])
@pytest.mark.parametrize("carried", [2_000, 0])
def test_records_that_no_table_is_for_are_dead_letters(lake, pipeline, tmp_path, monkeypatch, keys, carried):
    monkeypatch.setattr(dead_letter, "CARRIED_RECORDS", carried)
    write(tmp_path, "a", b'{"id": 1, "region": "eu"}', *NOWHERE, b"{", b'{"id": 4, "region": "us"}')
    status = run(lake, pipeline(REGIONS, **ROUTED, **keys))
    assert (status.rows, status.dead_letters) == (2, 3)
    assert rows(lake, "orders_eu", "id, region") == [(1, "eu")]
    assert rows(lake, "orders_us", "id, region") == [(4, "us")]
    found = {(text, reason) for text, _, reason in rows(lake, LETTERS, WHY)}
    null = "null_key" if keys else "no_route"
    reasons = ("no_route", null, "malformed")
    assert found == {(text.decode(), why) for text, why in zip((*NOWHERE, b"{"), reasons, strict=True)}


def test_with_off_or_over_a_limit_a_record_without_a_table_stops_the_pipeline(lake, pipeline, tmp_path):
    write(tmp_path, "a", b'{"id": 1, "region": "eu"}', *NOWHERE)
    with pytest.raises(DataRefused, match="Cannot route 2 rows"):
        run(lake, pipeline(REGIONS, **{**ROUTED, "dead_letter": "off"}))
    with pytest.raises(DataRefused, match="max_count"):
        run(lake, pipeline(REGIONS, **{**ROUTED, "dead_letter": {"table": LETTERS, "max_count": 1}}))
    assert not lake.catalog.has_table(lake.name(LETTERS))
    run(lake, pipeline(REGIONS, **ROUTED))
    assert rows(lake, "orders_eu", "id, region") == [(1, "eu")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("point", AROUND_THE_SWAP)
@pytest.mark.parametrize("nth", range(1, 7))
def test_a_crash_between_several_tables_leaves_every_record_once(lake, pipeline, tmp_path, point, nth):
    """The commits are the list's, the letters', one of each table, and the list's once more."""
    write(tmp_path, "a", b'{"id": 1, "region": "eu"}', b'{"id": 2, "region": "us"}', b'{"id": 3}')
    crash.load((Fault(point, nth=nth),))
    with contextlib.suppress(Crash):
        run(lake, pipeline(REGIONS, **ROUTED))
    crash.load(())
    write(tmp_path, "b", b'{"id": 4, "region": "eu"}', b'{"id": 5}')
    run(lake, pipeline(REGIONS, **ROUTED))
    assert rows(lake, "orders_eu", "id, region") == [(1, "eu"), (4, "eu")]
    assert rows(lake, "orders_us", "id, region") == [(2, "us")]
    assert [text for text, *_ in rows(lake, LETTERS, WHY)] == ['{"id": 3}', '{"id": 5}']


def test_where_nothing_is_good_all_is_kept_and_little_in_memory(lake, pipeline, tmp_path, monkeypatch):
    monkeypatch.setattr(dead_letter, "CARRIED_RECORDS", 10)
    write(tmp_path, "a", *(b"bad %d" % number for number in range(5000)))
    with pytest.raises(DataRefused, match=r"5000 of 5000 records are bad, which is all of them"):
        run(lake, pipeline())
    assert not lake.catalog.has_table(lake.name(LETTERS))
    status = run(lake, pipeline(dead_letter={"max_ratio": 1}))
    assert (status.rows, status.dead_letters) == (0, 5000)
    assert len(set(rows(lake, LETTERS, "letter_id, value"))) == 5000
    mark = parse(lake.catalog.load(lake.name("orders")).metadata().property("calve.sink.orders"))
    assert mark.position != {}
    assert run(lake, pipeline(dead_letter={"max_ratio": 1})).dead_letters == 0


@pytest.mark.full
@pytest.mark.parametrize("limits", [{"max_ratio": 0.5}, {"max_ratio": 1}])
def test_100_mb_of_bad_records_are_not_held_in_memory(lake, pipeline, tmp_path, limits):
    count = 200_000
    write(tmp_path, "a", *(b'{"id": "%d", "text": "%s"}' % (number, b"x" * 480) for number in range(count)))
    with PeakMemory() as peak:
        if limits["max_ratio"] < 1:
            with pytest.raises(DataRefused, match=f"{count} of {count} records are bad") as stopped:
                run(lake, pipeline(dead_letter=limits))
            assert stopped.value.exit_code == 65
            assert not lake.catalog.has_table(lake.name(LETTERS))
        else:
            assert run(lake, pipeline(dead_letter=limits)).dead_letters == count
            assert lake.spark.table(lake.name(LETTERS).sql()).select("letter_id").distinct().count() == count
    assert rows(lake, columns="id, amount") == []
    assert peak.bytes < 3 * dead_letter.CARRIED


class PeakMemory:
    """How much larger this process became."""

    def __enter__(self):
        self.bytes, self._end = 0, threading.Event()
        self._begin = psutil.Process().memory_info().rss
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._thread.join()

    def _sample(self):
        while not self._end.wait(0.05):
            self.bytes = max(self.bytes, psutil.Process().memory_info().rss - self._begin)


@pytest.fixture
def refused(lake, pipeline, tmp_path):
    """Three records were refused, two of which a repaired declaration takes."""
    write(tmp_path, "a", b"1,5", b"2,NULL", b"3,NULL", b"x,NULL")
    run(lake, pipeline("id BIGINT, amount INT", CSV))
    assert rows(lake, columns="id, amount") == [(1, 5)]
    return pipeline("id BIGINT, amount INT", FIXED)


def replayed(lake):
    found = rows(lake, LETTERS, "CAST(value AS STRING), replayed_at IS NOT NULL")
    return [text for text, is_replayed in found if is_replayed]


def test_a_replay_takes_each_letter_once_and_leaves_what_is_refused_once_more(lake, refused):
    told = letters.replay(lake.spark, refused, Wanted(), 100)
    assert (told.taken, dict(told.refused)) == (2, {"wrong_type": 1})
    assert rows(lake, columns="id, amount") == [(1, 5), (2, None), (3, None)]
    assert replayed(lake) == ["2,NULL", "3,NULL"]
    assert letters.replay(lake.spark, refused, Wanted(), 100).taken == 0
    assert len(rows(lake, columns="id, amount")) == 3
    assert letters.purge(lake.spark, refused, Wanted(replayed=True)) == 2
    assert rows(lake, LETTERS, WHY) == [("x,NULL", "cast", "wrong_type")]


def test_a_replay_takes_no_more_than_it_is_asked_for(lake, refused):
    assert letters.replay(lake.spark, refused, Wanted(), 1).taken == 1
    assert replayed(lake) == ["2,NULL"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("point", ["commit.before", "commit.applied", "commit.swapped", "commit.confirmed"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_replay_that_is_cut_off_takes_no_letter_twice(lake, refused, point, nth):
    """The first commit is that of the rows, the second that of the letters."""
    crash.load((Fault(point, nth=nth),))
    with pytest.raises(Crash):
        letters.replay(lake.spark, refused, Wanted(), 100)
    crash.load(())
    letters.replay(lake.spark, refused, Wanted(), 100)
    assert rows(lake, columns="id, amount") == [(1, 5), (2, None), (3, None)]
    assert replayed(lake) == ["2,NULL", "3,NULL"]


def test_letters_of_a_source_that_is_read_again_are_not_doubled(lake, pipeline, tmp_path):
    upsert = {"commit_mode": "upsert", "key_fields": ["id"]}
    write(tmp_path, "a", b'{"id": 1}', b"x")
    run(lake, pipeline(**upsert))
    write(tmp_path, "b", b'{"id": 2}', b"y")
    run(lake, pipeline(**upsert))
    repair.write(repair.restart_from(lake.spark, pipeline(**upsert), "earliest"), pipeline(**upsert))
    run(lake, pipeline(**upsert))
    assert rows(lake, columns="id, amount") == [(1, None), (2, None)]
    assert rows(lake, LETTERS, WHY) == [("x", "decode", "malformed"), ("y", "decode", "malformed")]


@pytest.fixture
def nowhere(lake, pipeline, tmp_path):
    """Records of several tables were refused, and a repaired declaration takes all but one."""
    write(tmp_path, "a", b"1,eu", b"2,NULL", b"3,NULL", b"4,us", b"x,eu", b"5,fr")
    tables = {**ROUTED, "allowed_tables": ["orders_eu", "orders_us"]}
    status = run(lake, pipeline(REGIONS, FIXED, **tables))
    assert (status.rows, status.dead_letters) == (2, 4)
    return pipeline(REGIONS, FIXED, **ROUTED)


def in_tables(lake):
    names = ("orders_eu", "orders_us", "orders_fr")
    return [
        row[0]
        for name in names
        if lake.catalog.has_table(lake.name(name))
        for row in rows(lake, name, "id, region")
    ]


def test_a_replay_goes_to_several_tables_and_creates_those_that_are_new(lake, nowhere):
    told = letters.replay(lake.spark, nowhere, Wanted(), 100)
    assert (told.taken, dict(told.refused)) == (1, {"no_route": 2, "wrong_type": 1})
    assert in_tables(lake) == [1, 4, 5]
    assert replayed(lake) == ["5,fr"]
    assert letters.replay(lake.spark, nowhere, Wanted(), 100).taken == 0
    assert letters.purge(lake.spark, nowhere, Wanted(replayed=True)) == 1


@pytest.fixture
def both(lake, pipeline, tmp_path):
    """Two records for two tables were refused, and a repaired declaration takes them."""
    write(tmp_path, "a", b"1,eu,1", b"2,us,1", b"3,eu,NULL", b"4,us,NULL")
    columns = "id BIGINT, region STRING, n INT"
    assert run(lake, pipeline(columns, CSV, **ROUTED)).dead_letters == 2
    return pipeline(columns, FIXED, **ROUTED)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("point", AROUND_THE_SWAP)
@pytest.mark.parametrize("nth", range(1, 6))
def test_a_replay_that_is_cut_off_between_two_tables_is_finished_first(lake, both, point, nth):
    """The commits are the list's, one of each table, the list's once more, and the letters'."""
    crash.load((Fault(point, nth=nth),))
    with pytest.raises(Crash):
        letters.replay(lake.spark, both, Wanted(), 100)
    crash.load(())
    letters.replay(lake.spark, both, Wanted(), 100)
    assert in_tables(lake) == [1, 3, 2, 4]
    assert replayed(lake) == ["3,eu,NULL", "4,us,NULL"]
    assert letters.replay(lake.spark, both, Wanted(), 100).taken == 0


def test_letters_of_a_replay_that_is_to_be_finished_cannot_be_purged(lake, both):
    crash.load((Fault("commit.confirmed", nth=2),))
    with pytest.raises(Crash):
        letters.replay(lake.spark, both, Wanted(), 100)
    crash.load(())
    with pytest.raises(DataRefused, match="cut off between two of its tables; finish it"):
        letters.purge(lake.spark, both, Wanted(replayed=None))
    letters.replay(lake.spark, both, Wanted(), 100)
    assert letters.purge(lake.spark, both, Wanted(replayed=None)) == 2


def test_a_pipeline_goes_on_beside_replays_of_its_letters(lake, both, tmp_path):
    letters.replay(lake.spark, both, Wanted(), 100)
    write(tmp_path, "b", b"5,eu,5", b"6,us,6")
    assert run(lake, both).rows == 2
    assert in_tables(lake) == [1, 3, 5, 2, 4, 6]


def test_letters_that_are_refused_once_more_are_not_taken_for_replayed_however_large_they_are(
    lake, pipeline, tmp_path
):
    large = [b"x" * 100_000 + b"%d" % number for number in range(100)]
    write(tmp_path, "a", *large)
    run(lake, pipeline())
    told = letters.replay(lake.spark, pipeline(), Wanted(), 200)
    assert (told.taken, dict(told.refused)) == (0, {"malformed": 100})
    assert replayed(lake) == []
