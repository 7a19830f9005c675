"""ministack on the loopback interface: what Amazon's Glue, S3 Tables and S3 are to a client."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.servers.process import free_port
from tests.servers.s3 import BUCKET, KEY, REGION, S3Server
from tests.servers.web import ask, is_told

LAUNCHER = Path(__file__).parent / "amazon" / "start.py"
TABLES = "table-bucket"
ACCOUNT = "000000000000"
_SIGNED = {"Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/{REGION}/{{}}/aws4_request"}


class Ministack(S3Server):
    """Glue, S3 Tables and S3 behind one address; a signature must be there, it is not verified."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def tables_uri(self) -> str:
        """Where S3 Tables speaks Iceberg's REST protocol."""
        return f"{self.endpoint}/iceberg"

    @property
    def arn(self) -> str:
        """The table bucket."""
        return f"arn:aws:s3tables:{REGION}:{ACCOUNT}:bucket/{TABLES}"

    @property
    def executable(self) -> str:
        if find_spec("ministack") is None:
            pytest.skip("there are no Glue and no S3 Tables: package 'ministack' is not installed")
        return sys.executable

    @property
    def environment(self) -> dict[str, str]:
        # The second is the host that it tells clients of S3 Tables to find their files at.
        own = {"BIND_HOST": "127.0.0.1", "MINISTACK_HOST": "127.0.0.1"}
        return {"GATEWAY_PORT": str(self.port), **own, "LOG_LEVEL": "WARNING"}

    def command(self) -> list[str]:
        return [str(LAUNCHER)]

    def start(self) -> None:
        super().start()
        for bucket in (BUCKET, TABLES):
            self._make(f"/{bucket}", "s3", b"")
        self._make("/buckets", "s3tables", {"name": TABLES})

    def _make(self, path: str, service: str, body: object) -> None:
        signed = {"Authorization": _SIGNED["Authorization"].format(service)}
        status, answer = ask(self.endpoint + path, "PUT", body, signed)
        if status >= 300:
            raise RuntimeError(f"PUT {path}: {status} {answer.decode(errors='replace')}")

    def is_ready(self) -> bool:
        return is_told(f"{self.endpoint}/_ministack/health", 200)
