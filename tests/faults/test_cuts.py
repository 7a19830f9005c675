"""However a log is cut into batches, and wherever a life ends between them, the table is the same."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from calve import changes
from calve.schema import Schema
from tests.changes import KINDS, Sink
from tests.faults import figures, logs
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
