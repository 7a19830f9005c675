"""Wall time, CPU time and memory of the whole process tree."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
