"""A catalog that would lead us astray is refused with a clear line, and nobody else gets our credentials."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from calve.errors import CalveError, DeclarationError
from calve.runtime.check import check_sink
from calve.sources.datagen import DatagenSource
from calve.testing import ledger
from calve.testing.wire import Answer, Request, header, without
from tests.catalogs.lab import Lab, opened
from tests.catalogs.places import Place
from tests.faults.kinds import BATCH
from tests.servers.gates import Gate, as_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from calve.sink.declaration import IcebergSink
    from tests.servers.park import Park

pytestmark = pytest.mark.spark

TOKEN = "a-token-that-is-for-nobody-else"
MEGABYTES = 100

Ask = Callable[[], Answer]
Twist = Callable[[Request, Ask], Answer]


class HostileCatalog(Gate):
    """A proxy in front of a real catalog that changes its answers, or never asks it."""

    twist: Twist | None = None

    def respond(self, request: Request) -> Answer:
        plain = Request(
            request.method, request.path, without(request.headers, "accept-encoding"), request.body
        )
        return self.ask(plain) if self.twist is None else self.twist(request, lambda: self.ask(plain))


@pytest.fixture(scope="module")
def thief() -> Iterator[Gate]:
    """Another host, which must not be told anything."""
    with Gate() as gate:
        yield gate


@pytest.fixture(scope="module")
def hostile(park: Park) -> Iterator[HostileCatalog]:
    with HostileCatalog(park["rest"].uri) as gate:
        yield gate


@pytest.fixture
def lab(spark: SparkSession, hostile: HostileCatalog, thief: Gate, park: Park) -> Lab:
    """A catalog of which only the declared address and the warehouse are known, and that is honest so far."""
    hostile.twist = None
    thief.seen.clear()
    rest = {"uri": hostile.uri, "credential": TOKEN, "warehouse": park["rest"].warehouse.as_uri()}
    keys = {"catalog": {"type": "rest", "rest": rest}}
    return Lab(Place("hostile", lambda park, folder: keys), keys, spark, opened(spark, keys))


def elsewhere(thief: Gate) -> str:
    """The thief's address: the same machine, but not the host that was declared."""
    return thief.uri.replace("127.0.0.1", "localhost")


def at(point: str, change: Callable[[Ask, str], Answer]) -> Callable[[str], Twist]:
    """Changes the answers to one kind of request, with the address of the thief."""

    def made(address: str) -> Twist:
        def twist(request: Request, ask: Ask) -> Answer:
            return change(ask, address) if ledger.point(request) == point else ask()

        return twist

    return made


def redirect(status: int) -> Callable[[Ask, str], Answer]:
    return lambda ask, address: Answer(status, (("Location", f"{address}/v1/config"),))


def settings(**sent: str) -> Callable[[Ask, str], Answer]:
    """What the catalog wants its clients to be set to."""
    told = {name.replace("__", ".").replace("_", "-"): value for name, value in sent.items()}

    def change(ask: Ask, address: str) -> Answer:
        return as_json({"defaults": {}, "overrides": _filled(told, address)})

    return change


def beside_the_table(**sent: str) -> Callable[[Ask, str], Answer]:
    """Settings that come with a table."""
    told = {name.replace("__", ".").replace("_", "-"): value for name, value in sent.items()}
    return lambda ask, address: _changed(ask(), lambda found: found.update(config=_filled(told, address)))


def metadata(change: Callable[[dict[str, Any]], None]) -> Callable[[Ask, str], Answer]:
    return lambda ask, address: _changed(ask(), lambda found: change(found["metadata"]))


def _filled(told: dict[str, str], address: str) -> dict[str, str]:
    return {name: value.format(thief=address) for name, value in told.items()}


def _changed(answer: Answer, change: Callable[[dict[str, Any]], None]) -> Answer:
    if answer.status != 200:
        return answer
    found = ledger.body(answer)
    change(found)
    return as_json(found)


def large(ask: Ask, address: str) -> Answer:
    """JSON without end."""
    filling = "x" * 2**20
    text = json.dumps({"defaults": {}, "overrides": {f"p{n}": filling for n in range(MEGABYTES)}})
    return Answer(200, (("Content-Type", "application/json"),), text.encode())


@dataclass(frozen=True)
class Case:
    """What the catalog does, and what the refusal speaks of."""

    twist: Callable[[str], Twist]
    says: str
    codes: tuple[int, ...] = (77, 78)


