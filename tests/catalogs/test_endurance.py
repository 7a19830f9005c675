"""A pipeline outlives its tokens and keys, a catalog that is away and a slow store; nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calve.sources.datagen import DatagenSource
from tests.catalogs.lab import Lab, opened
from tests.catalogs.places import Keys, Place
from tests.faults.process import wait_for
from tests.servers.gates import StoreGate, TokenCatalog, Vended, VendingCatalog, meanwhile
from tests.servers.rest import RestCatalog
from tests.servers.s3 import BUCKET, REGION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from calve.sink.declaration import IcebergSink
    from tests.servers.park import Park

pytestmark = pytest.mark.spark

CREDENTIAL = "pipeline:secret-of-the-pipeline"
FULL = pytest.mark.full
PACE = 10
"""Rows in a second; a batch is about as many."""


@pytest.fixture
def lab(spark: SparkSession) -> Callable[[Keys], Lab]:
    """Makes a lab of what a test declares."""
    place = Place("of the test", lambda park, folder: {})
    return lambda keys: Lab(place, keys, spark, opened(spark, keys))


def for_seconds(seconds: int) -> DatagenSource:
    """Rows that turn up for some seconds."""
    return DatagenSource(rows=seconds * PACE, rows_per_second=PACE)


def in_batches(lab: Lab) -> IcebergSink:
    return lab.sink(batch_size=PACE, max_batch_size=PACE, retry_for="3m")


def check(lab: Lab, sink: IcebergSink, seconds: int, least: int = 2) -> None:
    """Every row is there once, from several commits."""
    table = lab.table(sink)
    assert lab.rows(table, "id") == list(range(1, seconds * PACE + 1))
    assert len(table.metadata().snapshots()) > least


@pytest.fixture
def tokens(park: Park) -> Iterator[Callable[[int], TokenCatalog]]:
    """Makes a REST catalog that wants tokens which are good for some seconds."""
    made: list[TokenCatalog] = []

    def make(seconds: int) -> TokenCatalog:
        made.append(TokenCatalog(park["rest"].uri, CREDENTIAL, seconds))
        return made[-1]

    yield make
    for one in made:
        one.close()


def with_tokens(catalog: TokenCatalog, **more: Any) -> Keys:
    asked = {"credential": CREDENTIAL, "oauth2_server_uri": f"{catalog.uri}/v1/oauth/tokens"}
    return {"catalog": {"type": "rest", "rest": {"uri": catalog.uri, **asked, **more}}}


@pytest.mark.parametrize("exchange", [True, False], ids=["exchanged", "asked for again"])
def test_tokens_that_run_out_during_a_run_are_renewed(
    lab: Callable[[Keys], Lab], tokens: Callable[[int], TokenCatalog], exchange: bool
) -> None:
    catalog = tokens(4)
    here = lab(with_tokens(catalog, token_exchange=exchange))
    sink = in_batches(here)
    here.run(sink, for_seconds(12))
    assert catalog.given >= 3
    check(here, sink, 12)


@pytest.mark.parametrize("nth", [1, 3], ids=["the fence", "a batch"])
def test_a_token_that_runs_out_between_load_and_commit_costs_an_attempt(
    lab: Callable[[Keys], Lab], tokens: Callable[[int], TokenCatalog], nth: int
) -> None:
    catalog = tokens(3600)
    here = lab(with_tokens(catalog))
    sink = in_batches(here)
    here.run(sink, for_seconds(1))
    catalog.revoke_at_commit(nth)
    here.run(sink, for_seconds(4))
    assert catalog.refused > 0
    # The token by which the table was looked at so far was taken back too.
    check(lab(with_tokens(catalog)), sink, 4)


@pytest.mark.parametrize(
    ("life", "seconds"), [(4, 12), pytest.param(120, 300, marks=FULL)], ids=["scaled", "whole"]
)
@pytest.mark.parametrize("refresh", [True, False], ids=["renewed by the client", "of a table loaded again"])
def test_credentials_that_were_vended_for_less_than_the_run_are_renewed(
    lab: Callable[[Keys], Lab], park: Park, refresh: bool, life: int, seconds: int
) -> None:
    server = park["rest_on_ministack"]
    with StoreGate(server.store.endpoint) as store:
        vended = Vended(store, life)
        with VendingCatalog(server.uri, vended, BUCKET, refresh) as catalog:
            rest = {"uri": catalog.uri, "allowed_hosts": ["127.0.0.1"]}
            here = lab({"catalog": {"type": "rest", "rest": rest}, "s3": {"region": REGION}})
            sink = in_batches(here)
            here.run(sink, for_seconds(seconds))
            check(here, sink, seconds)
        assert vended.given >= seconds // life
        used = {
            header for request, _ in store.seen for key, header in request.headers if key == "Authorization"
        }
        assert not [one for one in used if "of-the-environment" in one], "a key that nobody vended"


@pytest.fixture
def own_catalog(tmp_path: Path) -> Iterator[RestCatalog]:
    """A REST catalog that the test may stop."""
    catalog = RestCatalog(tmp_path / "catalog")
    catalog.start()
    yield catalog
    catalog.remove()


@pytest.mark.parametrize("away", [3, pytest.param(30, marks=FULL)])
def test_a_catalog_that_is_away_for_a_while_is_waited_for(
    lab: Callable[[Keys], Lab], own_catalog: RestCatalog, away: int
) -> None:
    here = lab({"catalog": {"type": "rest", "rest": {"uri": own_catalog.uri}}})
    sink = in_batches(here)

    def restart() -> None:
        wait_for(lambda: here.lake.catalog.has_table(here.name(sink)), "the table")
        wait_for(lambda: len(here.table(sink).metadata().snapshots()) > 2, "a commit")
        own_catalog.kill()
        time.sleep(away)
        own_catalog.start()

    with meanwhile(restart):
        here.run(sink, for_seconds(8 + away))
    check(here, sink, 8 + away)


@pytest.mark.parametrize(
    "times",
    # Iceberg's client tries six times and waits for almost a minute in all.
    [pytest.param(2, id="a few times"), pytest.param(8, id="more often than the client tries", marks=FULL)],
)
def test_a_store_that_says_slow_down_is_waited_for(
    lab: Callable[[Keys], Lab], park: Park, times: int
) -> None:
    server = park["rest_on_ministack"]
    with StoreGate(server.store.endpoint) as store:
        keys = {**server.store.declared, "endpoint": store.uri}
        here = lab({"catalog": {"type": "rest", "rest": {"uri": server.uri}}, "s3": keys})
        sink = in_batches(here)
        here.run(sink, for_seconds(1))
        store.slow_downs = times
        here.run(sink, for_seconds(4))
        assert store.slow_downs == 0
        check(here, sink, 4)
