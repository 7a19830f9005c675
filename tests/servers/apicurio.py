"""Apicurio's registry on the loopback interface, which speaks Confluent's protocol."""

import json
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.servers.process import Server, class_path, extract, free_port, newer_java

_NEEDED = 21
_JVM = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class Apicurio(Server):
    """A schema registry."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port, self.management = free_port(), free_port()

    @property
    def executable(self) -> str:
        return newer_java(_NEEDED, "schema registry")

    @property
    def url(self) -> str:
        """Where Confluent's protocol is spoken."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    @property
    def own_url(self) -> str:
        """Where Apicurio's own protocol is spoken, as its converters of version 2 do."""
        return f"http://127.0.0.1:{self.port}/apis/registry/v2"

    def start(self) -> None:
        newer_java(_NEEDED, "schema registry")
        if not (self.folder / "app").exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with tarfile.open(class_path("registry")) as files:
                extract(files, self.folder / "app")
        super().start()

    def command(self) -> list[str]:
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self.port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": self.management,
        }
        options = [f"-D{key}={value}" for key, value in settings.items()]
        (jar,) = (self.folder / "app").rglob("quarkus-run.jar")
        return [*_JVM, *options, "-jar", str(jar)]

    def is_ready(self) -> bool:
        try:
            return isinstance(self._answer("/subjects"), list)
        except OSError:
            return False

    def register(
        self, subject: str, schema: Any, kind: str = "AVRO", references: list[str] | None = None
    ) -> int:
        """The id of a schema; references are subjects in their first version, called as they are."""
        told = [{"name": name, "subject": name, "version": 1} for name in references or ()]
        body = {"schema": json.dumps(schema), "schemaType": kind, "references": told}
        return int(self._answer(f"/subjects/{subject}/versions", body)["id"])

    def _answer(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=30) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise OSError(f"{path}: {error.code} {error.read().decode()}") from error
