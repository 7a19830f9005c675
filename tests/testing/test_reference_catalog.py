"""Each fault in front of Iceberg's reference catalog, with PyIceberg as the client."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from calve.testing.catalog import FaultyCatalog
from calve.testing.faults import ACTIONS, CatalogFault
from tests.servers.process import free_port

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def faulty(rest_catalog):
    with FaultyCatalog(rest_catalog.uri) as catalog:
        yield catalog


@pytest.fixture
def name(rest_catalog):
    namespace = f"faulty_{uuid.uuid4().hex[:8]}"
    direct(rest_catalog).create_namespace(namespace)
    return f"{namespace}.orders"


@pytest.fixture
def table(faulty, name):
    return RestCatalog("faulty", uri=faulty.uri).create_table(name, ROWS.schema)


def direct(rest_catalog):
    return RestCatalog("direct", uri=rest_catalog.uri)


def rows(rest_catalog, name):
    return direct(rest_catalog).load_table(name).scan().to_arrow().num_rows


def append(table):
    table.append(ROWS, snapshot_properties={"calve.commit": "our-commit"})


UNKNOWN = CommitStateUnknownException
LOST = requests.exceptions.ConnectionError
FAULTS = {
    **{f"fail_{code}": (UNKNOWN, 0) for code in (500, 502, 504)},
    **{f"apply_{code}": (UNKNOWN, 1) for code in (500, 502, 504)},
    "fail_503": (Exception, 0),
    "apply_503": (Exception, 1),
    "hang": (LOST, 0),
    "apply_hang": (LOST, 1),
    "reset": (LOST, 0),
    "apply_reset": (LOST, 1),
    "too_many": (Exception, 0),
    "redirect": (LOST, 0),
    "cut_json": (ValueError, 1),
    "late": (UNKNOWN, 0),
}
"""What PyIceberg raises at a commit, and how often the commit landed."""

IN_OTHER_TESTS = {"conflict", "conflict_landed", "lie", "stale", "unauthorized"}


def keys(action):
    return {
        "hang": {"seconds": 0.1},
        "apply_hang": {"seconds": 0.1},
        "redirect": {"to": f"http://127.0.0.1:{free_port()}"},
    }.get(action, {})


def test_every_action_is_tried():
    assert FAULTS.keys() | IN_OTHER_TESTS == ACTIONS.keys()


@pytest.mark.parametrize("action", FAULTS)
def test_the_ledger_tells_what_happened_and_the_table_agrees(rest_catalog, faulty, name, table, action):
    error, landed = FAULTS[action]
    fault = CatalogFault("catalog.commit", action=action, **keys(action))
    faulty.load([fault])
    with pytest.raises(error):
        append(table)
    assert faulty.fired == (fault,)
    assert [commit.commit_id for commit in faulty.ledger.commits(name)] == ["our-commit"] * landed
    assert rows(rest_catalog, name) == 3 * landed


def test_a_sound_commit_is_in_the_ledger_with_its_snapshot(rest_catalog, faulty, name, table):
    append(table)
    (commit,) = faulty.ledger.commits(name)
    assert commit.snapshot_id == direct(rest_catalog).load_table(name).metadata.current_snapshot_id
    assert {one["type"] for one in commit.requirements} == {"assert-ref-snapshot-id", "assert-table-uuid"}


def test_a_conflict_that_nobody_had_leaves_the_table_as_it_was(rest_catalog, faulty, name, table):
    table.transaction().set_properties({"commit.retry.num-retries": "0"}).commit_transaction()
    before = faulty.ledger.commits(name)
    faulty.load([CatalogFault("catalog.commit", action="conflict")])
    with pytest.raises(CommitFailedException):
        append(table)
    assert faulty.ledger.commits(name) == before
    assert rows(rest_catalog, name) == 0


def test_a_conflict_may_be_told_of_a_commit_that_landed(rest_catalog, faulty, name, table):
    table.transaction().set_properties({"commit.retry.num-retries": "0"}).commit_transaction()
    faulty.load([CatalogFault("catalog.commit", action="conflict_landed")])
    with pytest.raises(CommitFailedException):
        append(table)
    landed = faulty.ledger.commits(name)[-1]
    assert landed.commit_id == "our-commit"
    # The rows cannot be counted: PyIceberg believed the conflict and deleted manifests of the live snapshot.
    assert landed.snapshot_id == direct(rest_catalog).load_table(name).metadata.current_snapshot_id


def test_the_client_believes_a_lie_and_the_table_does_not_have_it(rest_catalog, faulty, name, table):
    append(table)
    faulty.load([CatalogFault("catalog.commit", action="lie")])
    append(table)
    assert len(table.metadata.snapshots) == 2
    assert table.current_snapshot().summary["calve.commit"] == "our-commit"
    assert len(faulty.ledger.commits(name)) == 1
    assert rows(rest_catalog, name) == 3


def test_a_stale_table_lacks_the_last_commit(rest_catalog, faulty, name, table):
    append(table)
    append(table)
    faulty.load([CatalogFault("catalog.load", action="stale", loads=2)])
    seen = [len(table.refresh().metadata.snapshots) for _ in range(3)]
    assert seen == [1, 1, 2]
    assert rows(rest_catalog, name) == 6


def test_a_table_that_was_just_created_is_stale_after_its_first_commit(faulty, table):
    append(table)
    faulty.load([CatalogFault("catalog.load", action="stale")])
    assert table.refresh().current_snapshot() is None


def test_credentials_that_are_refused_once_are_shown_again(rest_catalog, faulty, name, table):
    faulty.load([CatalogFault("catalog.commit", action="unauthorized")])
    append(table)
    assert len(faulty.fired) == len(faulty.ledger.commits(name)) == 1
    assert rows(rest_catalog, name) == 3


def test_a_late_commit_lands_and_the_next_one_is_refused_by_the_catalog(rest_catalog, faulty, name, table):
    table.transaction().set_properties({"commit.retry.num-retries": "0"}).commit_transaction()
    faulty.load([CatalogFault("catalog.commit", action="late")])
    with pytest.raises(CommitStateUnknownException):
        append(table)
    with pytest.raises(CommitFailedException):
        append(table)
    assert [entry.status for entry in faulty.ledger.entries if entry.commits][-2:] == [200, 409]
    assert rows(rest_catalog, name) == 3


@pytest.mark.parametrize("action", ["fail_500", "cut_json", "reset"])
@pytest.mark.parametrize("point", ["catalog.config", "catalog.load", "catalog.create"])
def test_other_requests_have_faults_too(faulty, name, point, action):
    faulty.load([CatalogFault(point, action=action)])

    def everything():
        client = RestCatalog("faulty", uri=faulty.uri)
        client.create_table(name, ROWS.schema)
        client.load_table(name)

    with pytest.raises(Exception, match=r".+"):
        everything()
    assert [fault.point for fault in faulty.fired] == [point]
