"""Random change logs, cut at random and crashed at random: the table is their fold, in every mode."""

from __future__ import annotations

import os
import random

import pytest

from calve import crash
from calve.crash import Crash, Fault
from tests.changes import KINDS, LAYOUTS, Sink

LOGS = 10
"""Change logs in one table; their keys do not meet."""

SEED = int(os.environ.get("CALVE_FAULT_SEED", "7"))
POINTS = [point for point in crash.POINTS if point.startswith(("stage", "commit"))]


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


def change_log(chance, number):
    """Changes of a few keys: what a database would write, deletes and keys that come back included."""
    alive: set[int] = set()
    found = []
    for value in range(chance.randint(3, 12)):
        key = number * 100 + chance.randrange(4)
        operation = chance.choice("uuud" if key in alive else "ii")
        alive = alive - {key} if operation == "d" else alive | {key}
        region = chance.choice(["eu", "us"])
        found.append((operation, (key, region if operation != "d" else None, value)))
    return found


def interleaved(chance, logs):
    left = [list(log) for log in logs]
    while any(left):
        yield chance.choice([log for log in left if log]).pop(0)


def run_with_crashes(sink, chance, log):
    """Take the log in batches; a crash begins again where the table's mark is."""
    fired = 0
    while (at := sink.writer.committer.held.position["row"]) < len(log):
        to = min(len(log), at + chance.randint(1, 40))
        crash.load((Fault(chance.choice(POINTS)),) if chance.random() < 0.4 else ())
        try:
            staged = sink.writer.stage(sink.frame(log[at:to]), to - at)
            sink.writer.commit(staged, {"row": to})
        except Crash:
            fired += 1
            crash.load(())
            sink.start()
    return fired


def check_histories(lake, kind, layout, seed):
    chance = random.Random(seed)
    sink = Sink(lake, kind, layout)
    log = list(interleaved(chance, [change_log(chance, number) for number in range(LOGS)]))
    fired = run_with_crashes(sink, chance, log)
    sink.fold(log)
    sink.check()
    return fired


@pytest.mark.parametrize("name", KINDS)
def test_a_table_is_the_fold_of_ten_change_logs(lake, name):
    check_histories(lake, KINDS[name], LAYOUTS["partitioned"], SEED)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(SEED, SEED + 30))
@pytest.mark.parametrize("name", KINDS)
def test_a_table_is_the_fold_of_three_hundred_change_logs(lake, name, seed):
    layout = list(LAYOUTS.values())[seed % len(LAYOUTS)]
    check_histories(lake, KINDS[name], layout, seed)
