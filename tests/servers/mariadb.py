"""MariaDB on the loopback interface."""

import os
import platform
import pwd
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pytest

from tests.servers.process import Server, class_path, free_port, is_open

USER, PASSWORD, DATABASE = "tests", "tests-secret", "lake"
_UNPRIVILEGED = "nobody"
_SYSTEM = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


def archive() -> Path:
    """The programs, packed; a platform without them skips the test."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("there is no MariaDB: its programs are pinned for Linux on x86_64 only")
    return Path(class_path("mariadb"))


class MariaDb(Server):
    """A MariaDB server with one database; as root it is somebody else in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self.home = Path(tempfile.mkdtemp(prefix="calve-mariadb-")) if self.user else folder / "home"

    @property
    def jdbc(self) -> str:
        """The address of the database."""
        return f"jdbc:mariadb://127.0.0.1:{self.port}/{DATABASE}"

    @property
    def executable(self) -> str:
        return str(self.home / "bin" / "mysqld")

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.home / "libs")}

    def command(self) -> list[str]:
        bound = [f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self.home / 'socket'}"]
        return [*self._places(), *bound, f"--init-file={self.home / 'first.sql'}"]

    def _places(self) -> list[str]:
        return [
            "--no-defaults",
            f"--basedir={self.home}",
            f"--datadir={self.home / 'data'}",
            f"--lc-messages-dir={self.home / 'share'}",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=32M",
            "--innodb-use-native-aio=0",
        ]

    def start(self) -> None:
        if not (self.home / "data").exists():
            self._initialize()
        super().start()

    def _initialize(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.home / "data").mkdir(parents=True)
        self._unpack()
        if self.user:
            for place in (self.home, self.home / "data"):
                shutil.chown(place, pwd.getpwnam(self.user).pw_uid)
        (self.home / "first.sql").write_text(
            f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n"
            f"CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON {DATABASE}.* TO '{USER}'@'127.0.0.1';\n"
        )
        system = "".join((self.home / "share" / name).read_text() for name in _SYSTEM)
        with self.log.open("ab") as log:
            subprocess.run(
                [self.executable, *self._places(), "--bootstrap"],
                input=f"CREATE DATABASE mysql;\nUSE mysql;\n{system}".encode(),
                check=True,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                user=self.user,
            )

    def _unpack(self) -> None:
        with zipfile.ZipFile(archive()) as jar:
            for entry in jar.infolist():
                _, inside, name = entry.filename.partition("/linux/")
                if inside and not entry.is_dir():
                    to = self.home / name
                    to.parent.mkdir(parents=True, exist_ok=True)
                    to.write_bytes(jar.read(entry))
        (self.home / "bin" / "mysqld").chmod(0o755)

    def is_ready(self) -> bool:
        return is_open(self.port)

    def remove(self) -> None:
        super().remove()
        shutil.rmtree(self.home, ignore_errors=True)
