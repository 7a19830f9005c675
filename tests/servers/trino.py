"""Trino on the loopback interface: one node that reads the tables of a REST catalog."""

import json
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from tests.servers.process import Server, class_path, extract, free_port, newer_java, wait_until
from tests.servers.web import ask, is_told

_NEEDED = 24
_JVM = [
    *("-Xmx1200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256M"),
    *("-Djdk.attach.allowAttachSelf=true", "--enable-native-access=ALL-UNNAMED"),
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
]
_NODE = {
    "coordinator": "true",
    "node-scheduler.include-coordinator": "true",
    "query.max-memory": "400MB",
    "query.max-memory-per-node": "400MB",
    "memory.heap-headroom-per-node": "200MB",
    "catalog.management": "static",
}
USER = {"X-Trino-User": "tests"}


class Trino(Server):
    """A Trino server with one catalog called `lake`; `connector` are its properties."""

    def __init__(self, folder: Path, connector: dict[str, str]) -> None:
        super().__init__(folder)
        self.port, self.connector = free_port(), connector

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def executable(self) -> str:
        return newer_java(_NEEDED, "Trino")

    def start(self) -> None:
        newer_java(_NEEDED, "Trino")
        if not (self.folder / "server").exists():
            self._unpack()
        super().start()

    def _unpack(self) -> None:
        unpacked = self.folder / "unpacked"
        server, plugin = class_path("trino").split(":")
        with tarfile.open(server) as files:
            extract(files, unpacked)
        with zipfile.ZipFile(plugin) as files:
            files.extractall(unpacked)
        (home,) = unpacked.glob("trino-server*")
        shutil.rmtree(home / "plugin", ignore_errors=True)
        (connector,) = unpacked.glob("trino-iceberg*")
        connector.rename(self._made(home / "plugin") / "iceberg")
        home.rename(self.folder / "server")

    def _made(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def command(self) -> list[str]:
        settings = self._made(self.folder / "etc")
        node = {**_NODE, "http-server.http.port": str(self.port), "discovery.uri": self.uri}
        _write(settings / "config.properties", node)
        _write(settings / "log.properties", {"io.trino": "WARN", "io.airlift": "WARN"})
        _write(self._made(settings / "catalog") / "lake.properties", self.connector)
        options = {
            "node.environment": "test",
            "node.id": "tests",
            "node.data-dir": self.folder / "data",
            "node.internal-address": "127.0.0.1",
            "node.bind-ip": "127.0.0.1",
            "plugin.dir": self.folder / "server" / "plugin",
            "config": settings / "config.properties",
            "log.levels-file": settings / "log.properties",
            "catalog.config-dir": settings / "catalog",
        }
        told = [f"-D{key}={value}" for key, value in options.items()]
        return [*_JVM, *told, "-cp", f"{self.folder}/server/lib/*", "io.trino.server.TrinoServer"]

    def is_ready(self) -> bool:
        return is_told(f"{self.uri}/v1/info", 200) and not self._info()["starting"]

    def _info(self) -> dict[str, Any]:
        return dict(json.loads(ask(f"{self.uri}/v1/info")[1]))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query; raises RuntimeError with what Trino says against it."""
        found: list[list[tuple[Any, ...]]] = []

        def is_answered() -> bool:
            """The one node is known to the connector some time after the server is ready."""
            try:
                found.append(self._rows(sql))
            except RuntimeError as error:
                if "NO_NODES_AVAILABLE" not in str(error):
                    raise
            return bool(found)

        wait_until(is_answered, "Trino: a node that works")
        return found[0]

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        answer = json.loads(ask(f"{self.uri}/v1/statement", "POST", sql.encode(), USER)[1])
        while True:
            if "error" in answer:
                raise RuntimeError(f"{answer['error']['errorName']}: {answer['error']['message']}")
            rows += [tuple(row) for row in answer.get("data", ())]
            if "nextUri" not in answer:
                return rows
            answer = json.loads(ask(answer["nextUri"], headers=USER)[1])


def _write(file: Path, properties: dict[str, str]) -> None:
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
