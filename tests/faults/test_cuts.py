"""However a log is cut into batches, and wherever a life ends between them, the table is the same."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from calve import changes
from calve.errors import DataRefused
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.schema import Schema
from calve.sink.declaration import IcebergSink
from calve.sources.files import FilesSource
from calve.sources.kafka import KafkaSource
from tests.changes import KINDS, Sink
from tests.faults import figures, logs
from tests.faults.protections import ORDER
from tests.order import Change, after

pytestmark = pytest.mark.spark

COLUMNS = "log INT, cut INT, id INT, o INT, a INT, b STRING"
LOGS: dict[str, tuple[dict[str, Any], Callable[[Random, int], list[Change]]]] = {
    "upserts": ({}, lambda random, number: logs.upserts(random)),
    "unknown columns": ({}, lambda random, number: logs.upserts(random, unknown=True)),
    "orders": (
        {"order_by": logs.ORDER},
        lambda random, number: (logs.scattered if number % 3 == 0 else logs.ordered)(random),
    ),
    "orders and unknown columns": (
        {"order_by": logs.ORDER},
        lambda random, number: logs.ordered(random, unknown=True),
    ),
}
FEW, MANY = 20, 160


def chosen(name: str) -> Random:
    return Random(f"{figures.seed()} {name}")


def row(log: int, cut: int, change: Change) -> tuple[Any, ...]:
    order = (change.seq, change.lane, change.at, change.part, change.time)
    values = (log, cut, change.key, *(change.values.get(name) for name in ("o", "a", "b")))
    return (*values, change.operation, order, None, list(change.unknown) or None)


def commit(sink: Sink, rows: list[tuple[Any, ...]]) -> None:
    both = Schema((*sink.columns.columns, *changes.COLUMNS.columns))
    frame = sink.lake.spark.createDataFrame(rows, both.ddl())
    staged = sink.writer.stage(frame, len(rows))
    sink.position += 1
    sink.writer.commit(staged, {"row": sink.position})


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", LOGS)
def test_every_cut_of_a_log_leaves_the_same_rows(lake, name, count):
    check_cuts(lake, name, count)


@pytest.mark.full
@pytest.mark.parametrize("protection", ORDER, ids=str)
def test_a_mutant_of_the_order_leaves_other_rows(lake, monkeypatch, protection):
    assert protection.off is not None
    protection.off(monkeypatch)
    with pytest.raises((AssertionError, DataRefused)):
        check_cuts(lake, protection.breaks[0], 3 * FEW)


def check_cuts(lake, name, count):
    """Each cut of each log has keys of its own in one table, and the table takes a piece of each at once."""
    rules, make = LOGS[name]
    made = [make(chosen(f"{name} {number}"), number) for number in range(count)]
    sink = Sink(lake, KINDS["vectors"], columns=COLUMNS, keys=("log", "cut", "id"), **rules)
    random = chosen(name)
    for step in range(logs.LENGTH):
        rows = [
            row(number, cut, change)
            for number, log in enumerate(made)
            for cut, pieces in enumerate(logs.cuts(log))
            for change in (pieces[step] if step < len(pieces) else ())
        ]
        random.shuffle(rows)
        if step % 2:
            sink.start()
        commit(sink, rows)
    found: dict[tuple[int, int], dict[Any, Any]] = {}
    for log, cut, key, *values in sink.rows():
        there = found.setdefault((log, cut), {})
        assert key not in there, f"key {key} is twice in the table; log {log}, cut {cut}"
        there[key] = dict(zip(("o", "a", "b"), values, strict=True))
    for number, log in enumerate(made):
        expected = after(log, **rules)
        for cut, pieces in enumerate(logs.cuts(log)):
            assert found.get((number, cut), {}) == expected, [list(piece) for piece in pieces]
    figures.current.add(figures.CUT_LOGS, count)
    figures.current.add(figures.CUTS, sum(len(logs.cuts(log)) for log in made))


@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.full)])
def test_a_truncate_takes_out_what_came_before_it_wherever_batches_end(lake, count):
    for number in range(count):
        random = chosen(f"truncates {number}")
        log = logs.truncates(random)
        rules = {"truncate": "delete"}
        for cut, ends in enumerate(([len(log)], sorted({*random.sample(range(1, len(log)), 2), len(log)}))):
            table = {"table": f"t{number}_{cut}", **rules}
            sink = Sink(lake, KINDS["vectors"], columns=COLUMNS, keys=("log", "cut", "id"), **table)
            for begin, end in zip([0, *ends], ends, strict=False):
                commit(sink, [row(number, cut, change) for change in log[begin:end]])
                sink.start()
            found = {one[2]: dict(zip(("o", "a", "b"), one[3:], strict=True)) for one in sink.rows()}
            assert found == after(log, **rules), (ends, log)
            figures.current.add(figures.CUTS)
        figures.current.add(figures.CUT_LOGS)


def envelope(change: Change) -> str:
    """The change as Debezium writes it; the place in the log begins again at any time."""
    row = {"id": change.key, "a": change.values.get("a"), "b": change.values.get("b")}
    rows = {"before": row, "after": None} if change.operation == "d" else {"before": None, "after": row}
    source = {"lsn": change.seq} if change.seq else {"ts_ms": 1_700_000_000_000}
    return json.dumps({"op": "d" if change.operation == "d" else "u", **rows, "source": source})


def plain(change: Change) -> str:
    return json.dumps({"op": change.operation, "id": change.key, **change.values})


TOPICS: dict[str, tuple[dict[str, Any], dict[str, Any], Callable[[Change], str]]] = {
    "Debezium": (
        {"format": "debezium", "schema": "id INT, a INT, b STRING", "debezium": {"key_fields": ["id"]}},
        {},
        envelope,
    ),
    "JSON": (
        {"schema": "op STRING, id INT, o INT, a INT, b STRING", "operation": {"field": "op"}},
        {},
        plain,
    ),
    "JSON by time": (
        {
            "schema": "op STRING, id INT, o INT, a INT, b STRING",
            "operation": {"field": "op"},
            "metadata": ["timestamp"],
        },
        {"order_by": "_timestamp"},
        plain,
    ),
}


@pytest.mark.parametrize(
    ("name", "count"),
    [("Debezium", 3), *(pytest.param(name, 60, marks=pytest.mark.full) for name in TOPICS)],
)
def test_every_size_of_batches_of_a_topic_leaves_the_same_rows(kafka, lake, name, count):
    """Each log has keys of its own, which are in one of three partitions, or in all of them."""
    source, rules, written = TOPICS[name]
    topic = f"cuts.{uuid.uuid4().hex[:8]}"
    kafka.create_topic(topic, 3)
    random, expected = chosen(f"topic {name}"), {}
    for number in range(count):
        log = logs.scattered(random) if rules else logs.upserts(random)
        log = [replace(change, key=logs.KEYS * number + change.key) for change in log]
        expected |= after(log, order_by=logs.ORDER if rules else None)
        for change in log:
            lane = change.lane if rules else change.key % 3
            time = 1_000 + (change.values["o"] if rules else change.time)
            kafka.produce(topic, [written(change)], partition=lane, timestamp=time)
    for table, size in enumerate([10**6, 7 * count, 3 * count + 1]):
        declared = {"bootstrap_servers": kafka.bootstrap, "topics": [topic], **source}
        sink = {
            "catalog": lake.declaration,
            "namespace": "shop",
            "table": f"t{table}",
            "max_batch_size": size,
        }
        keys = {"commit_mode": "upsert", "key_fields": ["id"], "batch_size": 1, **rules}
        made = KafkaSource.model_validate(declared), IcebergSink.model_validate({**sink, **keys})
        run(lake, ResolvedPipeline("cuts", *made, (), f"cuts{table}", True), lives=1 + table)
        found = {
            one.id: (one.a, one.b)
            for one in lake.spark.table(lake.name(f"t{table}").sql()).select("id", "a", "b").collect()
        }
        assert found == {key: (row["a"], row["b"]) for key, row in expected.items()}, size
    figures.current.add(figures.CUT_LOGS, count)
    figures.current.add(figures.CUTS, 3 * count)


class Asking(Report):
    """Asks for the end behind the first batch."""

    def __init__(self, stop):
        super().__init__("cuts")
        self._stop = stop

    def add(self, **amounts):
        super().add(**amounts)
        self._stop.request()


def run(lake, pipeline, lives=1):
    """Run to the end; all lives but the last end behind their first batch."""
    for _ in range(lives - 1):
        stop = Stop()
        Runner(pipeline, lake.spark, stop, Asking(stop), once=True).run()
        assert stop.is_requested(), "there was no batch"
    Runner(pipeline, lake.spark, Stop(), Report("cuts"), once=True).run()


@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.full)])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_files_of_different_columns_leave_the_same_rows_one_by_one_and_at_once(lake, tmp_path, mode, count):
    """Each file has columns of its own, which the table gets with it."""
    for number in range(count):
        random = chosen(f"files {mode} {number}")
        contents = [
            [
                {"id": random.randrange(4), **{name: random.randrange(9) for name in names}}
                for _ in range(random.randrange(1, 4))
            ]
            for names in (random.sample("abcd", random.randrange(1, 4)) for _ in range(4))
        ]
        expected = [one for content in contents for one in content]
        if mode == "upsert":
            expected = list({one["id"]: one for one in expected}.values())
        for cut, most in enumerate((10, 1)):
            folder = tmp_path / f"{number}_{cut}"
            folder.mkdir()
            for at, content in enumerate(contents):
                (folder / f"{at}.json").write_text("\n".join(map(json.dumps, content)))
                if most == 1:
                    run(lake, files(lake, folder, mode))
            run(lake, files(lake, folder, mode))
            assert rows_of(lake, folder.name) == sorted(map(shown, expected)), (contents, most)
            figures.current.add(figures.CUTS)
        figures.current.add(figures.CUT_LOGS)


def files(lake, folder, mode):
    sink = {"catalog": lake.declaration, "namespace": "shop", "table": f"t{folder.name}"}
    keys = {"commit_mode": "upsert", "key_fields": ["id"]} if mode == "upsert" else {}
    made = (
        FilesSource.model_validate({"path": str(folder)}),
        IcebergSink.model_validate({**sink, **keys, "batch_size": 1, "schema_evolution": "add_columns"}),
    )
    return ResolvedPipeline("cuts", *made, (), f"files{folder.name}", True)


def rows_of(lake, name):
    found = lake.spark.table(lake.name(f"t{name}").sql()).collect()
    return sorted(shown(row.asDict()) for row in found)


def shown(row):
    """A row without the columns that it has not got."""
    return sorted((name, value) for name, value in row.items() if value is not None)
