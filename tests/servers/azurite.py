"""Azurite on the loopback interface: what Azure's storage is to a client."""

import base64
import hashlib
import hmac
import shutil
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.servers.process import Server, free_port
from tests.servers.web import ask, is_told

CONTAINER, ACCOUNT = "azure-lake", "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key that Azurite publishes for its one account; it opens nothing else."""

PACKAGES = Path(__file__).parents[2] / ".cache" / "azurite"
"""Where `scripts/setup azurite` has put it."""


def program() -> tuple[str, Path]:
    """Node and the program; a machine without one of them skips the test."""
    node, found = shutil.which("node"), PACKAGES / "node_modules/azurite/dist/src/azurite.js"
    if node is None or not found.is_file():
        pytest.skip("there is no store of Azure's: Azurite is not installed (scripts/setup azurite)")
    return node, found


class AzureStore(Server):
    """A store that speaks Azure's protocol, with one container."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port, self._others = free_port(), (free_port(), free_port())

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def warehouse(self) -> str:
        return f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/tables"

    @property
    def executable(self) -> str:
        return program()[0]

    def command(self) -> list[str]:
        ports = zip(("blob", "queue", "table"), (self.port, *self._others), strict=True)
        bound = [
            word
            for name, port in ports
            for word in (f"--{name}Host", "127.0.0.1", f"--{name}Port", str(port))
        ]
        kept = ["--silent", "--location", str(self.folder / "data")]
        return [str(program()[1]), *bound, *kept, "--skipApiVersionCheck", "--disableTelemetry"]

    def start(self) -> None:
        super().start()
        status, answer = ask(f"{self.endpoint}/{CONTAINER}?restype=container", "PUT", b"", self._signed())
        if status not in (201, 409):
            raise RuntimeError(f"container '{CONTAINER}': {status} {answer.decode(errors='replace')}")

    def is_ready(self) -> bool:
        return is_told(f"{self.endpoint}?comp=list", 403)

    def _signed(self) -> dict[str, str]:
        """The headers of the one request that we make ourselves: a shared key signs it."""
        own = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        resource = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
        named = "".join(f"{name}:{value}\n" for name, value in own.items())
        kind = "application/octet-stream"
        text = f"PUT\n\n\n\n\n{kind}\n\n\n\n\n\n\n{named}{resource}"
        signature = base64.b64encode(
            hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
        ).decode()
        return {**own, "Content-Type": kind, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
