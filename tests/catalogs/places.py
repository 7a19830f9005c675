"""Every catalog and store that tables are tried in: how it is declared, and what it cannot do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.servers import gcs, mariadb
from tests.servers.park import Park
from tests.servers.s3 import BUCKET, REGION

Keys = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Place:
    """A catalog with a store."""

    name: str
    declared: Callable[[Park, Path], Keys]
    """The keys of a sink, given the servers and a folder of the place's own."""
    needs: tuple[str, ...] = ()
    """The servers, by their names in the park."""
    is_rest: bool = False
    """Whether a proxy of the REST protocol can stand in front of it."""
    full: bool = False
    """Whether it is only tried by `make test-all`; of each kind one is tried by `make test`."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Tests that fail here, by name or by name and parameter, and why; one that passes is an error."""

    def reason(self, test: str, parameter: str | None = None) -> str | None:
        """Why a test fails here, if it is to."""
        return self.cannot.get(test) or (self.cannot.get(f"{test}[{parameter}]") if parameter else None)


def address(keys: Keys) -> str:
    """Where the catalog of a declaration listens, without a path."""
    parts = urlsplit(keys["catalog"]["rest"]["uri"])
    return f"{parts.scheme}://{parts.netloc}"


def through(keys: Keys, proxy: str) -> Keys:
    """The same declaration, with the address of the catalog replaced by that of a proxy in front of it.

    Where it gets its tokens stays as it was.
    """
    rest = keys["catalog"]["rest"]
    asked = {"oauth2_server_uri": f"{rest['uri']}/v1/oauth/tokens"} if "credential" in rest else {}
    replaced = {**asked, **rest, "uri": proxy + urlsplit(rest["uri"]).path}
    return {**keys, "catalog": {**keys["catalog"], "rest": replaced}}


def _rest(server: str) -> Callable[[Park, Path], Keys]:
    def keys(park: Park, folder: Path) -> Keys:
        catalog = park[server]
        store = {"s3": catalog.store.declared} if hasattr(catalog, "store") else {}
        return {"catalog": {"type": "rest", "rest": {"uri": catalog.uri}}, **store}

    return keys


def _seaweed(park: Park, folder: Path) -> Keys:
    server = park["seaweed"]
    told = {"uri": server.uri, "warehouse": server.warehouse, "credential": server.credential}
    # No key of the store: the catalog vends them, and the address of the store with them.
    return {"catalog": {"type": "rest", "rest": told}, "s3": {"region": REGION}}


def _nessie(park: Park, folder: Path) -> Keys:
    server = park["nessie"]
    catalog = {"type": "nessie", "nessie": {"uri": server.uri}, "warehouse": f"s3://{BUCKET}/native"}
    return {"catalog": catalog, "s3": server.store.declared}


def _nessie_rest(park: Park, folder: Path) -> Keys:
    server = park["nessie"]
    rest = {"uri": server.rest_uri, "warehouse": "warehouse", "allowed_hosts": ["127.0.0.1"]}
    return {"catalog": {"type": "rest", "rest": rest}, "s3": server.store.declared}


def _glue(park: Park, folder: Path) -> Keys:
    server = park["ministack"]
    told = {"region": REGION, "endpoint": server.endpoint}
    catalog = {"type": "glue", "glue": told, "warehouse": f"s3://{BUCKET}/tables"}
    return {"catalog": catalog, "s3": server.declared}


def _s3tables(park: Park, folder: Path) -> Keys:
    server = park["ministack"]
    told = {"arn": server.arn, "region": REGION, "endpoint": server.tables_uri}
    return {"catalog": {"type": "s3tables", "s3tables": told}, "s3": server.declared}


def hive(park: Park, folder: Path) -> Keys:
    """With locks, which is the default: a metastore as old as ours does not compare without them."""
    told = {"uri": park["hive"].uri, "warehouse": (folder / "hive").as_uri()}
    return {"catalog": {"type": "hive", "hive": told}}


def _jdbc(uri: str, warehouse: str, **more: Any) -> Keys:
    return {"catalog": {"type": "jdbc", "jdbc": {"uri": uri, **more}, "warehouse": warehouse}}


