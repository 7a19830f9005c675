"""What a catalog or store does not keep to is noticed, and named by `check`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from calve.errors import ConfigurationError
from calve.runtime.check import check_sink
from calve.sources.datagen import DatagenSource
from calve.testing import ledger
from calve.testing.wire import Answer, Request, content, without
from tests.catalogs.lab import Lab, opened
from tests.catalogs.places import PLACES, Keys, Place, hive
from tests.servers.gates import Gate

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from calve.iceberg.catalog import Catalog
    from tests.servers.park import Park

pytestmark = pytest.mark.spark


class BlindCatalog(Gate):
    """In front of a REST catalog: commits land on whatever the table is by then, without a comparison.

    The server behind compares the number of a snapshot as well, unless the snapshot has no parent.
    """

    says = "lose each other's rows"

    def respond(self, request: Request) -> Answer:
        answer = self.ask(request)
        if ledger.point(request) != "catalog.commit" or answer.status != 409:
            return answer
        asked = json.loads(content(request))
        for update in asked["updates"]:
            update.get("snapshot", {}).pop("parent-snapshot-id", None)
        body = json.dumps({**asked, "requirements": []}).encode()
        return self.ask(
            Request(request.method, request.path, without(request.headers, "content-encoding"), body)
        )


class ForgetfulCatalog(Gate):
    """In front of a REST catalog: properties of a table are taken and not kept."""

    says = "calve.sink"

    def respond(self, request: Request) -> Answer:
        if ledger.point(request) != "catalog.commit":
            return self.ask(request)
        asked = json.loads(content(request))
        kept = [one for one in asked["updates"] if one["action"] != "set-properties"]
        body = json.dumps({**asked, "updates": kept}).encode()
        return self.ask(
            Request(request.method, request.path, without(request.headers, "content-encoding"), body)
        )


def lab_of(spark: SparkSession, keys: Keys) -> Lab:
    return Lab(Place("of the test", lambda park, folder: keys), keys, spark, opened(spark, keys))


def told(found: Any) -> str:
    """All that a check says against a sink."""
    return " ".join(map(str, (found.error or "", *getattr(found, "warnings", ()), found.advice)))


@pytest.fixture(params=[BlindCatalog, ForgetfulCatalog])
def careless(request: pytest.FixtureRequest, park: Park) -> Iterator[Any]:
    with request.param(park["rest"].uri) as gate:
        yield gate


def test_check_names_a_catalog_that_does_not_compare_or_does_not_keep(
    spark: SparkSession, careless: Any
) -> None:
    lab = lab_of(spark, {"catalog": {"type": "rest", "rest": {"uri": careless.uri}}})
    found = check_sink(lab.spark, "lake", lab.sink(retry_for="2s"))
    assert careless.says in told(found)
    assert careless.uri in told(found) or careless.uri in found.what


def test_a_catalog_that_does_not_keep_the_mark_is_refused(spark: SparkSession, park: Park) -> None:
    with ForgetfulCatalog(park["rest"].uri) as careless:
        lab = lab_of(spark, {"catalog": {"type": "rest", "rest": {"uri": careless.uri}}})
        sink = lab.sink(retry_for="2s")
        with pytest.raises(ConfigurationError, match=r"calve\.sink"):
            lab.run(sink, DatagenSource(rows=5))
        assert lab.rows(lab.table(sink), "id") == []


def test_a_hadoop_catalog_in_an_object_store_is_refused(tmp_path: Path) -> None:
    from calve.sink.declaration import IcebergSink

    keys = {"type": "hadoop", "warehouse": "s3://lake/tables"}
    sink = {"catalog": keys, "s3": {"region": "us-east-1"}, "namespace": "n", "table": "t"}
    flaws = IcebergSink.model_validate(sink).flaws()
    assert any("warehouse" in flaw.path for flaw in flaws), flaws


@pytest.mark.full
def test_check_warns_of_a_metastore_without_locks(spark: SparkSession, park: Park, tmp_path: Path) -> None:
    keys = hive(park, tmp_path)
    keys["catalog"]["hive"]["lock"] = False
    found = check_sink(spark, "lake", lab_of(spark, keys).sink())
    assert found.error is None, found.steps
    assert "lock" in told(found)


@pytest.fixture
def nessie(spark: SparkSession, park: Park, tmp_path: Path) -> Lab:
    place = next(place for place in PLACES if place.name == "Nessie's REST side")
    return lab_of(spark, place.declared(park, tmp_path))


@pytest.mark.full
def test_check_tells_that_nessie_keeps_one_snapshot(nessie: Lab) -> None:
    found = check_sink(nessie.spark, "lake", nessie.sink())
    assert found.error is None, found.steps
    assert "snapshot" in told(found)


@pytest.mark.full
def test_a_table_of_format_3_that_nessie_made_one_of_format_2_is_refused(nessie: Lab) -> None:
    sink = nessie.sink(format_version=3)
    with pytest.raises(ConfigurationError, match="format version 2"):
        nessie.run(sink, DatagenSource(rows=5))
    catalog: Catalog = nessie.lake.catalog
    if catalog.has_table(nessie.name(sink)):
        assert nessie.rows(nessie.table(sink), "id") == []
