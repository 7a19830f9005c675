"""An Iceberg table as a source: its keys, where it begins and what follows, without reading a row."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from calve import schema
from calve.errors import ConfigurationError, StartRefused
from calve.iceberg import travel
from calve.iceberg.files import Task, by_location
from calve.model import Flaw
from calve.sources.iceberg import IcebergSource
from calve.sources.source import Limits

UTC = dt.timezone.utc
FAR = Limits(10**9)


def source(**keys) -> IcebergSource:
    catalog = {"type": "memory", "warehouse": "/lake"}
    return IcebergSource.model_validate({"catalog": catalog, "namespace": "db", "table": "t", **keys})


def flaws(**keys) -> list[Flaw]:
    return source(**keys).flaws()


class FakeTable:
    """A table of PyIceberg's as the source sees Java's: its history, asked for again when it is to be."""

    def __init__(self, table) -> None:
        self.table = table

    def metadata(self) -> SimpleNamespace:
        return SimpleNamespace(history=self.history)

    def refresh(self) -> SimpleNamespace:
        self.table.refresh()
        return self.metadata()

    def history(self, name: str) -> travel.History:
        text = Path(self.table.metadata_location.removeprefix("file://")).read_text()
        return travel.parse(text, name)


class FakeChanges:
    """The files that PyIceberg says a snapshot has, or has added."""

    def __init__(self, table) -> None:
        self.table = table

    def files(self, step) -> dict[str, Task]:
        number = step.snapshot.id
        entries = [
            entry
            for manifest in self.table.snapshot_by_id(number).manifests(self.table.io)
            for entry in manifest.fetch_manifest_entry(self.table.io)
        ]
        found = [one.data_file for one in entries if step.is_state or one.snapshot_id == number]
        return by_location(Task(one.file_path, one.record_count, one.file_size_in_bytes) for one in found)


@pytest.fixture
def table(tmp_path):
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("calve", uri=uri, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    return catalog.create_table("db.t", pa.schema([pa.field("id", pa.int64())]))


def append(table, *ids: int) -> int:
    table.append(pa.table({"id": pa.array(ids, pa.int64())}))
    return table.current_snapshot().snapshot_id


@pytest.fixture
def opened(table, monkeypatch):
    """Sources that read `table` and ask it each time."""
    monkeypatch.setattr("calve.iceberg.catalog.Catalog.__init__", lambda *_: None)
    monkeypatch.setattr("calve.iceberg.catalog.Catalog.load", lambda *_: FakeTable(table))
    monkeypatch.setattr(IcebergSource, "_changes", lambda *_: FakeChanges(table))
    monkeypatch.setattr(IcebergSource, "_projected", lambda *_: schema.parse("id BIGINT"))
    monkeypatch.setattr(IcebergSource, "_check_names", lambda *_: None)

    def made(**keys) -> IcebergSource:
        polled = {"poll_interval": "0s"} if keys.get("read_mode") in ("incremental", "changes") else {}
        return source(**polled, **keys)

    return made


def test_the_catalog_of_the_source_is_one_that_the_session_must_know():
    one = source()
    assert one.catalogs == (one.catalog,)
    assert one.jars == one.catalog.jars
    assert one.table_read == (one.catalog.spark_name(), "db", "t")


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ({"tag": "x"}, ("tag",), "has no effect with 'read_mode: batch'; set 'read_mode: snapshot'"),
        ({"poll_interval": "5s"}, ("poll_interval",), "has no effect with 'read_mode: batch'"),
        ({"start_snapshot": "full"}, ("start_snapshot",), "has no effect with 'read_mode: batch'"),
        ({"key_fields": ["id"]}, ("key_fields",), "has no effect with 'read_mode: batch'"),
        (
            {"read_mode": "snapshot"},
            ("read_mode",),
            "'read_mode: snapshot' needs 'snapshot_id', 'timestamp', 'tag' or 'branch'",
        ),
        (
            {"read_mode": "snapshot", "snapshot_id": 4, "tag": "x"},
            ("tag",),
            "stands beside 'snapshot_id'; keep one of the two",
        ),
        (
            {"read_mode": "snapshot", "snapshot_id": 4, "branch": "side"},
            ("branch",),
            "stands beside 'snapshot_id'; keep one of the two",
        ),
        ({"columns": ["id", "x", "id"]}, ("columns", 2), "names column 'id' again"),
    ],
)
def test_keys_that_contradict_or_have_no_effect_are_flaws(keys, path, message):
    assert flaws(**keys) == [Flaw(path, message)]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"read_mode": "snapshot", "branch": "side"},
        {"read_mode": "snapshot", "branch": "side", "timestamp": "2026-11-15 10:00:00"},
        {"read_mode": "changes", "key_fields": ["id"], "start_snapshot": 77, "poll_interval": "5s"},
        {"read_mode": "incremental", "branch": "side", "start_snapshot": "earliest"},
    ],
)
def test_keys_that_fit_have_no_flaws(keys):
    assert flaws(**keys) == []


@pytest.mark.parametrize(
    "value", ["2026-11-15T11:00:00+01:00", "2026-11-15 10:00:00", dt.datetime(2026, 11, 15, 10)]
)
def test_a_time_is_utc_where_it_names_no_zone(value):
    assert source(read_mode="snapshot", timestamp=value).timestamp == dt.datetime(
        2026, 11, 15, 10, tzinfo=UTC
    )


def test_a_time_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a time"):
        source(read_mode="snapshot", timestamp="noon")


def test_the_identity_is_the_table_and_its_branch(opened, table):
    append(table, 1)
    assert opened().identity() == f"iceberg:{table.metadata.table_uuid}"
    table.manage_snapshots().create_branch(append(table, 2), "side").commit()
    assert opened(branch="side").identity() == f"iceberg:{table.metadata.table_uuid}:side"


def test_a_batch_reads_the_state_once_in_parts(opened, table):
    numbers = [append(table, one, one + 1) for one in range(3)]
    one = opened(files_per_batch=2)
    begin = one.start()
    assert begin == {"snapshot": numbers[-1], "state": True, "behind": ""}
    first = one.latest(begin, FAR)
    assert (first.rows, first.more, first.ended) == (4, True, False)
    last = one.latest(first.to, FAR)
    assert (last.to, last.rows, last.more, last.ended) == ({"snapshot": numbers[-1]}, 2, False, True)
    after = one.latest(last.to, FAR)
    assert (after.to, after.rows, after.ended) == (last.to, 0, True)


def test_a_batch_is_not_moved_by_what_is_appended_later(opened, table):
    number = append(table, 1)
    one = opened()
    begin = one.start()
    append(table, 2)
    waiting = one.latest(begin, FAR)
    assert (waiting.to, waiting.rows) == ({"snapshot": number}, 1)


def test_a_snapshot_is_read_where_the_declaration_says(opened, table):
    numbers = [append(table, one) for one in range(3)]
    table.manage_snapshots().create_tag(numbers[0], "first").commit()
    time = dt.datetime.fromtimestamp(table.snapshot_by_id(numbers[1]).timestamp_ms / 1000, UTC)
    for keys, number in (
        ({"snapshot_id": numbers[1]}, numbers[1]),
        ({"tag": "first"}, numbers[0]),
        ({"timestamp": time}, numbers[1]),
    ):
        one = opened(read_mode="snapshot", **keys)
        one.identity()
        assert one.start()["snapshot"] == number


def test_a_snapshot_that_is_not_there_is_the_declarations_mistake(opened, table):
    append(table, 1)
    with pytest.raises(
        ConfigurationError, match=r"at snapshot 5: it has no such snapshot, or it was expired"
    ):
        opened(read_mode="snapshot", snapshot_id=5).identity()
    with pytest.raises(ConfigurationError, match=r"at branch 'side': there is no such branch; there is main"):
        opened(read_mode="incremental", branch="side").identity()


def test_a_stream_begins_where_the_declaration_says(opened, table):
    numbers = [append(table, one) for one in range(3)]
    begins = {
        "current": {"snapshot": numbers[2]},
        "earliest": {"snapshot": numbers[0], "state": True, "behind": ""},
        "full": {"snapshot": numbers[2], "state": True, "behind": ""},
        numbers[1]: {"snapshot": numbers[1]},
    }
    for start, begin in begins.items():
        assert opened(read_mode="incremental", start_snapshot=start).start() == begin


def test_a_stream_of_a_table_without_snapshots_begins_before_the_first(opened, table):
    for start in ("current", "earliest", "full"):
        one = opened(read_mode="incremental", start_snapshot=start)
        begin = one.start()
        assert begin == {"snapshot": None}
        assert one.latest(begin, FAR).rows == 0
    number = append(table, 1, 2)
    waiting = one.latest(begin, FAR)
    assert (waiting.to, waiting.rows) == ({"snapshot": number}, 2)


def test_a_first_snapshot_that_is_not_there_is_refused_with_the_choices(opened, table):
    number = append(table, 1)
    told = travel.shown(table.snapshot_by_id(number).timestamp_ms)
    with pytest.raises(ConfigurationError) as caught:
        opened(read_mode="incremental", start_snapshot=5).start()
    assert str(caught.value) == (
        "Cannot begin behind snapshot 5 of table 'db.t': it is not there, or was expired; set "
        "'start_snapshot' to full (the table as it is now), earliest (the oldest snapshot that is left "
        f"({number} of {told})), current, or the id of a snapshot that 'calve snapshots' lists"
    )


def test_a_stream_takes_what_is_appended(opened, table):
    append(table, 1)
    one = opened(read_mode="incremental")
    begin = one.start()
    assert one.latest(begin, FAR).to == begin
    numbers = [append(table, 2, 3), append(table, 4)]
    waiting = one.latest(begin, FAR)
    assert (waiting.to, waiting.rows, waiting.more, waiting.keep) == (
        {"snapshot": numbers[1]},
        3,
        False,
        False,
    )
    part = one.latest(begin, Limits(2))
    assert (part.to, part.rows, part.more) == ({"snapshot": numbers[0]}, 2, True)


def test_the_batch_size_of_the_source_counts_where_it_is_less(opened, table):
    append(table, 1)
    one = opened(read_mode="incremental", batch_size=1)
    begin = one.start()
    append(table, 2)
    append(table, 3)
    assert (one.latest(begin, FAR).rows, one.latest(begin, FAR).more) == (1, True)


def test_a_table_is_asked_again_when_the_interval_has_passed(opened, table):
    append(table, 1)
    one = opened(read_mode="incremental").model_copy(update={"poll_interval": 1000.0})
    begin = one.start()
    append(table, 2)
    assert one.latest(begin, FAR).rows == 0
    one._opened.asked -= 1001
    assert one.latest(begin, FAR).rows == 1


def test_a_delete_is_refused_where_only_appended_rows_are_read(opened, table):
    append(table, 1, 2)
    one = opened(read_mode="incremental")
    begin = one.start()
    table.delete("id = 1")
    with pytest.raises(StartRefused, match=re.escape("set 'read_mode: changes', or begin behind it")):
        one.latest(begin, FAR)
    assert opened(read_mode="changes").latest(begin, FAR).rows > 0


def test_a_position_that_was_rolled_back_is_refused(opened, table):
    first = append(table, 1)
    last = append(table, 2)
    one = opened(read_mode="changes")
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    with pytest.raises(StartRefused, match=re.escape("decide with: calve repair --restart-from full")):
        one.latest({"snapshot": last}, FAR)


def test_a_table_that_was_created_again_is_refused(opened, table, tmp_path):
    append(table, 1)
    one = opened(read_mode="changes")
    begin = one.start()
    other = SqlCatalog("calve", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    new = other.create_table("db.u", pa.schema([pa.field("id", pa.int64())]))
    one._opened.table.table = new
    with pytest.raises(StartRefused, match="it was dropped and created again since the run began"):
        one.latest(begin, FAR)


def test_an_embedded_catalog_that_nobody_wrote_to_is_not_made(tmp_path):
    one = IcebergSource.model_validate({"namespace": "db", "table": "t"}, context={"directory": tmp_path})
    with pytest.raises(ConfigurationError, match="there is no catalog in"):
        one.identity()
    assert list(tmp_path.iterdir()) == []
