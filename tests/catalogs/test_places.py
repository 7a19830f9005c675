"""The places, and the servers behind them, are what the suites say they are."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from tests.catalogs import test_conformance
from tests.catalogs.places import PLACES
from tests.faults.kinds import KINDS
from tests.servers.park import MADE, Park


def test_every_place_has_a_name_of_its_own_and_needs_servers_that_there_are() -> None:
    assert len({place.name for place in PLACES}) == len(PLACES)
    assert {need for place in PLACES for need in place.needs} <= MADE.keys()


def test_what_a_place_cannot_do_is_a_test_of_the_suite() -> None:
    tests = {name for name in vars(test_conformance) if name.startswith("test_")}
    known = tests | {f"{name}[{kind.name}]" for name in tests for kind in KINDS}
    assert {test for place in PLACES for test in place.cannot} <= known
    assert all(reason for place in PLACES for reason in place.cannot.values())


@pytest.mark.full
@pytest.mark.parametrize("name", MADE)
def test_a_server_answers_and_listens_on_loopback_only(park: Park, name: str) -> None:
    server = park[name]
    assert server.is_ready()
    family = psutil.Process(server.process.pid)
    sockets = [one for each in (family, *family.children(recursive=True)) for one in connections(each)]
    addresses = {one.laddr.ip.removeprefix("::ffff:") for one in sockets if one.status == psutil.CONN_LISTEN}
    assert addresses <= {"127.0.0.1", "::1"}
    assert addresses


def connections(process: psutil.Process) -> list[Any]:
    """The sockets of a process; one that was at work for a client may have ended by now."""
    try:
        return process.net_connections()
    except psutil.NoSuchProcess:
        return []
