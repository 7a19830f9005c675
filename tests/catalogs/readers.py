"""Other engines that read through the REST catalog what Calve wrote."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import polars
from pyiceberg.catalog.rest import RestCatalog as Client
from pyiceberg.table import Table

from tests.servers.park import Park
from tests.servers.rest import RestCatalogOnS3

os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"


def pyiceberg_catalog(server: RestCatalogOnS3) -> Client:
    keys = {key: value for key, value in server.store.file_io.items() if key.startswith("s3.")}
    return Client("rest", uri=server.uri, **keys, **{"s3.region": "us-east-1"})


class Reader(ABC):
    """An engine; it knows nothing but the address of the catalog and the keys of the store."""

    def __init__(self, park: Park) -> None:
        self.server: RestCatalogOnS3 = park["rest_on_s3"]

    @abstractmethod
    def rows(
        self, namespace: str, table: str, columns: Sequence[str], snapshot: int | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows of a table now, or as they were in a snapshot; sorted."""

    def load(self, namespace: str, table: str) -> Table:
        return pyiceberg_catalog(self.server).load_table(f"{namespace}.{table}")


class PyIceberg(Reader):
    """PyIceberg."""

    def rows(
        self, namespace: str, table: str, columns: Sequence[str], snapshot: int | None = None
    ) -> list[tuple[Any, ...]]:
        scan = self.load(namespace, table).scan(selected_fields=tuple(columns), snapshot_id=snapshot)
        found = scan.to_arrow().select(list(columns)).to_pylist()
        return sorted(tuple(row.values()) for row in found)


class Polars(Reader):
    """Polars."""

    def rows(
        self, namespace: str, table: str, columns: Sequence[str], snapshot: int | None = None
    ) -> list[tuple[Any, ...]]:
        keys = self.server.store.file_io
        options = {
            "aws_endpoint_url": keys["s3.endpoint"],
            "aws_access_key_id": keys["s3.access-key-id"],
            "aws_secret_access_key": keys["s3.secret-access-key"],
            "aws_region": keys["client.region"],
            "aws_allow_http": "true",
        }
        loaded = self.load(namespace, table)
        found = polars.scan_iceberg(loaded, snapshot_id=snapshot, storage_options=options)
        return sorted(found.select(columns).collect().rows())


class DuckDb(Reader):
    """DuckDB with its extension for Iceberg."""

    def __init__(self, park: Park) -> None:
        super().__init__(park)
        self._connection = duckdb.connect()
        for extension in ("avro", "httpfs", "iceberg"):
            self._connection.load_extension(str(_extension(extension)))
        keys = self.server.store.file_io
        self._connection.execute(
            f"CREATE SECRET store (TYPE s3, KEY_ID '{keys['s3.access-key-id']}', "
            f"SECRET '{keys['s3.secret-access-key']}', ENDPOINT '{urlsplit(keys['s3.endpoint']).netloc}', "
            "REGION 'us-east-1', URL_STYLE 'path', USE_SSL false)"
        )
        self._connection.execute(
            f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{self.server.uri}', "
            "AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none')"
        )

    def rows(
        self, namespace: str, table: str, columns: Sequence[str], snapshot: int | None = None
    ) -> list[tuple[Any, ...]]:
        then = f" AT (VERSION => {snapshot})" if snapshot else ""
        query = f"SELECT {', '.join(columns)} FROM lake.{namespace}.{table}{then}"
        return sorted(self._connection.execute(query).fetchall())


def _extension(name: str) -> Path:
    package = find_spec(f"duckdb_extension_{name}")
    assert package is not None
    assert package.submodule_search_locations
    return next(Path(package.submodule_search_locations[0]).rglob(f"{name}.duckdb_extension"))


class Trino(Reader):
    """A Trino server."""

    def __init__(self, park: Park) -> None:
        super().__init__(park)
        self._trino = park["trino"]

    def rows(
        self, namespace: str, table: str, columns: Sequence[str], snapshot: int | None = None
    ) -> list[tuple[Any, ...]]:
        then = f" FOR VERSION AS OF {snapshot}" if snapshot else ""
        query = f"SELECT {', '.join(columns)} FROM ice.{namespace}.{table}{then}"
        return sorted(self._trino.query(query))
