"""Rounds of everything that draws from a seed, each with another one, until the time is over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from random import SystemRandom

from tests.faults.conftest import KEPT
from tests.faults.figures import LIVES, SEED, Figures

DRAWN = "random or histories"
COUNT = 16
"""How many lives a random chain has; `make faults` has half of them."""


def main(minutes: float, *more: str) -> int:
    """Run rounds for so many minutes, at least one; 1 if one of them failed."""
    until, total, rounds = time.monotonic() + 60 * minutes, Figures(), 0
    while rounds == 0 or time.monotonic() < until:
        rounds += 1
        settings = {SEED: str(SystemRandom().randrange(10**9)), LIVES: str(COUNT)}
        print(f"round {rounds}:", *_pairs(settings), flush=True)
        if _round(settings, more):
            print("failed; again with:", *_pairs(settings), "make faults", flush=True)
            return 1
        total.take(json.loads(KEPT.read_text()))
    print(f"{rounds} rounds without a failure", *total.lines(), sep="\n")
    return 0


def _round(settings: dict[str, str], more: tuple[str, ...]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "tests/faults", "-k", f"({DRAWN}) and not mutant", *more]
    return subprocess.run(command, env={**os.environ, **settings}).returncode


def _pairs(settings: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *sys.argv[2:]))
