"""A catalog that answers wrongly, with its tables in an S3 store: still every row is there once."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.rest import RestCatalog

from calve import crash
from calve.catalogs import Catalog
from calve.crash import Crash, Fault
from calve.testing.catalog import FaultyCatalog
from calve.testing.faults import CatalogFault
from tests.faults.cycle import Cycle
from tests.faults.kinds import KINDS
from tests.lake import Lake
from tests.servers.rest import RestCatalogOnS3
from tests.servers.seaweed import SeaweedStore

pytestmark = [pytest.mark.spark, pytest.mark.rest]

ANSWERS = (
    *("fail_500", "fail_503", "reset", "conflict"),
    *(
        "apply_500",
        "apply_502",
        "apply_503",
        "apply_504",
        "apply_reset",
        "conflict_landed",
        "cut_json",
        "late",
    ),
    "lie",
)


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = SeaweedStore(tmp_path_factory.mktemp("store"))
    store.start()
    yield store
    store.remove()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory, store):
    catalog = RestCatalogOnS3(tmp_path_factory.mktemp("catalog"), store)
    catalog.start()
    yield catalog
    catalog.remove()


@pytest.fixture(scope="module")
def faulty(catalog):
    with FaultyCatalog(catalog.uri) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def lake(spark, faulty, store):
    keys = {"uri": faulty.uri, "properties": store.file_io}
    return Lake.open(spark, Catalog.model_validate({"type": "rest", "rest": keys}))


@pytest.fixture
def cycle(lake, faulty, catalog, store):
    keys = {key: value for key, value in store.file_io.items() if key != "io-impl"}
    return Cycle(lake, faulty, RestCatalog("rest", uri=catalog.uri, **keys))


@pytest.mark.parametrize("action", ANSWERS)
def test_a_wrong_answer_to_a_commit_loses_and_doubles_nothing(cycle, action):
    cycle.run(CatalogFault("catalog.commit", 2, action))
    assert cycle.table().location().startswith("s3://")
    cycle.check()


def test_a_crash_after_the_swap_and_a_lost_answer_lose_and_double_nothing(cycle):
    crash.load((Fault("commit.swapped", nth=2),))
    with pytest.raises(Crash):
        cycle.run()
    crash.load(())
    cycle.run(CatalogFault("catalog.commit", 1, "apply_504"))
    cycle.check()


@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind.name)
def test_an_upsert_and_a_lost_answer_bring_nothing_back(cycle, kind):
    cycle.kind = kind
    cycle.run(CatalogFault("catalog.commit", 3, "apply_504"))
    assert cycle.table().location().startswith("s3://")
    cycle.check()
