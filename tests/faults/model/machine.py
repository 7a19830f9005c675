"""The state machine: Hypothesis chooses what happens, the world does it, the truth judges every step."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from time import perf_counter

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.faults.model.catalog import ANSWERS
from tests.faults.model.world import PLACES, Event, World

SEED = "CALVE_FAULT_SEED"
"""The environment variable with a seed of one's own; without it every run is the same."""

FAULTS = tuple(answer for answer in ANSWERS if answer != "fine")
AMIDST = tuple(place for place in PLACES if place.startswith(("commit", "sleep")))
AT_START = tuple(place for place in PLACES if not place.startswith("commit"))


GENTLE = ("append", "compact", "expire", "start other", "arrive", "edit", "go dark", "go stale")
ROUGH = (
    *("roll back", "replace", "remove mark", "break mark", "move mark", "put mark back", "recreate"),
    "restore",
)


@dataclass(frozen=True)
class Profile:
    """What a search draws from; a narrow one finds a certain kind of trouble sooner."""

    deeds: Sequence[str] = (*GENTLE * 6, *ROUGH)
    amidst: Sequence[str] = (*GENTLE * 4, *("crash", "start other", "commit other") * 7, *ROUGH)
    answers: Sequence[str] = ("fine", *FAULTS)
    styles: Sequence[str] = ("rest", "metadata")
    branches: Sequence[str] = ("main", "main", "audit")
    keeps_properties: Sequence[bool] = (*[True] * 15, False)
    sources: Sequence[str] = (*"sssss", "t")
    repairs: bool = True

    def plans(self) -> list[tuple[str, ...]]:
        """How the catalog may answer the swaps of one action: planned for up to three of them."""
        draw = Random(1)
        some = [tuple(draw.choices(self.answers, k=draw.choice((1, 1, 2, 2, 3)))) for _ in range(100)]
        return [()] * 50 + some

    def scripts(self, places: Sequence[str]) -> list[tuple[Event, ...]]:
        """What may happen amidst one action."""
        draw = Random(2)

        def event() -> Event:
            return draw.choice(places), draw.choice(self.amidst), draw.randrange(8)

        return [()] * 150 + [tuple(event() for _ in range(draw.choice((1, 1, 2, 3)))) for _ in range(600)]


@dataclass
class Figures:
    """What a search did."""

    examples: int = 0
    steps: int = 0
    seconds: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        speed = self.steps / self.seconds if self.seconds else 0
        return f"{self.examples} examples, {self.steps} steps, {speed:.0f} steps/s, {self.seconds:.1f} s"


def machine(profile: Profile, figures: Figures) -> type[RuleBasedStateMachine]:
    """The state machine that draws from `profile`."""
    writers = st.integers(0, 2)
    numbers = st.integers(0, 7)
    plans = st.sampled_from(profile.plans())
    at_start = st.sampled_from(profile.scripts(AT_START))
    in_commit = st.sampled_from(profile.scripts(AMIDST))

    class Protocol(RuleBasedStateMachine):
        world: World | None = None

        @initialize(
            style=st.sampled_from(profile.styles),
            branch=st.sampled_from(profile.branches),
            keeps=st.sampled_from(profile.keeps_properties),
        )
        def begin(self, style: str, branch: str, keeps: bool) -> None:
            self.world = World(style, branch, keeps)
            figures.examples += 1

        @rule(writer=writers, source=st.sampled_from(profile.sources), answers=plans, events=at_start)
        def start(self, writer, source, answers, events):
            self.world.start(writer, source, answers, events)

        @rule(writer=writers, size=st.integers(1, 4))
        def prepare(self, writer, size):
            self.world.prepare(writer, size)

        @rule(writer=writers, answers=plans, events=in_commit)
        def commit(self, writer, answers, events):
            self.world.commit(writer, answers, events)

        @rule(writer=writers, size=st.integers(1, 4), answers=plans, events=in_commit)
        def batch(self, writer, size, answers, events):
            self.world.batch(writer, size, answers, events)

        @rule(deed=st.sampled_from(profile.deeds), number=numbers)
        def meanwhile(self, deed, number):
            self.world.do(deed, number)

        if profile.repairs:

            @rule(restart=st.booleans(), answers=plans, events=at_start)
            def repair(self, restart, answers, events):
                self.world.repair(restart, answers, events)

            @rule(kind=st.sampled_from(("renamed", "accept source", "stop")), writer=writers)
            def rarely(self, kind, writer):
                if kind == "stop":
                    self.world.stop(writer)
                elif kind == "renamed":
                    self.world.start_renamed()
                else:
                    self.world.accept_source("st"[writer % 2])

        @invariant()
        def holds(self):
            figures.steps += 1
            if self.world:
                self.world.check()

        def teardown(self):
            if self.world:
                figures.fired += self.world.fired + self.world.catalog.fired
                self.world.close()

    return Protocol


def search(profile: Profile, examples: int, steps: int, *, shrink: bool = True) -> Figures:
    """Search for a broken invariant; raises InvariantBroken, for the shortest history if `shrink`."""
    figures = Figures()
    given = os.environ.get(SEED)
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=given is None,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=Verbosity.normal if shrink else Verbosity.quiet,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    found = machine(profile, figures)
    begun = perf_counter()
    run_state_machine_as_test(seed(int(given))(found) if given else found, settings=chosen)
    figures.seconds = perf_counter() - begun
    return figures
