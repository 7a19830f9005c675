"""Spark's own cluster on the loopback interface: a master, and workers with one core each."""

import os
from abc import abstractmethod
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from tests.servers.process import Server, free_port, is_open
from tests.servers.web import is_told, tell

_JVM = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class _Part(Server):
    """A process of the cluster."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port, self.page = free_port(), free_port()

    @property
    def environment(self) -> dict[str, str]:
        """Spark's scripts, which set it otherwise, leave processes behind them."""
        own = {"SPARK_HOME": _find_spark_home(), "SPARK_SCALA_VERSION": "2.13"}
        return {**own, "SPARK_LOCAL_IP": "127.0.0.1"}

    def command(self) -> list[str]:
        jars = os.path.join(_find_spark_home(), "jars", "*")
        return [*_JVM, "-cp", jars, *self.arguments(), "--host", "127.0.0.1", "--port", str(self.port)]

    @abstractmethod
    def arguments(self) -> list[str]:
        """The class, and what it is told besides where it listens."""


class _Master(_Part):
    def arguments(self) -> list[str]:
        return ["org.apache.spark.deploy.master.Master", "--webui-port", str(self.page)]

    def is_ready(self) -> bool:
        return is_open(self.port) and is_told(f"http://127.0.0.1:{self.page}/json/", 200)


class _Worker(_Part):
    def __init__(self, folder: Path, master: str) -> None:
        super().__init__(folder)
        self.master = master

    def arguments(self) -> list[str]:
        had = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / "work")]
        worker = "org.apache.spark.deploy.worker.Worker"
        return [worker, self.master, *had, "--webui-port", str(self.page)]

    def is_ready(self) -> bool:
        return is_open(self.port)


class Standalone:
    """A cluster with as many workers as told."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._master = _Master(folder / "master")
        self._workers = [_Worker(folder / f"worker-{number}", self.address) for number in range(workers)]

    @property
    def address(self) -> str:
        return f"spark://127.0.0.1:{self._master.port}"

    def start(self) -> None:
        for part in (self._master, *self._workers):
            part.start()

    def alive(self) -> int:
        """How many workers the master knows."""
        told = tell(f"http://127.0.0.1:{self._master.page}/json/")
        return sum(worker["state"] == "ALIVE" for worker in told["workers"])

    def executors(self) -> list[int]:
        """How many executors each worker has run."""
        return [len(list((one.folder / "work").glob("app-*/*"))) for one in self._workers]

    def remove(self) -> None:
        for part in (*self._workers, self._master):
            part.remove()
