"""PostgreSQL on the loopback interface, with logical decoding."""

import os
import platform
import pwd
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.servers.process import Server, class_path, extract, free_port

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "fsync": "off",
    "max_connections": "20",
    "shared_buffers": "64MB",
}
_UNPRIVILEGED = "nobody"


def archive() -> Path:
    """The programs, packed; a platform without them skips the test."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("there is no PostgreSQL: its programs are pinned for Linux on x86_64 only")
    return Path(class_path("postgres"))


class Postgres(Server):
    """A PostgreSQL server; it refuses to be root, and as root it is somebody else in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self.home = Path(tempfile.mkdtemp(prefix="calve-postgres-")) if self.user else folder / "home"

    @property
    def executable(self) -> str:
        return str(self.home / "bin" / "postgres")

    @property
    def connection(self) -> dict[str, Any]:
        """What a client needs to reach it."""
        return {"host": "127.0.0.1", "port": self.port, "user": "postgres", "dbname": "postgres"}

    def command(self) -> list[str]:
        settings = [option for key, value in _SETTINGS.items() for option in ("-c", f"{key}={value}")]
        return ["-D", str(self.home / "data"), "-k", str(self.home), "-p", str(self.port), *settings]

    def start(self) -> None:
        if not (self.home / "data").exists():
            self._initialize()
        super().start()

    def _initialize(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(parents=True, exist_ok=True)
        self._unpack()
        if self.user:
            shutil.chown(self.home, pwd.getpwnam(self.user).pw_uid)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        command = [self.home / "bin" / "initdb", "-D", self.home / "data", *options]
        with self.log.open("ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, cwd=self.home, user=self.user)

    def _unpack(self) -> None:
        with zipfile.ZipFile(archive()) as jar:
            name = next(name for name in jar.namelist() if name.endswith(".txz"))
            with jar.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as files:
                extract(files, self.home)

    def is_ready(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def connect(self) -> psycopg.Connection[Any]:
        """A connection that commits each statement unless a transaction is begun."""
        return psycopg.connect(**self.connection, autocommit=True)

    def remove(self) -> None:
        super().remove()
        shutil.rmtree(self.home, ignore_errors=True)