CASES = {
    **{
        f"config: {status} to another host": Case(
            at("catalog.config", redirect(status)), "sends us|redirect|30"
        )
        for status in (301, 302, 307, 308)
    },
    **{
        # Nobody knows what became of a request that is not answered; it is tried again for a while.
        f"{what}: {status} to another host": Case(
            at(f"catalog.{what}", redirect(status)), "sends us|redirect|30", (69, 75, 77, 78)
        )
        for what in ("load", "commit")
        for status in (302, 307)
    },
    "another address of the catalog": Case(at("catalog.config", settings(uri="{thief}")), "'uri'"),
    "another address for tokens": Case(
        at("catalog.config", settings(oauth2_server_uri="{thief}/tokens")), "'oauth2-server-uri'"
    ),
    "an address without a scheme": Case(at("catalog.config", settings(uri="//evil.test/catalog")), "'uri'"),
    "another signer": Case(at("catalog.config", settings(s3__signer__uri="{thief}")), "signer"),
    "a proxy": Case(at("catalog.config", settings(rest__client__proxy__hostname="localhost")), "proxy"),
    "code that authenticates": Case(
        at("catalog.config", settings(rest__auth__type="com.evil.Manager")), "rest.auth.type"
    ),
    "code that reads files": Case(at("catalog.config", settings(io_impl="com.evil.FileIO")), "io-impl"),
    "machine credentials": Case(
        at("catalog.config", settings(oauth2_server_uri="http://169.254.169.254/latest")), "cloud|169.254"
    ),
    "a table's own place for credentials": Case(
        at("catalog.load", beside_the_table(client__refresh_credentials_endpoint="{thief}/keys")),
        "refresh-credentials-endpoint",
    ),
    "a table's own code": Case(at("catalog.load", beside_the_table(io_impl="com.evil.FileIO")), "io-impl"),
    "a location outside of the warehouse": Case(
        at("catalog.load", metadata(lambda found: found.update(location="file:///etc/calve"))),
        "file:///etc/calve",
    ),
    "a location that climbs out": Case(
        at(
            "catalog.load",
            metadata(lambda found: found.update(location=found["location"] + "/../../../../etc")),
        ),
        r"\.\.|outside",
    ),
    **{
        f"{name} outside of the warehouse": Case(
            at(
                "catalog.load",
                metadata(lambda found, name=name: found["properties"].update({name: "file:///etc/calve"})),
            ),
            name,
        )
        for name in ("write.data.path", "write.metadata.path")
    },
    f"{MEGABYTES} MB of JSON": Case(at("catalog.config", large), "MiB|too large|more than"),
}


def in_batches(lab: Lab) -> IcebergSink:
    return lab.sink(batch_size=1, max_batch_size=BATCH, retry_for="2s")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_it_does_is_refused_with_a_line_that_names_it(
    lab: Lab, hostile: HostileCatalog, thief: Gate, case: Case
) -> None:
    sink = in_batches(lab)
    lab.run(sink, DatagenSource(rows=BATCH))
    hostile.twist = case.twist(elsewhere(thief))
    with pytest.raises(CalveError) as caught:
        lab.run(sink, DatagenSource(rows=2 * BATCH))
    line = str(caught.value)
    assert caught.value.exit_code in case.codes, line
    assert re.search(case.says, line), line
    assert "\n" not in line
    assert len(line) < 1000
    assert TOKEN not in line
    assert [request.path for request, _ in thief.seen] == [], "somebody else was asked"
    hostile.twist = None
    assert lab.rows(lab.table(sink), "id") == list(range(1, BATCH + 1))


@pytest.mark.full
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_check_tells_the_same_or_finds_nothing_of_it_and_nobody_else_is_told(
    lab: Lab, hostile: HostileCatalog, thief: Gate, case: Case
) -> None:
    sink = in_batches(lab)
    hostile.twist = case.twist(elsewhere(thief))
    found = check_sink(lab.spark, "lake", sink)
    hostile.twist = None
    if found.error is not None:
        assert found.error.exit_code in case.codes, found.error
        assert found.advice
    assert TOKEN not in repr(found)
    assert [request.path for request, _ in thief.seen] == [], "somebody else was asked"


def test_the_token_goes_to_the_declared_host_and_only_there(lab: Lab, hostile: HostileCatalog) -> None:
    hostile.seen.clear()
    lab.run(in_batches(lab), DatagenSource(rows=BATCH))
    assert hostile.seen
    assert {header(request, "authorization") for request, _ in hostile.seen} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("name", ["${env:HOME}", "*", "a'b", "..", "a/../b", "a`b"])
@pytest.mark.parametrize("key", ["namespace", "table"])
def test_a_name_that_is_more_than_a_name_is_refused(lab: Lab, key: str, name: str) -> None:
    with pytest.raises((DeclarationError, ValueError), match="name"):
        lab.sink(**{key: name})


def test_a_variable_in_a_name_that_the_catalog_tells_is_not_replaced(
    lab: Lab, hostile: HostileCatalog
) -> None:
    home = os.environ["HOME"]
    table = lab.created("id BIGINT, `${env:HOME}` STRING")
    frame = lab.lake.spark.sql(f"SELECT *, '${{env:HOME}}' AS text FROM {table.name.sql()}")
    assert frame.columns == ["id", "${env:HOME}", "text"]
    assert lab.lake.spark.sql("SELECT '${env:HOME}' AS text").head().text == "${env:HOME}"

    def named(request: Request, ask: Ask) -> Answer:
        if request.method == "GET" and request.path.partition("?")[0].endswith("/namespaces"):
            return as_json({"namespaces": [["${env:HOME}"], ["x'; DROP TABLE t"]]})
        return ask()

    hostile.twist = named
    found = check_sink(lab.spark, "lake", in_batches(lab))
    hostile.twist = None
    assert home not in repr(found)
