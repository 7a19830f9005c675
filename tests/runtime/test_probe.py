"""Hosts are reached step by step."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from calve.errors import ConfigurationError, Unavailable
from calve.runtime import check, probe
from calve.runtime.probe import Endpoint
from calve.sink.declaration import IcebergSink


@pytest.fixture
def port() -> Iterator[int]:
    """A server that hangs up on everybody."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1)

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def closed() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_host_that_is_there(port: int) -> None:
    there = Endpoint("the catalog", f"http://127.0.0.1:{port}/api")
    assert probe.resolve(there) == ["127.0.0.1"]
    probe.connect(there)
    assert str(there) == f"127.0.0.1:{port}"


def test_a_host_that_is_not(closed: int) -> None:
    with pytest.raises(Unavailable, match="connection refused"):
        probe.connect(Endpoint("x", f"http://127.0.0.1:{closed}"))
    with pytest.raises(Unavailable, match="the name is not known"):
        probe.resolve(Endpoint("x", "https://no-such-host.invalid"))
    with pytest.raises(Unavailable, match="the name is not known"):
        probe.connect(Endpoint("x", "https://no-such-host.invalid"))
    with pytest.raises(ConfigurationError, match="names no host"):
        probe.resolve(Endpoint("x", "http://"))


def test_a_host_that_does_not_speak_tls(port: int) -> None:
    with pytest.raises(Unavailable, match="Cannot speak TLS with"):
        probe.shake_hands(Endpoint("x", f"https://127.0.0.1:{port}"))


def test_where_a_cloud_tells_credentials_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: told)
    with pytest.raises(ConfigurationError, match="tells its machines their credentials"):
        probe.resolve(Endpoint("x", "http://innocent.example.org"))


def sink(**keys: object) -> IcebergSink:
    return IcebergSink.model_validate({"namespace": "n", "table": "t", **keys})


def rest(*uris: str) -> IcebergSink:
    return sink(catalog={"type": "rest", "rest": {"uri": list(uris)}}, s3={"endpoint": "https://s3.lan"})


def test_the_servers_that_a_sink_needs() -> None:
    found = check.endpoints(rest("http://a", "http://b"))
    assert [[str(one) for one in group] for group in found] == [["a:80", "b:80"], ["s3.lan:443"]]
    assert check.endpoints(sink()) == []
    hive = sink(catalog={"type": "hive", "hive": {"uri": "thrift://h1:1,thrift://h2"}})
    assert [[str(one) for one in group] for group in check.endpoints(hive)] == [["h1:1", "h2:9083"]]
    jdbc = {"type": "jdbc", "jdbc": {"uri": "jdbc:postgresql://db:5433,db2/lake"}, "warehouse": "/w"}
    assert [[str(one) for one in group] for group in check.endpoints(sink(catalog=jdbc))] == [
        ["db:5433", "db2:5432"]
    ]


def checked(declared: IcebergSink) -> check.Check:
    found = check.Check("sink", "lake", "x")
    with check._checking(found):
        check._reach(found, declared)
    if found.error is not None:
        found.diagnosis = check.of_error(found.error)
        found.skip_the_rest()
    return found


def test_no_server_no_step() -> None:
    found = checked(sink())
    assert [(one.step, one.status, one.seen) for one in found.steps] == [
        (step, "skipped", "there is no server") for step in ("resolve", "connect", "tls")
    ]


def test_the_steps_up_to_a_failure_and_those_that_are_left(closed: int) -> None:
    found = checked(sink(catalog={"type": "rest", "rest": {"uri": f"http://127.0.0.1:{closed}"}}))
    statuses = {one.step: one.status for one in found.steps}
    assert [one.step for one in found.steps] == list(check.STEPS)
    assert (statuses["resolve"], statuses["connect"], statuses["tls"]) == ("ok", "failed", "skipped")
    assert set(list(statuses.values())[2:]) == {"skipped"}
    assert (found.exit_code, found.diagnosis.name) == (69, "connection refused")
    assert found.advice == found.diagnosis.advice


def test_one_of_several_addresses_is_enough(port: int, closed: int) -> None:
    uris = [f"http://127.0.0.1:{closed}", f"http://127.0.0.1:{port}"]
    found = checked(sink(catalog={"type": "rest", "rest": {"uri": uris}}))
    assert found.error is None
    assert len(found.warnings) == 1
    assert f"127.0.0.1:{closed}" in found.warnings[0]
    assert [one.step for one in found.steps if one.status == "skipped"] == ["tls"]


def test_a_metastore_without_locks_is_spoken_of() -> None:
    hive = {"type": "hive", "hive": {"uri": "thrift://h", "lock": False}}
    assert "HIVE-26882" in check.warnings(sink(catalog=hive))[0]
    assert check.warnings(sink()) == []


def test_the_store_of_a_catalog_that_vends_credentials_is_where_the_catalog_says() -> None:
    catalog = {"type": "rest", "rest": {"uri": "http://a"}}
    own = {"access_key_id": "key", "secret_access_key": "secret"}

    def reached(**s3: str) -> list[str]:
        groups = check.endpoints(sink(catalog=catalog, s3={"region": "us-east-1", **s3}))
        return [str(one) for group in groups for one in group]

    assert reached() == ["a:80"]
    assert reached(endpoint="http://b:9000") == ["a:80", "b:9000"]
    assert reached(**own) == ["a:80", "s3.us-east-1.amazonaws.com:443"]
