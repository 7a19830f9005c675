"""Kafka Connect on the loopback interface, with Debezium for PostgreSQL and Apicurio's converter."""

import json
import tarfile
import urllib.error
import urllib.request
import zipfile
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.servers.kafka import KafkaBroker
from tests.servers.postgres import Postgres
from tests.servers.process import Server, class_path, extract, free_port, wait_until

_SETTINGS = """\
bootstrap.servers={bootstrap}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=500
plugin.path={folder}/plugins
plugin.discovery=service_load
listeners=http://127.0.0.1:{port}
"""
_JVM = [
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]


CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"


def _add_converter(folder: Path) -> None:
    """The jars of Apicurio's converter, and the service that they forget to tell."""
    folder.mkdir()
    for jar in class_path("converter").split(":"):
        (folder / Path(jar).name).symlink_to(jar)
    with zipfile.ZipFile(folder / "services.jar", "w") as services:
        services.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", CONVERTER)


class Connect(Server):
    """A standalone worker of Kafka Connect."""

    def __init__(self, folder: Path, kafka: KafkaBroker) -> None:
        super().__init__(folder)
        self.kafka = kafka
        self.port = free_port()

    @cached_property
    def class_path(self) -> str:
        return class_path("connect")

    def start(self) -> None:
        plugins = self.folder / "plugins"
        if not plugins.exists():
            plugins.mkdir(parents=True)
            with tarfile.open(class_path("debezium")) as files:
                extract(files, plugins)
            _add_converter(plugins / "converter")
        super().start()

    def command(self) -> list[str]:
        settings = self.folder / "worker.properties"
        settings.write_text(
            _SETTINGS.format(bootstrap=self.kafka.bootstrap, folder=self.folder, port=self.port)
        )
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        return [*_JVM, "-cp", self.class_path, main, str(settings)]

    def is_ready(self) -> bool:
        try:
            self._answer("GET", "/connectors")
        except OSError:
            return False
        return True

    def capture(self, name: str, database: Postgres, tables: list[str], **more: str) -> None:
        """Start Debezium on `tables` of `database` and wait until it runs; topics begin with `name`."""
        place = database.connection
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": place["host"],
            "database.port": str(place["port"]),
            "database.user": place["user"],
            "database.password": "",
            "database.dbname": place["dbname"],
            "topic.prefix": name,
            "slot.name": name,
            "slot.drop.on.stop": "true",
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "table.include.list": ",".join(tables),
            "poll.interval.ms": "50",
            **more,
        }
        self._answer("PUT", f"/connectors/{name}/config", config)
        wait_until(lambda: self._is_running(name), f"connector '{name}'")

    def end(self, name: str) -> None:
        """Stop a connector and forget it."""
        self._answer("DELETE", f"/connectors/{name}")

    def _is_running(self, name: str) -> bool:
        try:
            status = self._answer("GET", f"/connectors/{name}/status")
        except OSError:
            return False
        parts = [status["connector"], *status["tasks"]]
        if any(part["state"] == "FAILED" for part in parts):
            raise RuntimeError(f"connector '{name}' failed: {parts}")
        return len(parts) > 1 and all(part["state"] == "RUNNING" for part in parts)

    def _answer(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=30) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                raise OSError(f"{method} {path}: {error.code} {error.read().decode()}") from error
