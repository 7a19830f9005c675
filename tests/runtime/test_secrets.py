"""A secret in every kind of object of a real process: on no command line, and in no file that is left."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from ruamel.yaml import YAML

from calve.runtime import scratch
from tests.faults.process import Calve, send, wait_for
from tests.servers.process import free_port

MARKER = "Marker5b7e0d4cKwTz82"


def declaration(folder: Path) -> dict[str, Any]:
    nowhere = f"127.0.0.1:{free_port()}"
    key = {"client_email": "a@b.iam", "private_key": f"-----BEGIN KEY-----\n{MARKER}\n-----END KEY-----\n"}
    registry = {"url": f"http://{nowhere}", "token": MARKER}
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "username": "u"}
    topic = {
        "bootstrap_servers": nowhere,
        "topics": ["t"],
        "format": "avro",
        "schema": {"registry": registry},
    }
    tables = {"namespace": "shop", "retry_for": "5s"}
    application = {"tenant_id": "t", "client_id": "c", "client_secret": MARKER}
    stores = {
        "allowed_locations": ["gs://bucket/shop", "abfss://lake@account.dfs.core.windows.net/shop"],
    }
    sinks = {
        "local": {
            **tables,
            "table": "rows",
            "catalog": {"type": "hadoop", "warehouse": str(folder / "warehouse"), **stores},
            "gcs": {"service_account_key": json.dumps(key)},
            "azure": {"storage_account": "account", **application},
        },
        "rest": {
            **tables,
            "table": "rows",
            "catalog": {"type": "rest", "rest": {"uri": f"http://{nowhere}", "credential": MARKER}},
            "s3": {"access_key_id": "id", "secret_access_key": MARKER, "region": "us-east-1"},
        },
    }
    files = {"path": str(folder / "in"), "format": "json", "schema": "id BIGINT"}
    return {
        "version": "1.0",
        "spark": {
            "master": "local[1]",
            "driver_memory": "1g",
            "config": {
                "spark.hadoop.fs.s3a.secret.key": MARKER,
                "spark.ssl.keyStorePassword": "${MARKER_VARIABLE}",
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            },
        },
        "sources": {
            "files": {"connector": "files", "config": files},
            "kafka": {
                "connector": "kafka",
                "config": {**topic, **login, "password": MARKER, "schema": {"registry": registry}},
            },
        },
        "sinks": {name: {"connector": "iceberg", "config": config} for name, config in sinks.items()},
        "pipelines": {
            "good": {"source": "files", "sink": "local"},
            "away": {"source": "files", "sink": "rest"},
            "topic": {"source": "kafka", "sink": "local", "enabled": True},
        },
    }


def command_lines(pid: int) -> Iterator[str]:
    """What every user of the machine can read of a process and of those that it has started."""
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            yield " ".join(process.cmdline())


def places(*folders: Path) -> list[str]:
    """The files below folders that have the secret in them."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if MARKER.encode() in file.read_bytes()]


@pytest.mark.spark
def test_a_secret_is_on_no_command_line_and_in_no_file_that_a_killed_process_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, project = tmp_path / "tmp", tmp_path / "project"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("MARKER_VARIABLE", MARKER)
    calve = Calve(project, "", is_measured=False)
    with (project / "calve.yaml").open("w") as out:
        YAML().dump(declaration(project), out)
    (project / "in").mkdir()
    (project / "in" / "a.json").write_text('{"id": 1}\n')
    # Whoever may write to the folder could have this process wait, or read what only it may read.
    os.mkfifo(project / "in" / "pipe.json")
    (tmp_path / "private").write_text(f"{MARKER}\n")
    (project / "in" / "link.json").symlink_to(tmp_path / "private")
    running = calve.start("run")
    try:
        wait_for(
            lambda: calve.status("good").get("batches") or running.poll() is not None, "the first commit"
        )
        commands = list(command_lines(running.pid))
        assert any("java" in command for command in commands), calve.end() or running.stderr
        assert [command for command in commands if MARKER in command] == []
        # What Google's library reads from a file is in one that only this user can open.
        assert places(temporary) == ["service-account.json"]
        assert [one.name for one in temporary.iterdir() if not one.name.startswith("calve-scratch-")] == []
        send(running, signal.SIGKILL, whole=True)
    finally:
        calve.end()
    assert places(project / ".calve", project / "warehouse") == []
    assert {oct(folder.stat().st_mode & 0o777) for folder in (project / ".calve").iterdir()} == {"0o700"}
    scratch.sweep(temporary)
    assert places(temporary) == []
