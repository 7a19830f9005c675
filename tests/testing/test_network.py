import socket
import threading
import time

import pytest

from calve.testing.network import FaultyNetwork
from tests.servers.process import free_port, wait_until


@pytest.fixture
def echo():
    """A server that sends back what it gets, and ends when the client has."""
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(server,), daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def accept(server):
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection):
    with connection:
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except OSError:
            pass


@pytest.fixture
def network(echo):
    with FaultyNetwork("127.0.0.1", echo) as proxy:
        yield proxy


@pytest.fixture
def client(network):
    with connected(network) as connection:
        connection.sendall(b"hello")
        assert received(connection, 5) == b"hello"
        yield connection


def connected(network):
    return socket.create_connection((network.host, network.port), 5)


def received(connection, size):
    found = b""
    while len(found) < size and (data := connection.recv(65536)):
        found += data
    return found


def test_a_sound_network_passes_on_everything_and_its_end(network, client):
    text = bytes(range(256)) * 4000
    threading.Thread(target=client.sendall, args=(text,), daemon=True).start()
    assert received(client, len(text)) == text
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b""
    wait_until(lambda: network.connections == 0, "the end of the connection", 5)


def test_latency_is_paid_in_both_directions_until_it_is_healed(network, client):
    network.delay(0.05)
    start = time.monotonic()
    client.sendall(b"slow")
    assert received(client, 4) == b"slow"
    assert time.monotonic() - start >= 0.1
    network.delay(600)
    client.sendall(b"quick")
    network.heal()
    assert received(client, 5) == b"quick"


def test_a_drip_passes_a_few_bytes_at_a_time(network, client):
    network.drip(2, 0.02)
    start = time.monotonic()
    client.sendall(b"123456")
    assert received(client, 6) == b"123456"
    assert time.monotonic() - start >= 0.04


def test_a_stall_passes_nothing_and_keeps_the_connection(network, client):
    network.stall()
    client.sendall(b"wait")
    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(5)
    network.heal()
    assert received(client, 4) == b"wait"


def test_a_cut_closes_the_connection_and_those_that_come(network, client):
    network.cut()
    assert client.recv(1) == b""
    with connected(network) as other:
        assert other.recv(1) == b""


def test_a_cut_may_come_after_some_bytes(network, client):
    network.cut(after=14)
    client.sendall(b"0123456789")
    assert received(client, 10) == b"0123"


def test_a_reset_is_a_reset_for_the_connection_and_those_that_come(network, client):
    network.reset()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with pytest.raises(ConnectionResetError), connected(network) as other:
        other.recv(1)


def test_a_reset_may_come_after_some_bytes(network, client):
    network.reset(after=4)
    client.sendall(b"0123456789")
    with pytest.raises(ConnectionResetError):
        received(client, 10)


def test_after_healing_new_connections_are_sound(network, client):
    network.reset()
    network.heal()
    with connected(network) as other:
        other.sendall(b"again")
        assert received(other, 5) == b"again"


def test_the_server_notices_a_reset_of_the_client(network, client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    wait_until(lambda: network.connections == 0, "the end of the connection", 5)


def test_a_server_that_is_not_there_resets_the_client():
    refused = pytest.raises(ConnectionResetError)
    with FaultyNetwork("127.0.0.1", free_port()) as network, refused, connected(network) as client:
        client.recv(1)


def test_closing_ends_what_is_open_and_stalled(echo):
    before = threading.active_count()
    network = FaultyNetwork("127.0.0.1", echo)
    network.stall()
    with connected(network) as client:
        client.sendall(b"wait")
        wait_until(lambda: network.connections == 1, "the connection", 5)
        network.close()
        network.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connected(network)
    wait_until(lambda: threading.active_count() <= before, "the end of the threads", 5)
