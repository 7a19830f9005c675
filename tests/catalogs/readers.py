"""Other engines that read through the REST catalog what Calve wrote, by the lines that the docs have."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog.rest import RestCatalog as Client

from tests import duck
from tests.servers.park import Park, connector
from tests.servers.rest import RestCatalogOnS3

os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"

PAGE = Path(__file__).parents[2] / "docs" / "catalogs.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def lines(server: RestCatalogOnS3, namespace: str = "", snapshot: int | None = None) -> dict[str, list[str]]:
    """The examples of the docs by their language, with the addresses and names of the tests."""
    text = PAGE.read_text().partition("\n## Other engines\n")[2].partition("\n## ")[0]
    keys = server.store.file_io
    told = {
        "http://localhost:8181": server.uri,
        "http://localhost:9000": keys["s3.endpoint"],
        "localhost:9000": urlsplit(keys["s3.endpoint"]).netloc,
        "the-key": keys["s3.access-key-id"],
        "the-secret": keys["s3.secret-access-key"],
        "shop.orders": f"{namespace}.t",
        "4711": str(snapshot),
    }
    for name, value in told.items():
        assert name in text, name
        text = text.replace(name, value)
    found: dict[str, list[str]] = {}
    for language, block in _BLOCK.findall(text):
        found.setdefault(language, []).append(block)
    return found


def pyiceberg_catalog(server: RestCatalogOnS3) -> Client:
    keys = {key: value for key, value in server.store.file_io.items() if key.startswith("s3.")}
    return Client("rest", uri=server.uri, **keys, **{"s3.region": "us-east-1"})


class Reader(ABC):
    """An engine; it knows nothing but the address of the catalog and the keys of the store."""

    def __init__(self, park: Park) -> None:
        self.server: RestCatalogOnS3 = park["rest_on_s3"]

    @abstractmethod
    def rows(self, namespace: str, columns: Sequence[str], snapshot: int | None) -> list[tuple[Any, ...]]:
        """The rows of the table `t` now, or as they were in a snapshot; sorted."""


class PyIceberg(Reader):
    """PyIceberg."""

    def rows(self, namespace: str, columns: Sequence[str], snapshot: int | None) -> list[tuple[Any, ...]]:
        found = _run(lines(self.server, namespace, snapshot)["python"][:1], snapshot)
        return sorted(tuple(row.values()) for row in found.select(list(columns)).to_pylist())


class Polars(Reader):
    """Polars."""

    def rows(self, namespace: str, columns: Sequence[str], snapshot: int | None) -> list[tuple[Any, ...]]:
        load, read = lines(self.server, namespace, snapshot)["python"]
        loaded = load.partition("now = ")[0]
        return sorted(_run([loaded, read], snapshot).select(columns).rows())


def _run(blocks: list[str], snapshot: int | None) -> Any:
    """What the lines of Python find; those that ask for a snapshot are left out where none is asked for."""
    names: dict[str, Any] = {}
    text = "".join(blocks)
    exec(text if snapshot is not None else text.partition("then = ")[0], names)
    return names["now" if snapshot is None else "then"]


class DuckDb(Reader):
    """DuckDB with its extension for Iceberg."""

    def __init__(self, park: Park) -> None:
        super().__init__(park)
        self._connection = duck.connect()
        for statement in lines(self.server)["sql"][0].split(";")[:2]:
            self._connection.execute(statement)

    def rows(self, namespace: str, columns: Sequence[str], snapshot: int | None) -> list[tuple[Any, ...]]:
        query = _query(lines(self.server, namespace, snapshot)["sql"][0], columns, snapshot)
        return sorted(self._connection.execute(query).fetchall())


class Trino(Reader):
    """A Trino server."""

    def __init__(self, park: Park) -> None:
        super().__init__(park)
        told = lines(self.server)["properties"][0].split()
        assert dict(line.split("=", 1) for line in told) == connector(self.server)
        self._trino = park["trino"]

    def rows(self, namespace: str, columns: Sequence[str], snapshot: int | None) -> list[tuple[Any, ...]]:
        query = _query(lines(self.server, namespace, snapshot)["sql"][1], columns, snapshot)
        return sorted(self._trino.query(query))


def _query(block: str, columns: Sequence[str], snapshot: int | None) -> str:
    """The query of a block that asks for now, or for a snapshot."""
    now, then = block.split(";")[-3:-1]
    return (now if snapshot is None else then).strip().replace("*", ", ".join(columns))
