"""The figures of the fault suites: each test hands over its own, the process that prints sums them up."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import figures
from tests.faults.figures import FULL, Figures
from tests.faults.stream import Inbox, Topic

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker

COUNTS = "CALVE_FAULT_COUNTS"
"""Set to `full`, a run that does less than the full counts, or fires less than was planned, fails."""
KEPT = Path(__file__).parents[2] / ".cache" / "faults" / "figures.json"


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    figures.current.clear()
    with pytest.MonkeyPatch.context() as patch:
        figures.listen(patch)
        yield
    request.node.user_properties.append(("figures", figures.current.plain()))


@pytest.fixture
def stream(kafka: KafkaBroker, tmp_path: Path) -> Iterator[Callable[..., Topic]]:
    """Makes a topic and the project that reads it."""
    made: list[Topic] = []

    def make(**options: Any) -> Topic:
        made.append(Topic(kafka, tmp_path / f"topic{len(made)}", **options))
        return made[-1]

    yield make
    for one in made:
        one.calve.end()


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    """A folder of files and the project that reads it."""
    made = Inbox(tmp_path / "project")
    yield made
    made.calve.end()


class Summary:
    """The figures of all tests, those of worker processes included."""

    def __init__(self, least: dict[str, int] | None) -> None:
        self.total = Figures()
        self.least = least

    def shortfalls(self) -> list[str]:
        return [] if self.least is None else self.total.shortfalls(self.least)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.total.add(f"passed: {Path(report.nodeid.partition('::')[0]).stem}")
        if report.when == "teardown":
            for plain in (value for name, value in report.user_properties if name == "figures"):
                self.total.take(plain)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.shortfalls() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if not self.total.counts:
            return
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps({"seed": figures.seed(), **self.total.plain()}, indent=1))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.total.counts:
            return
        terminalreporter.section(f"faults, seed {figures.seed()}")
        for line in self.total.lines():
            terminalreporter.line(line)
        for line in self.shortfalls():
            terminalreporter.line(f"too few: {line}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        least = FULL if os.environ.get(COUNTS) == "full" else None
        config.pluginmanager.register(Summary(least), "figures of the fault suites")
