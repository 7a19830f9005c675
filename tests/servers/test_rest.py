"""The REST catalog of the tests does what the tests rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.rest import RestCatalog as Client
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

if TYPE_CHECKING:
    from tests.servers.rest import RestCatalog


def test_it_tells_its_configuration(rest_catalog: RestCatalog) -> None:
    assert rest_catalog.get("/v1/config")["defaults"] == {}


def test_a_namespace_survives_a_restart(rest_catalog: RestCatalog) -> None:
    rest_catalog.post("/v1/namespaces", {"namespace": ["kept"], "properties": {"owner": "tests"}})
    rest_catalog.stop()
    assert not rest_catalog.is_ready()
    rest_catalog.start()
    assert rest_catalog.get("/v1/namespaces/kept")["properties"]["owner"] == "tests"


def test_a_client_creates_a_table_in_the_warehouse(rest_catalog: RestCatalog) -> None:
    client = Client("rest", uri=rest_catalog.uri)
    client.create_namespace("client")
    table = client.create_table("client.orders", Schema(NestedField(1, "id", LongType(), required=True)))
    assert table.location().startswith(rest_catalog.warehouse.as_uri())
    assert client.load_table("client.orders").metadata.table_uuid == table.metadata.table_uuid
