"""Rounds of everything that draws from a seed, each with another one, until the time is over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from random import SystemRandom

from tests.faults.conftest import KEPT
from tests.faults.figures import LIVES, SEED, UNTIL, Figures

DRAWN = "(at_random or histories) and not mutant"
COUNT = 16
"""How many lives a random chain has; `make faults` has half of them."""


def main(minutes: float, *more: str) -> int:
    """Run rounds for so many minutes, at least one; 1 if one of them failed."""
    until, total, rounds = time.time() + 60 * minutes, Figures(), 0
    while rounds == 0 or time.time() < until:
        rounds += 1
        chosen = {SEED: str(SystemRandom().randrange(10**9)), LIVES: str(COUNT)}
        print(f"round {rounds}:", *_pairs(chosen), flush=True)
        if _fails({**chosen, UNTIL: str(until)}, more):
            print("failed; again with:", *_pairs(chosen), "make faults", flush=True)
            return 1
        total.take(json.loads(KEPT.read_text()))
    print(f"{rounds} rounds without a failure", *total.lines(), sep="\n")
    return 0


def _fails(settings: dict[str, str], more: tuple[str, ...]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "tests/faults", "-k", DRAWN, *more]
    return subprocess.run(command, env={**os.environ, **settings}).returncode != 0


def _pairs(settings: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *sys.argv[2:]))
