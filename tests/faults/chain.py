"""Lives of one pipeline, one after the other, each ended by a fault, and what they leave."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from random import Random

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tests.faults import figures
from tests.faults.kinds import APPEND
from tests.faults.process import ended, send, wait_for
from tests.faults.stream import Stream

ROWS = 40
LEAVE_A_FILE = ("stage.after", "commit.before", "commit.applied")
"""Points behind the writing of a batch's one data file and before the swap that puts it into the table."""
BEFORE_THE_EPOCH = ("start.before_fence", "fence.applied")
BEGUN_AHEAD = 1
"""While a batch is committed the next one is written: a life that ends then leaves its file as well."""
MOST_OF_A_LIFE = 1 + BEGUN_AHEAD
YOUTH, AGE = 12.0, 3.0
"""How many seconds after the start, or after the first commit, a life is struck at the latest."""


@dataclass
class Chain:
    """The lives of one pipeline, and what was done to them."""

    stream: Stream
    points: list[str] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)
    unfinished: int = 0
    """How many data files that belong to no snapshot the lives may have left behind."""

    def kill_at(self, point: str, nth: int) -> None:
        """A life that kills itself when it comes to `point` the `nth` time."""
        process = self._start(point, nth, "kill")
        self._expect(process, -signal.SIGKILL)
        self.killed.append(time.time())
        figures.current.add(f"{figures.KILLS} at {point}")
        figures.current.add(figures.KILLS)
        if point not in BEFORE_THE_EPOCH:
            self.unfinished += (point in LEAVE_A_FILE) + BEGUN_AHEAD

    def kill_at_random(self, draw: Random) -> None:
        """A life that is killed at some time, its JVM with it or left to itself."""
        process, whole = self._some_time(draw), draw.random() < 0.5
        self._signal(process, signal.SIGKILL, whole)
        self._expect(process, -signal.SIGKILL)
        self.killed.append(time.time())
        figures.current.add(figures.KILLS)
        self.unfinished += MOST_OF_A_LIFE

    def terminate_at_random(self, draw: Random) -> None:
        """A life that is asked to end at some time; it finishes its batch, or is too young to be asked."""
        process = self._some_time(draw)
        self._signal(process, signal.SIGTERM)
        self._expect(process, 0, 128 + signal.SIGTERM, -signal.SIGTERM)
        self.unfinished += MOST_OF_A_LIFE if process.returncode else 0

    def suspend_at_random(self, draw: Random) -> None:
        """A life that is suspended for a while together with its JVM, and goes on."""
        process = self._some_time(draw)
        self._signal(process, signal.SIGSTOP, whole=True)
        time.sleep(draw.uniform(0.2, 3))
        send(process, signal.SIGCONT, whole=True)
        self._goes_on(process)

    def overtake_at(self, point: str) -> None:
        """A life that is suspended at `point`, and wakes up after another one was there.

        Only where it has not taken its epoch yet, it may go on.
        """
        process = self._start(point, 1, "stop")
        wait_for(lambda: self.stream.calve.fired() == self.points, f"the stop at {point}")
        self._expect(self.stream.calve.start("run", "--once"), 0)
        left = self._table().metadata_location
        process.send_signal(signal.SIGCONT)
        if point in BEFORE_THE_EPOCH:
            self._goes_on(process)
        else:
            self.stream.produce_until(lambda: process.poll() is not None, "the end of the older life")
            self._expect(process, 80)
            assert self._table().metadata_location == left, "a fenced process has written"
            self.unfinished += MOST_OF_A_LIFE

    def end(self) -> None:
        """The last life ends by itself; the plan is held against what fired, and the table is checked."""
        self.stream.produce(10)
        self._expect(self.stream.calve.start("run", "--once"), 0)
        fired = self.stream.calve.fired()
        figures.current.add(figures.FIRED, len(fired))
        assert fired == self.points, "fewer faults fired than were planned"
        figures.current.took(figures.RECOVERY, recoveries(self._table().snapshots(), self.killed))
        # A batch of changes has as many delete files as it finds data files.
        self.stream.check(orphans=self.unfinished if self.stream.kind is APPEND else None)

    def _start(self, point: str, nth: int, action: str) -> subprocess.Popen[str]:
        self.points.append(point)
        figures.current.add(figures.PLANNED)
        process = self.stream.calve.start("run", fault={"point": point, "nth": nth, "action": action})
        # A JVM takes longer to start than these take to be there, so they cost no time between two lives.
        # They make two batches with rows at the least, so that a life has a commit before its second batch.
        self.stream.produce(ROWS // 2)
        self.stream.produce(ROWS // 2, abort=True)
        return process

    def _some_time(self, draw: Random) -> subprocess.Popen[str]:
        """A life at some time of its start or behind its first commit, while rows come in."""
        is_young, part = draw.random() < 0.5, draw.random()
        process = self.stream.calve.start("run")
        if not is_young:
            self.stream.produce_until(lambda: self._has_committed(process), "a commit")
        until = time.monotonic() + part * (YOUTH if is_young else AGE)
        self.stream.produce_until(lambda: time.monotonic() > until, "its time")
        return process

    def _signal(self, process: subprocess.Popen[str], number: signal.Signals, whole: bool = False) -> None:
        figures.current.add(figures.PLANNED)
        assert process.poll() is None, ended(process)
        send(process, number, whole)
        figures.current.add(figures.FIRED)
        figures.current.add(f"cold: {number.name}s at random times")

    def _has_committed(self, process: subprocess.Popen[str]) -> bool:
        assert process.poll() is None, ended(process)
        status = self.stream.calve.status("events")
        return status.get("pid") == process.pid and status["batches"] > 0

    def _goes_on(self, process: subprocess.Popen[str]) -> None:
        self.stream.produce(ROWS)
        self.stream.wait_until_read(process)
        process.send_signal(signal.SIGTERM)
        self._expect(process, 0)

    def _expect(self, process: subprocess.Popen[str], *codes: int) -> None:
        code, said = ended(process)
        assert code in codes, (code, said)

    def _table(self) -> Table:
        table = self.stream.load()
        assert table is not None
        return table


def recoveries(snapshots: list[Snapshot], killed: list[float]) -> list[float]:
    """The seconds from each kill to the first commit of rows by the next life, unless that was killed before.

    What the JVM of a killed process still finishes comes before the next life's fence and does not count.
    """
    found = []
    for kill, following in pairwise([*killed, inf]):
        later = [one for one in snapshots if kill < one.timestamp_ms / 1000 < following]
        behind_fence = later[next((i for i, one in enumerate(later) if not _rows(one)), len(later)) :]
        found += [one.timestamp_ms / 1000 - kill for one in behind_fence if _rows(one)][:1]
    return found


def _rows(snapshot: Snapshot) -> int:
    return int(snapshot.summary.additional_properties.get("added-records", 0)) if snapshot.summary else 0
