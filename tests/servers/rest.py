"""Iceberg's reference REST catalog on the loopback interface, with SQLite behind it."""

import json
import urllib.error
import urllib.request
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.servers.process import Server, class_path, free_port
from tests.servers.s3 import BUCKET, S3Server

LAUNCHER = Path(__file__).with_name("RestServer.java")
_JVM = [
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]


class RestCatalog(Server):
    """A REST catalog."""

    component = "rest"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.warehouse = folder / "warehouse"

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def class_path(self) -> str:
        return class_path(self.component)

    def command(self) -> list[str]:
        properties = [
            "catalog-impl=org.apache.iceberg.jdbc.JdbcCatalog",
            f"uri=jdbc:sqlite:{self.folder / 'catalog.db'}",
            "jdbc.schema-version=V1",
            *(f"{key}={value}" for key, value in self.storage().items()),
        ]
        return [*_JVM, "-cp", self.class_path, str(LAUNCHER), str(self.port), *properties]

    def storage(self) -> dict[str, str]:
        """The properties that say where tables are kept."""
        return {"warehouse": self.warehouse.as_uri()}

    def is_ready(self) -> bool:
        try:
            return "defaults" in self.get("/v1/config")
        except OSError:
            return False

    def get(self, path: str) -> dict[str, Any]:
        """The answer to a GET."""
        return self._answer(urllib.request.Request(self.uri + path))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a POST of JSON."""
        headers = {"Content-Type": "application/json"}
        return self._answer(urllib.request.Request(self.uri + path, json.dumps(body).encode(), headers))

    def _answer(self, request: urllib.request.Request) -> dict[str, Any]:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=30) as response:
                return dict(json.loads(response.read() or b"{}"))
        except urllib.error.HTTPError as error:
            with error:
                raise OSError(
                    f"{request.get_method()} {request.full_url}: {error.code} {error.read().decode()}"
                ) from error


class RestCatalogOnS3(RestCatalog):
    """A REST catalog that keeps its tables in an S3 store."""

    component = "rest-s3"

    def __init__(self, folder: Path, store: S3Server) -> None:
        super().__init__(folder)
        self.store = store

    def storage(self) -> dict[str, str]:
        return {"warehouse": f"s3://{BUCKET}/tables", **self.store.file_io}
