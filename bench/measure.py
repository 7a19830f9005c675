"""Wall time, CPU time and memory of the whole process tree: of this process, or of a command."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil


@dataclass
class Timing:
    """What the runs of one variant took."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median_wall(self) -> float:
        return statistics.median(self.wall)

    @property
    def median_cpu(self) -> float:
        return statistics.median(self.cpu)


def in_turn(variants: Mapping[str, Callable[[int], object]], rounds: int, warm: int = 1) -> dict[str, Timing]:
    """Run the variants one after the other, `rounds` times, so that noise hits them alike."""
    timings = {name: Timing() for name in variants}
    for number in range(warm + rounds):
        for name, run in variants.items():
            wall, cpu = time.perf_counter(), tree_cpu()
            run(number)
            if number >= warm:
                timings[name].wall.append(time.perf_counter() - wall)
                timings[name].cpu.append(tree_cpu() - cpu)
    return timings


def tree() -> list[psutil.Process]:
    """This process and all that it started."""
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def tree_cpu() -> float:
    """The CPU seconds of the process tree so far."""
    return sum(_cpu(process) for process in tree())


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


class PeakMemory:
    """The largest resident memory of the process tree, sampled."""

    def __init__(self) -> None:
        self.bytes = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._end.wait(0.2):
            self.bytes = max(self.bytes, sum(_rss(process) for process in tree()))


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


@dataclass(frozen=True)
class Sample:
    """How far a command was at a moment: seconds since its start, CPU-seconds, rows that are visible."""

    wall: float
    cpu: float
    rows: int


@dataclass
class Watched:
    """What a command took, with everything that it started."""

    wall: float = 0.0
    cpu: float = 0.0
    peak: int = 0
    code: int | None = None
    """How it ended; None where it was ended because it was done, or out of time."""
    in_time: bool = True
    gave_up: bool = False
    """Whether it was ended because it said that it does not go on."""
    began: float = 0.0
    """When it was started, as clocks tell."""
    samples: list[Sample] = field(default_factory=list)
    """One for each time that more rows were visible."""

    def visible(self, rows: int) -> Sample | None:
        """The first moment at which so many rows were visible."""
        return next((one for one in self.samples if one.rows >= rows), None)

    def steady(self, after: int, by_the_clock: bool = False) -> Sample | None:
        """What came after the first `after` rows: seconds, CPU-seconds and rows; None if that is nothing.

        The last commit of a command that commits `by_the_clock` waits for the clock, not for rows: it is left
        out where there are others.
        """
        begin = self.visible(after)
        later = [one for one in self.samples if begin is not None and one.rows > begin.rows]
        if begin is None or not later:
            return None
        end = later[-2] if by_the_clock and len(later) > 1 else later[-1]
        return Sample(end.wall - begin.wall, end.cpu - begin.cpu, end.rows - begin.rows)


class Family:
    """A process and its descendants: CPU-seconds also of those that have ended, as last seen."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._seen: dict[psutil.Process, float] = {}
        self.peak = 0

    def look(self) -> float:
        """The CPU-seconds so far; the memory is looked at as well."""
        resident = 0
        with suppress(psutil.Error):
            for one in [self._root, *self._root.children(recursive=True)]:
                self._seen[one] = max(self._seen.get(one, 0.0), _cpu(one))
                resident += _rss(one)
        self.peak = max(self.peak, resident)
        return sum(self._seen.values())


EVERY = 0.1


def watch(
    command: Sequence[str],
    *,
    folder: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
    rows: Callable[[], int] = lambda: 0,
    until: int | None = None,
    limit: float = 1800.0,
    given_up: str | None = None,
) -> Watched:
    """Run a command until it ends, or with `until`, until so many rows are visible; then it is ended.

    What it took is counted up to there. One that is not done after `limit` seconds, or has said `given_up`,
    is ended, and said so.
    """
    found, begun = Watched(began=time.time()), time.perf_counter()
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            env={**os.environ, **(environment or {})}, start_new_session=True,
        )  # fmt: skip
    family, done = Family(process.pid), False
    try:
        while not done:
            ended = _ended(process, EVERY)
            found.cpu, found.wall = max(found.cpu, family.look()), time.perf_counter() - begun
            _take_sample(found, rows())
            found.code = ended[0] if ended else None
            found.cpu = max(found.cpu, ended[1]) if ended else found.cpu
            found.in_time = bool(ended) or found.wall < limit
            found.gave_up = given_up is not None and given_up.encode() in log.read_bytes()
            done = bool(ended) or not found.in_time or found.gave_up
            done = done or (until is not None and bool(found.samples) and found.samples[-1].rows >= until)
    finally:
        _end(process)
    found.peak = family.peak
    return found


def _take_sample(found: Watched, rows: int) -> None:
    if rows and (not found.samples or rows > found.samples[-1].rows):
        found.samples.append(Sample(found.wall, found.cpu, rows))


def _ended(process: subprocess.Popen[bytes], seconds: float) -> tuple[int, float] | None:
    """How a process ended, and the CPU-seconds of it and of all that it waited for; None while it runs."""
    end = time.monotonic() + seconds
    while process.returncode is None and time.monotonic() < end:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        time.sleep(min(0.02, seconds))
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything in its group; ask first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        if process.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
