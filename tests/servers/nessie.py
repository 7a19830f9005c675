"""Nessie on the loopback interface, which forgets everything when it ends; its tables are in an S3 store."""

from pathlib import Path

from tests.servers.process import Server, class_path, free_port, newer_java
from tests.servers.s3 import BUCKET, KEY, SECRET, S3Server
from tests.servers.web import is_told

_NEEDED = 21
_JVM = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_S3 = "nessie.catalog.service.s3.default-options"


class Nessie(Server):
    """A Nessie server: its own protocol, and Iceberg's REST protocol besides."""

    def __init__(self, folder: Path, store: S3Server) -> None:
        super().__init__(folder)
        self.port, self.management, self.store = free_port(), free_port(), store

    @property
    def uri(self) -> str:
        """Where its own protocol is spoken."""
        return f"http://127.0.0.1:{self.port}/api/v2"

    @property
    def rest_uri(self) -> str:
        """Where Iceberg's REST protocol is spoken, for its branch main."""
        return f"http://127.0.0.1:{self.port}/iceberg/main"

    @property
    def executable(self) -> str:
        return newer_java(_NEEDED, "Nessie")

    def command(self) -> list[str]:
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self.port,
            "quarkus.management.enabled": "true",
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": self.management,
            "quarkus.otel.sdk.disabled": "true",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": "warehouse",
            "nessie.catalog.warehouses.warehouse.location": f"s3://{BUCKET}/nessie",
            f"{_S3}.endpoint": f"{self.store.endpoint}/",
            f"{_S3}.path-style-access": "true",
            f"{_S3}.region": "us-east-1",
            f"{_S3}.access-key": "urn:nessie-secret:quarkus:tests-secrets",
            # Its way to sign is not the one that clients of Iceberg 1.12 ask for.
            f"{_S3}.request-signing-enabled": "false",
            "tests-secrets.name": KEY,
            "tests-secrets.secret": SECRET,
        }
        options = [f"-D{key}={value}" for key, value in settings.items()]
        return [*_JVM, *options, "-jar", class_path("nessie")]

    def is_ready(self) -> bool:
        return is_told(f"http://127.0.0.1:{self.management}/q/health/ready", 200)
