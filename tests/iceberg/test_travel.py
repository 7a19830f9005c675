"""Snapshots by id, time, tag and branch, in tables that PyIceberg wrote; what cannot be read is said."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from calve.errors import UsageError
from calve.iceberg import travel
from calve.iceberg.travel import Break, History, Snapshot, Version, chain, millis, parse_timestamp, resolve

UTC = dt.timezone.utc


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    catalog = SqlCatalog("calve", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", pa.schema([pa.field("id", pa.int64())]))
    for number in range(4):
        made.append(pa.table({"id": pa.array([number], pa.int64())}))
    ids = [one.snapshot_id for one in made.snapshots()]
    made.manage_snapshots().create_tag(ids[1], "two").create_branch(ids[2], "side").commit()
    made.append(pa.table({"id": pa.array([9], pa.int64())}), branch="side")
    return made


@pytest.fixture
def history(table) -> History:
    table.refresh()
    return travel.parse(Path(table.metadata_location.removeprefix("file://")).read_text(), "db.t")


def empty() -> History:
    return History("db.t", "u", 2, (), None, 0)


def snapshot(number: int, parent: int | None, **told) -> Snapshot:
    summary = {"added-data-files": "1", "total-data-files": str(number)} | told.pop("summary", {})
    return Snapshot(number, parent, number, 1000 * number, told.pop("operation", "append"), summary)


def line(*numbers: int, first: int | None = None, current: int | None = None) -> History:
    """Snapshots that came one of the other."""
    parents = [first, *numbers[:-1]]
    made = tuple(snapshot(one, parent) for one, parent in zip(numbers, parents, strict=True))
    return History("db.t", "u", 2, made, numbers[-1] if current is None else current, 0)


def test_a_history_has_what_the_metadata_file_says(table, history):
    assert history.uuid == str(table.metadata.table_uuid)
    assert history.format_version == 2
    assert [one.id for one in history.snapshots] == [one.snapshot_id for one in table.snapshots()]
    assert [one.operation for one in history.snapshots] == ["append"] * 5
    assert history.current == table.current_snapshot().snapshot_id
    assert history.snapshots[0].is_first
    assert not history.snapshots[1].is_first
    assert history.snapshots[3].summary["total-records"] == "4"
    assert "operation" not in history.snapshots[0].summary


def test_without_a_version_the_newest_snapshot_of_main_is_meant(history):
    assert resolve(history, Version()).id == history.current
    assert resolve(empty(), Version()) is None


def test_a_snapshot_is_found_by_id_tag_and_branch(history):
    ids = [one.id for one in history.snapshots]
    assert resolve(history, Version(snapshot_id=ids[0])).id == ids[0]
    assert resolve(history, Version(tag="two")).id == ids[1]
    assert resolve(history, Version(branch="side")).id == ids[4]
    assert [one.id for one in history.ancestors(ids[4])] == [ids[4], ids[2], ids[1], ids[0]]


def test_a_time_means_what_was_there_then(history):
    for one in history.snapshots[:4]:
        assert resolve(history, Version(timestamp=at(one.committed_ms))).id == one.id
    for one in history.snapshots[1:4]:
        assert resolve(history, Version(timestamp=at(one.committed_ms - 1))).id == one.parent


def test_a_time_on_a_branch_is_one_of_its_commits(history):
    last = history.snapshots[4]
    assert resolve(history, Version(timestamp=at(last.committed_ms), branch="side")).id == last.id
    before = Version(timestamp=at(last.committed_ms - 1), branch="side")
    assert resolve(history, before).id == history.snapshots[2].id


def test_a_time_follows_a_rollback():
    made = line(1, 2, 3, current=2)
    rolled = History("db.t", "u", 2, made.snapshots, 2, 0, {}, ((1000, 1), (2000, 2), (3000, 3), (9000, 2)))
    assert [resolve(rolled, Version(timestamp=at(ms)), at(99_000)).id for ms in (2500, 3500, 9500)] == [
        2,
        3,
        2,
    ]


def at(ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(milliseconds=ms)


REFUSED = {
    "an unknown id": (
        line(7, 8),
        Version(snapshot_id=5),
        "Cannot read table 'db.t' at snapshot 5: it has no such snapshot, or it was expired; the oldest that "
        "is left is 7 of 1970-01-01 00:00:07.000 UTC",
    ),
    "an id in a table without snapshots": (
        empty(),
        Version(snapshot_id=5),
        "Cannot read table 'db.t' at snapshot 5: it has no such snapshot, or it was expired; it has none",
    ),
    "the future": (
        line(7, 8),
        Version(timestamp=at(200_000)),
        "Cannot read table 'db.t' at 1970-01-01 00:03:20.000 UTC: that is in the future",
    ),
    "a time before the history": (
        line(7, 8),
        Version(timestamp=at(6_999)),
        "Cannot read table 'db.t' at 1970-01-01 00:00:06.999 UTC: its history begins at 1970-01-01 "
        "00:00:07.000 UTC",
    ),
    "a time in a table without snapshots": (
        empty(),
        Version(timestamp=at(5)),
        "Cannot read table 'db.t' at 1970-01-01 00:00:00.005 UTC: it has no snapshots",
    ),
    "an unknown tag": (
        line(7, 8),
        Version(tag="x"),
        "Cannot read table 'db.t' at tag 'x': there is no such tag; it has none",
    ),
    "a branch that is misspelt": (
        line(7, 8),
        Version(branch="mian"),
        "Cannot read table 'db.t' at branch 'mian': there is no such branch; there is main; did you mean "
        "'main'?",
    ),
    "two at once": (
        line(7, 8),
        Version(snapshot_id=7, tag="x"),
        "Cannot read table 'db.t' at snapshot_id and tag at once: name one",
    ),
    "an id and a branch": (
        line(7, 8),
        Version(snapshot_id=7, branch="main"),
        "Cannot read table 'db.t' at snapshot_id and branch at once: name one",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_in_these_words(name):
    history, version, message = REFUSED[name]
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$") as caught:
        resolve(history, version, at(100_000))
    assert caught.value.exit_code == 64


def test_a_tag_is_no_branch_and_a_branch_is_no_tag(history):
    with pytest.raises(UsageError, match=r"at branch 'two': there is no such branch; there is main, side"):
        resolve(history, Version(branch="two"))
    with pytest.raises(UsageError, match=r"at tag 'side': there is no such tag; there is two"):
        resolve(history, Version(tag="side"))


def numbers(found) -> list[int]:
    assert not isinstance(found, Break)
    return [one.id for one in found]


def test_a_chain_is_what_lies_between_oldest_first():
    history = line(1, 2, 3, 4)
    assert numbers(chain(history, 1, 4)) == [2, 3, 4]
    assert numbers(chain(history, None, 2)) == [1, 2]
    assert numbers(chain(history, 3, 3)) == []
    assert numbers(chain(empty(), None, None)) == []


def test_a_chain_may_begin_behind_a_snapshot_that_was_expired():
    assert numbers(chain(line(5, 6, first=4), 4, 6)) == [5, 6]


def test_a_chain_that_expiry_broke_is_none():
    assert chain(line(5, 6, first=4), 3, 6) is Break.EXPIRED
    assert chain(line(5, 6, first=4), None, 6) is Break.EXPIRED


def test_an_engine_that_takes_expired_parents_away_does_not_make_a_first_snapshot():
    assert chain(line(5, 6), None, 6) is Break.EXPIRED


def test_a_chain_from_a_snapshot_that_was_rolled_back_is_none():
    assert chain(line(1, 2, 3, current=2), 3, 2) is Break.ROLLED_BACK


def test_what_lies_between_is_refused_in_words():
    with pytest.raises(UsageError) as caught:
        travel.between(line(5, 6, first=4), 3, 6)
    assert str(caught.value) == (
        "Cannot tell what changed in table 'db.t' from snapshot 3 to 6: snapshots in between were expired; "
        "the oldest that is left is 5 of 1970-01-01 00:00:05.000 UTC"
    )
    with pytest.raises(UsageError) as caught:
        travel.between(line(1, 2, 3), 3, 2)
    assert str(caught.value) == (
        "Cannot tell what changed in table 'db.t' from snapshot 3 to 2: 2 did not come from it; the table "
        "was rolled back, or has branches"
    )


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-15 10:00:00", dt.datetime(2026, 11, 15, 10, tzinfo=UTC)),
        ("2026-11-15", dt.datetime(2026, 11, 15, tzinfo=UTC)),
        ("2026-11-15T10:00", dt.datetime(2026, 11, 15, 10, tzinfo=UTC)),
        ("2026-11-15T10:00:00.5Z", dt.datetime(2026, 11, 15, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-11-15 10:00:00 UTC", dt.datetime(2026, 11, 15, 10, tzinfo=UTC)),
        ("2026-11-15T10:00:00+01:00", dt.datetime(2026, 11, 15, 9, tzinfo=UTC)),
        ("2026-11-15 10:00:00 -0530", dt.datetime(2026, 11, 15, 15, 30, tzinfo=UTC)),
    ],
)
def test_a_time_without_a_zone_is_utc(text, time):
    assert parse_timestamp(text) == time
    assert parse_timestamp(text).tzinfo is not None


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "15.11.2026", "2026-11-15 25:00:00", "1700000000"]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="not a time"):
        parse_timestamp(text)


def test_times_are_counted_and_shown_to_the_millisecond():
    time = dt.datetime(2026, 11, 15, 10, 0, 0, 7000, tzinfo=UTC)
    assert travel.shown(millis(time)) == "2026-11-15 10:00:00.007 UTC"
    assert millis(dt.datetime(1970, 1, 1)) == 0
