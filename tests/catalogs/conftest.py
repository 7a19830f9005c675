"""The servers, and a place in them for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from calve import crash
from calve.testing.catalog import FaultyCatalog
from tests.catalogs.lab import Lab, opened
from tests.catalogs.places import PLACES, Place, address, through
from tests.servers.park import Park

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def no_plan() -> Iterator[None]:
    yield
    crash.load(())


@pytest.fixture(scope="session")
def park(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Park]:
    """The servers that a test may ask for; they run until the last test has ended."""
    park = Park(tmp_path_factory.mktemp("park"))
    yield park
    park.close()


@pytest.fixture(scope="module")
def lab(place: Place, park: Park, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The place of the test; the servers of the one that comes next are started meanwhile."""
    following = PLACES[PLACES.index(place) + 1 :][:1]
    park.begin(place.needs)
    park.begin(need for one in following if not one.full for need in one.needs)
    keys = place.declared(park, tmp_path_factory.mktemp("place"))
    return Lab(place, keys, spark, opened(spark, keys))


@pytest.fixture(scope="module")
def faulty(lab: Lab) -> Iterator[FaultyCatalog]:
    """A proxy in front of the place's catalog; a test that has one is run in places that speak REST."""
    with FaultyCatalog(address(lab.keys)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def behind(lab: Lab, faulty: FaultyCatalog) -> Lab:
    """The same place, behind the proxy."""
    keys = through(lab.keys, faulty.uri)
    return Lab(lab.place, keys, lab.spark, opened(lab.spark, keys))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that has a place is run in all of them."""
    if "place" not in metafunc.fixturenames:
        return
    fitting = [place for place in PLACES if place.is_rest or "faulty" not in metafunc.fixturenames]
    marks = {place: [pytest.mark.full] if place.full else [] for place in fitting}
    metafunc.parametrize(
        "place",
        [pytest.param(place, id=place.name, marks=marks[place]) for place in fitting],
        scope="module",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Place by place; what a place cannot do is expected to fail, and to pass is an error."""
    placed = [number for number, item in enumerate(items) if _place(item)]
    in_order = sorted((items[number] for number in placed), key=lambda item: PLACES.index(_place(item)))
    for number, item in zip(placed, in_order, strict=True):
        items[number] = item
        kind = item.callspec.params.get("kind")
        reason = _place(item).reason(item.originalname, kind and kind.name)
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _place(item: Any) -> Any:
    found = item.callspec.params.get("place") if hasattr(item, "callspec") else None
    return found if isinstance(found, Place) else None