def _sqlite(folder: Path) -> str:
    return f"jdbc:sqlite:{folder / 'catalog.db'}?busy_timeout=30000"


def _on_sqlite(park: Park, folder: Path) -> Keys:
    return _jdbc(_sqlite(folder), str(folder / "warehouse"))


def _on_postgres(park: Park, folder: Path) -> Keys:
    place = park["postgres"].connection
    uri = f"jdbc:postgresql://{place['host']}:{place['port']}/{place['dbname']}"
    return _jdbc(uri, str(folder / "warehouse"), user=place["user"], password="not-asked-for")


def _on_mariadb(park: Park, folder: Path) -> Keys:
    keys = {"user": mariadb.USER, "password": mariadb.PASSWORD}
    return _jdbc(park["mariadb"].jdbc, str(folder / "warehouse"), **keys)


def _on_gcs(park: Park, folder: Path) -> Keys:
    store = {"project_id": gcs.PROJECT, "endpoint": park["gcs"].endpoint, "no_auth": True}
    return {**_jdbc(_sqlite(folder), f"gs://{gcs.BUCKET}/tables"), "gcs": store}


def _on_azure(park: Park, folder: Path) -> Keys:
    from tests.servers.azurite import ACCOUNT, KEY

    server = park["azure"]
    store = {"storage_account": ACCOUNT, "access_key": KEY, "endpoint": server.endpoint}
    return {**_jdbc(_sqlite(folder), server.warehouse), "azure": store}


def _hadoop(park: Park, folder: Path) -> Keys:
    return {"catalog": {"type": "hadoop", "warehouse": str(folder / "warehouse")}}


def _memory(park: Park, folder: Path) -> Keys:
    return {"catalog": {"type": "memory", "warehouse": str(folder / "warehouse")}}


_NO_PUFFIN = "SeaweedFS refuses files that end in .puffin in a table bucket"
_ONE_SNAPSHOT = "Nessie's REST side keeps one snapshot per table"
_NO_FORMAT_3 = "Nessie's REST side makes a table of format 2 when it is asked for format 3; Calve refuses it"

PLACES = (
    Place("memory", _memory),
    Place("hadoop", _hadoop),
    Place("JDBC on SQLite", _on_sqlite),
    Place("JDBC on PostgreSQL", _on_postgres, ("postgres",)),
    Place("JDBC on MariaDB", _on_mariadb, ("mariadb",), full=True),
    Place("JDBC, files in Google's store", _on_gcs, ("gcs",)),
    Place("JDBC, files in Azure's store", _on_azure, ("azure",)),
    Place("Iceberg's REST server", _rest("rest"), ("rest",), is_rest=True),
    Place(
        "SeaweedFS with OAuth2 and vended credentials",
        _seaweed,
        ("seaweed",),
        is_rest=True,
        cannot={"test_changes_leave_what_a_fold_of_them_does[position, format 3]": _NO_PUFFIN},
    ),
    Place("Iceberg's REST server on S3", _rest("rest_on_s3"), ("rest_on_s3",), is_rest=True, full=True),
    Place(
        "Iceberg's REST server on a second S3",
        _rest("rest_on_versity"),
        ("rest_on_versity",),
        is_rest=True,
        full=True,
    ),
    Place("Glue", _glue, ("ministack",)),
    Place("S3 Tables", _s3tables, ("ministack",)),
    Place("Hive", hive, ("hive",)),
    Place("Nessie", _nessie, ("nessie",)),
    Place(
        "Nessie's REST side",
        _nessie_rest,
        ("nessie",),
        is_rest=True,
        full=True,
        cannot={
            "test_the_table_can_be_read_as_it_was": _ONE_SNAPSHOT,
            "test_rows_are_appended_once_and_every_commit_is_a_snapshot": _ONE_SNAPSHOT,
            "test_changes_leave_what_a_fold_of_them_does[position, format 3]": _NO_FORMAT_3,
            "test_a_lost_answer_to_a_commit_loses_and_doubles_nothing": (
                "Nessie tells every client its own address, so that no proxy stands in front of it"
            ),
        },
    ),
)
"""Polaris is not among them: of its server nothing but two libraries is published as packages."""
