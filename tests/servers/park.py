"""All servers of the tests by name; each starts when it is first asked for, or ahead of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.servers.azurite import AzureStore
from tests.servers.gcs import GcsStore
from tests.servers.hive import HiveMetastore
from tests.servers.mariadb import MariaDb
from tests.servers.ministack import Ministack
from tests.servers.nessie import Nessie
from tests.servers.postgres import Postgres
from tests.servers.process import Server
from tests.servers.rest import RestCatalog, RestCatalogOnS3
from tests.servers.seaweed import SeaweedCatalog
from tests.servers.trino import Trino
from tests.servers.versity import VersityStore

AT_ONCE = 2
"""How many servers start side by side; the machine may be a small one."""

MADE: dict[str, tuple[Callable[..., Server], tuple[str, ...]]] = {
    "azure": (AzureStore, ()),
    "gcs": (GcsStore, ()),
    "hive": (HiveMetastore, ()),
    "mariadb": (MariaDb, ()),
    "ministack": (Ministack, ()),
    "nessie": (Nessie, ("seaweed",)),
    "postgres": (Postgres, ()),
    "rest": (RestCatalog, ()),
    "rest_on_ministack": (RestCatalogOnS3, ("ministack",)),
    "rest_on_s3": (RestCatalogOnS3, ("seaweed",)),
    "rest_on_versity": (RestCatalogOnS3, ("versity",)),
    "seaweed": (SeaweedCatalog, ()),
    "trino": (lambda folder, rest: Trino(folder, connector(rest)), ("rest_on_s3",)),
    "versity": (VersityStore, ()),
}
"""How each server is made, and the servers that it needs itself."""


def connector(rest: RestCatalogOnS3) -> dict[str, str]:
    """The properties by which Trino reads the tables of a REST catalog."""
    keys = rest.store.file_io
    return {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": rest.uri,
        "fs.native-s3.enabled": "true",
        "s3.endpoint": keys["s3.endpoint"],
        "s3.path-style-access": "true",
        "s3.region": keys["client.region"],
        "s3.aws-access-key": keys["s3.access-key-id"],
        "s3.aws-secret-key": keys["s3.secret-access-key"],
    }


class Park:
    """Servers that run until the park is closed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._starting: dict[str, Future[Server]] = {}
        self._threads = ThreadPoolExecutor(AT_ONCE)

    def __getitem__(self, name: str) -> Any:
        """The server, started; what kept it from starting, a skip included, is raised here."""
        self.begin([name])
        return self._starting[name].result()

    def begin(self, names: Iterable[str]) -> None:
        """Start servers and do not wait for them; those that they need come before them."""
        for name in names:
            if name not in self._starting:
                self.begin(MADE[name][1])
                self._starting[name] = self._threads.submit(self._start, name)

    def _start(self, name: str) -> Server:
        make, needs = MADE[name]
        server = make(self._folder / name, *(self._starting[need].result() for need in needs))
        server.start()
        return server

    def close(self) -> None:
        """End every server, the last one first."""
        self._threads.shutdown()
        for starting in reversed(self._starting.values()):
            if starting.exception() is None:
                starting.result().remove()
