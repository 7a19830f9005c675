"""Fixtures that many tests share; a server starts when a test first asks for it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.lake import Lake
    from tests.servers.apicurio import Apicurio
    from tests.servers.connect import Connect
    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Postgres
    from tests.servers.rest import RestCatalog

settings.register_profile("calve", deadline=None)
settings.load_profile("calve")
os.environ.setdefault("CALVE_JARS", str(Path(__file__).parents[1] / ".cache" / "jars"))


AMAZON = {
    "AWS_ACCESS_KEY_ID": "of-the-environment",
    "AWS_SECRET_ACCESS_KEY": "of-the-environment",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What Amazon's SDK finds when nothing else is declared; no store of the tests but ministack takes it."""

NO_SKIPS = "CALVE_NO_SKIPS"
"""Set, a test that is skipped because its server cannot be had fails."""


@pytest.fixture(autouse=True)
def own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is secret in one test is a word like any other in the next."""
    from calve import redaction

    monkeypatch.setattr(redaction, "_register", redaction.Register())


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker for tests marked `kafka`; each uses topics of its own and starts it again if it stopped it."""
    from tests.servers.kafka import KafkaBroker

    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.remove()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A database for tests marked `postgres`; each uses tables of its own."""
    from tests.servers.postgres import Postgres

    database = Postgres(tmp_path_factory.mktemp("postgres"))
    database.start()
    yield database
    database.remove()


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory, kafka: KafkaBroker) -> Iterator[Connect]:
    """Kafka Connect with Debezium; each test uses connectors of its own."""
    from tests.servers.connect import Connect

    worker = Connect(tmp_path_factory.mktemp("connect"), kafka)
    worker.start()
    yield worker
    worker.remove()


@pytest.fixture(scope="session")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    """A schema registry for tests marked `registry`; each uses subjects of its own."""
    from tests.servers.apicurio import Apicurio

    registry = Apicurio(tmp_path_factory.mktemp("apicurio"))
    registry.start()
    yield registry
    registry.remove()


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """A catalog for tests marked `rest`; each uses namespaces of its own."""
    from tests.servers.rest import RestCatalog

    catalog = RestCatalog(tmp_path_factory.mktemp("rest"))
    catalog.start()
    yield catalog
    catalog.remove()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for all tests, with every jar; tests branch sessions off it."""
    from calve.project import SparkSettings
    from calve.runtime import jars, session

    log = tmp_path_factory.mktemp("spark") / "spark.log"
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    settings = SparkSettings(master="local[2]", driver_memory="2g", config=quick)
    with pytest.MonkeyPatch.context() as patch:
        # Coverage in every Python worker costs more than the tests; what runs there has tests of its own.
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        for name, value in AMAZON.items():
            patch.setenv(name, value)
        components = {component for jar in jars.load() for component in jar.components}
        running = session.start(settings, sorted(components - {"core"}), log)
    yield running
    running.stop()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """A catalog of its own for one test."""
    from tests.lake import Lake

    return Lake.memory(spark, tmp_path / "warehouse")


NEEDS = {
    "apicurio": "registry",
    "kafka": "kafka",
    "park": "server",
    "postgres": "postgres",
    "rest_catalog": "rest",
    "secured": "kafka",
    "spark": "spark",
    "lake": "spark",
}
"""Fixtures, and the markers of the tests that use them."""


def mark_full(items: list[pytest.Item]) -> None:
    """Of a test marked `one_in(n)`, one case in n stays in `make test`, each in another row and column."""
    seen: Counter[str] = Counter()
    for item in items:
        if (mark := item.get_closest_marker("one_in")) is not None:
            function = item.nodeid.partition("[")[0]
            number, step = seen[function], mark.args[0]
            seen[function] += 1
            if (number + number // step) % step:
                item.add_marker("full")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses a server, so that none slips into the fast ones; and the full counts."""
    mark_full(items)
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in NEEDS:
                item.add_marker(NEEDS[fixture])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail what is skipped where everything is to be run; an expected failure is not skipped."""
    report = yield
    if os.environ.get(NO_SKIPS) and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{reason}; with {NO_SKIPS} nothing may be skipped"
    return report
