"""One JVM, many tables, and a catalog that answers wrongly: whatever it says, every row is there once."""

from __future__ import annotations

import pytest

from calve import crash
from calve.catalogs import Catalog
from calve.crash import Crash, Fault
from calve.errors import NotPermitted
from calve.testing.catalog import FaultyCatalog
from calve.testing.faults import CatalogFault
from tests.faults import evidence
from tests.faults.cycle import ROWS, Cycle
from tests.faults.kinds import BATCH, KINDS
from tests.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.rest]

BEFORE = ("fail_500", "fail_502", "fail_503", "fail_504", "hang", "reset", "conflict", "too_many")
AFTER = (
    "apply_500",
    "apply_502",
    "apply_503",
    "apply_504",
    "apply_hang",
    "apply_reset",
    "conflict_landed",
    "cut_json",
    "late",
)
WRONG = ("lie",)
AFTER_A_CRASH = ("fail_503", "apply_504", "conflict_landed")
PATIENCE_OF_THE_CLIENT = {"rest.client.socket-timeout-ms": "2000"}


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


@pytest.fixture(scope="module")
def faulty(rest_catalog):
    with FaultyCatalog(rest_catalog.uri) as catalog:
        yield catalog


@pytest.fixture(scope="module")
def warm(spark, faulty):
    keys = {"uri": faulty.uri, "properties": PATIENCE_OF_THE_CLIENT}
    return Lake.open(spark, Catalog.model_validate({"type": "rest", "rest": keys}))


@pytest.fixture
def cycle(warm, faulty, rest_catalog):
    return Cycle(warm, faulty, evidence.rest(rest_catalog.uri))


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def changing(request, warm, faulty, rest_catalog):
    """The same with a pipeline that takes rows out as well."""
    return Cycle(warm, faulty, evidence.rest(rest_catalog.uri), request.param)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("nth", [1, 3], ids=["fence", "batch"])
@pytest.mark.parametrize("action", [*BEFORE, *AFTER, *WRONG])
def test_a_wrong_answer_to_a_commit_loses_and_doubles_nothing(cycle, action, nth):
    cycle.run(CatalogFault("catalog.commit", nth, action))
    cycle.check()


@pytest.mark.full
@pytest.mark.parametrize("action", [*BEFORE, *AFTER, *WRONG])
def test_a_wrong_answer_fifty_times_loses_and_doubles_nothing(cycle, action):
    for number in range(50):
        cycle.run(CatalogFault("catalog.commit", 1 + number % 2, action), rows=BATCH * (number + 1))
    cycle.check(BATCH * 50)


@pytest.mark.parametrize("action", ["fail_503", "apply_504", "hang", "apply_reset", "conflict_landed"])
def test_a_wrong_answer_to_the_creation_of_the_table_is_asked_again(cycle, action):
    cycle.run(CatalogFault("catalog.create", 1, action))
    cycle.check()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("nth", range(1, 13))
def test_whichever_request_fails_is_made_again(cycle, nth):
    cycle.run(CatalogFault("catalog.any", nth, "fail_500"))
    cycle.check()


def test_an_old_table_that_is_served_for_a_while_costs_attempts_only(cycle):
    cycle.run()
    cycle.run(CatalogFault("catalog.load", 4, "stale", loads=3), rows=2 * ROWS)
    cycle.check(2 * ROWS)


def test_a_catalog_that_refuses_the_credentials_once_is_opened_anew(cycle):
    cycle.run(CatalogFault("catalog.commit", 2, "unauthorized"))
    cycle.check()


def test_a_catalog_that_goes_on_refusing_the_credentials_stops_the_run(cycle):
    with pytest.raises(NotPermitted) as caught:
        cycle.run(*(CatalogFault("catalog.commit", nth, "unauthorized") for nth in (2, 3)))
    assert caught.value.exit_code == 77
    cycle.run()
    cycle.check()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("point", ["fence.swapped", "stage.after", "commit.applied", "commit.swapped"])
@pytest.mark.parametrize("action", AFTER_A_CRASH)
def test_a_crash_and_a_wrong_answer_together_lose_and_double_nothing(cycle, point, action):
    crash_at(cycle, point)
    cycle.run(CatalogFault("catalog.commit", 1, action))
    cycle.check()


@pytest.mark.full
@pytest.mark.parametrize("point", crash.POINTS)
def test_a_crash_at_any_point_and_any_wrong_answer_lose_and_double_nothing(cycle, point):
    for number, action in enumerate([*BEFORE, *AFTER, *WRONG], 1):
        crash_at(cycle, point, rows=ROWS * number)
        cycle.run(CatalogFault("catalog.commit", 1 + number % 2, action), rows=ROWS * number)
    cycle.check(ROWS * number)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("action", ["fail_503", "apply_504", "conflict_landed", "late", "lie"])
def test_a_wrong_answer_to_a_commit_of_changes_brings_nothing_back(changing, action):
    changing.run(CatalogFault("catalog.commit", 3, action))
    changing.check()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("point", ["stage.after", "commit.applied", "commit.swapped"])
def test_a_crash_in_a_batch_of_changes_brings_nothing_back(changing, point):
    crash_at(changing, point, nth=2)
    changing.run(CatalogFault("catalog.commit", 2, "apply_504"))
    changing.check()


@pytest.mark.full
@pytest.mark.parametrize("point", crash.POINTS)
def test_a_crash_at_any_point_of_changes_and_a_wrong_answer_bring_nothing_back(changing, point):
    for number, action in enumerate(AFTER_A_CRASH, 1):
        crash_at(changing, point, rows=ROWS * number)
        changing.run(CatalogFault("catalog.commit", 2, action), rows=ROWS * number)
    changing.check(ROWS * number)


def crash_at(cycle, point, rows=ROWS, nth=1):
    crash.load((Fault(point, nth),))
    with pytest.raises(Crash):
        cycle.run(rows=rows)
    assert len(crash.fired()) == 1
    crash.load(())
