"""`calve run` as a process that a terminal, a supervisor or the system ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from tests.faults import evidence
from tests.faults.process import LIMIT, Calve, ended, send, wait_for

pytestmark = pytest.mark.spark

FILES, ROWS = 400, 5
DECLARATION = """
version: "1.0"
sources:
  inbox:
    connector: files
    config: {path: inbox/*.json, format: json, schema: "id BIGINT NOT NULL", max_files_per_batch: 2}
sinks:
  lake:
    connector: iceberg
    config: {namespace: shop, table: orders, max_batch_size: 10, batch_size: 1, flush_interval_secs: 1}
pipelines:
  orders: {source: inbox, sink: lake}
spark: {master: "local[2]", driver_memory: 1g}
"""


@pytest.fixture
def calve(tmp_path):
    made = Calve(tmp_path, DECLARATION, is_measured=False)
    (tmp_path / "inbox").mkdir()
    yield made
    made.end()


def fill(calve, files=FILES):
    """More small files than are read before a signal comes: batch follows batch."""
    for number in range(files):
        rows = (json.dumps({"id": number * ROWS + row}) for row in range(ROWS))
        file = calve.folder / "inbox" / f"{number:04}.json"
        if not file.exists():
            file.write_text("\n".join(rows) + "\n")


def running(calve, batches):
    process = calve.start("run")
    wait_for(
        lambda: process.poll() is not None or calve.status("orders").get("batches", 0) >= batches, "a batch"
    )
    assert process.poll() is None, ended(process)
    return process


def stored(calve):
    return evidence.values(evidence.embedded(calve.folder).load_table("shop.orders"), "id")


def to_process(process, number):
    process.send_signal(number)


def to_group(process, number):
    """As a terminal does."""
    os.killpg(process.pid, number)


def to_service(process, number):
    """As systemd does: the JVM and Spark's workers too, whatever group they are in."""
    send(process, number, whole=True)


@pytest.mark.parametrize(
    ("number", "receivers"),
    [
        pytest.param(signal.SIGINT, to_process, marks=pytest.mark.full),
        (signal.SIGINT, to_group),
        pytest.param(signal.SIGTERM, to_group, marks=pytest.mark.full),
        (signal.SIGTERM, to_service),
    ],
)
def test_a_signal_ends_a_busy_run_after_its_batch(calve, number, receivers):
    fill(calve)
    process = running(calve, batches=2)
    below = psutil.Process(process.pid).children(recursive=True)
    receivers(process, number)
    code, said = ended(process, 60)
    assert code == 0, said
    status = calve.status("orders")
    assert status["state"] == "stopped"
    assert said.splitlines() == [
        f"orders: {status['rows']} rows in {status['batches']} commits to table 'shop.orders'"
    ]
    assert stored(calve) == list(range(status["rows"]))
    assert psutil.wait_procs(below, 20)[1] == []


def test_a_jvm_that_is_killed_ends_the_run_with_one_line_and_75(calve):
    fill(calve)
    process = running(calve, batches=1)
    (jvm,) = psutil.Process(process.pid).children()
    jvm.kill()
    code, said = ended(process, 60)
    assert code == 75, said
    assert len(said.splitlines()) == 1, said
    assert said.startswith("orders: Cannot go on: the JVM of Spark was killed")
    assert calve.status("orders")["state"] == "failed"


@pytest.mark.full
def test_a_process_that_is_killed_takes_the_jvm_and_the_workers_with_it(calve):
    fill(calve)
    process = running(calve, batches=1)
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) > 1, "a JVM and Spark's daemon of workers"
    process.kill()
    process.wait(10)
    assert psutil.wait_procs(below, 20)[1] == []


def test_a_start_that_waits_for_a_catalog_is_given_up_at_once(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        catalog = f"catalog: {{type: rest, rest: {{uri: '{address}'}}}}, namespace: shop"
        calve = Calve(tmp_path, DECLARATION.replace("namespace: shop", catalog), is_measured=False)
        (tmp_path / "inbox").mkdir()
        fill(calve, 1)
        process = calve.start("run")
        silent.settimeout(120)
        silent.accept()
        process.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        code, said = ended(process, 60)
        assert (code, said) == (0, "orders: stopped while it waited; nothing was in flight\n")
        assert time.monotonic() - asked < 15
        assert calve.status("orders")["state"] == "stopped"


@pytest.mark.full
def test_a_worker_that_is_killed_costs_one_try(calve):
    fill(calve)
    process = running(calve, batches=1)
    (jvm,) = psutil.Process(process.pid).children()
    before = calve.status("orders")["batches"]
    for worker in jvm.children(recursive=True):
        worker.kill()
    wait_for(lambda: calve.status("orders")["batches"] > before + 2, "batches after it")
    process.send_signal(signal.SIGTERM)
    code, said = ended(process, 60)
    assert code == 0, said
    assert stored(calve) == list(range(calve.status("orders")["rows"]))


@pytest.mark.full
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_store_that_is_read_only_for_a_while_is_waited_for(tmp_path, mode):
    keys = f"commit_mode: {mode}, namespace: shop" + (", key_fields: [id]" if mode == "upsert" else "")
    calve = Calve(tmp_path, DECLARATION.replace("namespace: shop", keys), is_measured=False)
    (tmp_path / "inbox").mkdir()
    fill(calve)
    try:
        process = running(calve, batches=1)
        # The files of the table; the database beside them is open for writing and stays so.
        store = tmp_path / "warehouse" / "shop"
        if subprocess.run(["mount", "--bind", "-o", "ro", store, store], check=False).returncode:
            pytest.skip("this user cannot mount")
        try:
            wait_for(lambda: process.poll() is not None or calve.status("orders")["message"], "the notice")
        finally:
            subprocess.run(["umount", "-l", store], check=True)
        assert process.poll() is None, ended(process)
        before = calve.status("orders")["batches"]
        wait_for(lambda: calve.status("orders")["batches"] > before, "batches after it")
        process.send_signal(signal.SIGTERM)
        code, said = ended(process, 60)
        assert code == 0, said
        assert "Read-only file system; trying again" in said
        assert stored(calve) == list(range(calve.status("orders")["rows"]))
    finally:
        calve.end()


def test_a_standby_takes_over_from_a_process_that_was_killed(calve):
    fill(calve, 1)

    def start(name):
        return calve.start("run", "--standby", "--takeover-after", "4", "--state", str(calve.folder / name))

    def status(name):
        file = calve.folder / name / "status" / "orders.json"
        return json.loads(file.read_text()) if file.exists() else {}

    holder = start("holder")
    wait_for(lambda: status("holder").get("rows") == ROWS, "the rows of the holder")
    standby = start("standby")
    wait_for(lambda: status("standby").get("state") == "standby", "the standby")
    fill(calve, 2)
    wait_for(lambda: status("holder")["rows"] == 2 * ROWS, "more rows of the holder")
    holder.kill()
    wait_for(lambda: status("standby")["state"] == "running", "the takeover")
    fill(calve, 3)
    wait_for(lambda: status("standby")["rows"] == ROWS, "the rows of the standby")
    standby.send_signal(signal.SIGTERM)
    code, said = ended(standby, 60)
    assert code == 0, said
    assert status("standby")["epoch"] == 2
    assert stored(calve) == list(range(3 * ROWS))


@pytest.fixture
def config_map(tmp_path):
    """A read-only mount that holds a declaration, as Kubernetes makes one; none where mounts are not ours."""
    place = tmp_path / "config"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=False).returncode:
        pytest.skip("this user cannot mount")
    warehouse = f"catalog: {{warehouse: {tmp_path}/lake}}, namespace: shop"
    declared = DECLARATION.replace("namespace: shop", warehouse).replace("inbox/*", f"{tmp_path}/inbox/*")
    (place / "calve.yaml").write_text(declared)
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    yield place
    # A process that was ended may still hold it for a moment.
    subprocess.run(["umount", "-l", place], check=True)


def test_a_read_only_folder_on_a_machine_without_a_resolvable_name_is_enough(config_map, calve):
    """All of a container that is hardened: a ConfigMap, and a host name that no resolver knows."""
    fill(calve, 2)
    command = ["unshare", "--uts", "sh", "-c", 'hostname no-such-host.invalid && exec "$@"', "sh"]
    calve_run = [sys.executable, "-m", "calve.cli", "run", "--once"]
    done = subprocess.run(
        [*command, *calve_run], cwd=config_map, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    log, status, summary = done.stderr.splitlines()
    assert "/config/.calve/logs/spark.log': Read-only file system" in log
    assert status.startswith("orders: Cannot keep the status in ")
    assert summary == "orders: 10 rows in 1 commits to table 'shop.orders'"
    state = calve.folder / "state"
    again = subprocess.run(
        [*calve_run, "--state", state],
        cwd=config_map,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (again.returncode, again.stderr) == (0, "orders: nothing new for table 'shop.orders'\n")
    assert sorted(one.name for one in state.rglob("*") if one.is_file()) == ["orders.json", "spark.log"]
