"""Versity's S3 gateway on the loopback interface: a second store that speaks S3, over a plain folder."""

from pathlib import Path

import pytest

from tests.servers.process import free_port
from tests.servers.s3 import BUCKET, KEY, REGION, SECRET, S3Server
from tests.servers.web import is_told

PROGRAM = Path(__file__).parents[2] / ".cache" / "versitygw"
"""Where `scripts/setup versity` has built it."""


class VersityStore(S3Server):
    """An S3 store with one bucket, which is a folder; without `conditions` it writes over what is there."""

    def __init__(self, folder: Path, conditions: bool = True) -> None:
        super().__init__(folder)
        self.port, self.conditions = free_port(), conditions

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def executable(self) -> str:
        if not PROGRAM.is_file():
            pytest.skip("there is no second S3 store: Versity's gateway is not built (scripts/setup versity)")
        return str(PROGRAM)

    @property
    def environment(self) -> dict[str, str]:
        return {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}

    def command(self) -> list[str]:
        data, sidecar = self.folder / "data", self.folder / "sidecar"
        (data / BUCKET).mkdir(parents=True, exist_ok=True)
        sidecar.mkdir(exist_ok=True)
        # Extended attributes are not to be had everywhere; without any it knows no tags of what it keeps.
        kept = ["--sidecar", str(sidecar)] if self.conditions else ["--nometa"]
        return ["--port", f"127.0.0.1:{self.port}", "--region", REGION, "posix", *kept, str(data)]

    def is_ready(self) -> bool:
        return is_told(f"{self.endpoint}/{BUCKET}", 403)
