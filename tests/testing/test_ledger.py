import json

import pytest

from calve.testing import ledger
from calve.testing.ledger import Ledger
from calve.testing.wire import Answer, Request

ORDERS = "/v1/namespaces/shop/tables/orders"


def commit(snapshot_id, commit_id, path=ORDERS):
    snapshot = {"snapshot-id": snapshot_id, "summary": {"operation": "append", "calve.commit": commit_id}}
    updates = [{"action": "add-snapshot", "snapshot": snapshot}, {"action": "set-properties", "updates": {}}]
    return Request("POST", path, body=json.dumps({"requirements": [], "updates": updates}).encode())


@pytest.mark.parametrize(
    ("method", "path", "point"),
    [
        ("GET", "/v1/config?warehouse=w", "catalog.config"),
        ("GET", ORDERS, "catalog.load"),
        ("GET", "/v1/a%2Fprefix/namespaces/shop/tables/orders?snapshots=refs", "catalog.load"),
        ("HEAD", ORDERS, "catalog.any"),
        ("POST", ORDERS, "catalog.commit"),
        ("POST", "/v1/prefix/transactions/commit", "catalog.commit"),
        ("POST", "/v1/namespaces/shop/tables", "catalog.create"),
        ("POST", "/v1/namespaces/shop/register", "catalog.create"),
        ("GET", "/v1/namespaces/shop/tables", "catalog.any"),
        ("POST", f"{ORDERS}/metrics", "catalog.any"),
        ("DELETE", ORDERS, "catalog.any"),
        ("POST", "/v1/oauth/tokens", "catalog.any"),
    ],
)
def test_a_request_is_known_by_its_method_and_path(method, path, point):
    assert ledger.point(Request(method, path)) == point


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (ORDERS, "shop.orders"),
        ("/v1/p/namespaces/north%1Fshop/tables/big%20orders?snapshots=all", "north.shop.big orders"),
        ("/v1/namespaces/shop", None),
    ],
)
def test_the_table_is_named_as_users_name_it(path, name):
    assert ledger.table(Request("GET", path)) == name


def test_a_table_that_is_created_is_named_by_the_request_itself():
    request = Request("POST", "/v1/namespaces/shop/tables", body=b'{"name": "orders"}')
    assert ledger.table(request) == "shop.orders"


def test_a_commit_has_its_snapshot_and_its_commit_id():
    book = Ledger()
    book.add(commit(7, "c-1"), Answer(200))
    (found,) = book.commits("shop.orders")
    assert (found.snapshot_id, found.commit_id) == (7, "c-1")


def test_a_commit_without_a_snapshot_has_neither():
    book = Ledger()
    book.add(Request("POST", ORDERS, body=b'{"updates": [{"action": "set-properties"}]}'), Answer(200))
    (found,) = book.commits()
    assert (found.snapshot_id, found.commit_id) == (None, None)


def test_only_commits_that_were_applied_count():
    book = Ledger()
    for number, answer in enumerate([Answer(409), Answer(200), Answer(500), None, Answer(204)]):
        book.add(commit(number, str(number)), answer)
    assert [found.snapshot_id for found in book.commits()] == [1, 4]


def test_a_transaction_is_a_commit_to_each_of_its_tables():
    changes = [
        {"identifier": {"namespace": ["north", "shop"], "name": name}, "updates": [{"action": "a"}]}
        for name in ("orders", "items")
    ]
    body = json.dumps({"table-changes": changes}).encode()
    book = Ledger()
    book.add(Request("POST", "/v1/transactions/commit", body=body), Answer(204))
    assert [found.table for found in book.commits()] == ["north.shop.orders", "north.shop.items"]
    assert len(book.commits("north.shop.items")) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff"])
def test_a_body_that_cannot_be_read_is_a_commit_of_nothing(body):
    (found,) = ledger.commits(Request("POST", ORDERS, body=body))
    assert found.updates == ()


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_neither_can_one_that_is_not_compressed_as_it_says(encoding):
    request = Request("POST", ORDERS, (("Content-Encoding", encoding),), b'{"updates": [{}]}')
    assert ledger.commits(request)[0].updates == ()
