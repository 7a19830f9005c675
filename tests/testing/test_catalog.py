import gzip
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, RemoteDisconnected

import pytest

from calve.testing.catalog import FaultyCatalog
from calve.testing.faults import CatalogFault
from tests.servers.process import wait_until

ORDERS = "/v1/namespaces/shop/tables/orders"
COMMIT = json.dumps({"requirements": [{"type": "assert-create"}], "updates": []}).encode()
GATEWAY = [500, 502, 503, 504]


@pytest.fixture
def catalog(upstream):
    with FaultyCatalog(upstream.uri, timeout=5) as proxy:
        yield proxy


@pytest.fixture
def client(catalog):
    connection = HTTPConnection("127.0.0.1", int(catalog.uri.rpartition(":")[2]), timeout=5)
    yield connection
    connection.close()


def ask(client, method="GET", path=ORDERS, body=None, headers=None):
    client.request(method, path, body, headers or {})
    response = client.getresponse()
    return response, response.read()


def commit(client):
    return ask(client, "POST", body=COMMIT)


def version(body):
    return json.loads(body)["metadata"]["properties"]["version"]


def planned(catalog, action, point="catalog.commit", **keys):
    catalog.load([CatalogFault(point, action=action, **keys)])


def statuses(catalog):
    return [entry.status for entry in catalog.ledger.entries]


def test_without_a_plan_everything_is_passed_on(upstream, client):
    response, body = ask(client, path=f"{ORDERS}?snapshots=all", headers={"X-Asked": "by a client"})
    assert (response.status, version(body)) == (200, "0")
    assert response.headers["X-Told"] == "by the catalog"
    ((method, path, headers, _),) = upstream.reached
    assert (method, path, headers["X-Asked"]) == ("GET", f"{ORDERS}?snapshots=all", "by a client")
    assert headers["Host"] == upstream.uri.removeprefix("http://")


def test_a_path_in_the_address_of_the_catalog_is_put_before_every_path(upstream):
    with FaultyCatalog(f"{upstream.uri}/catalog/") as catalog:
        port = int(catalog.uri.rpartition(":")[2])
        ask(HTTPConnection("127.0.0.1", port, timeout=5), headers={"Connection": "close"})
    assert upstream.paths("GET") == ["/catalog" + ORDERS]


def test_an_address_that_is_not_of_http_is_refused():
    with pytest.raises(ValueError, match="Cannot stand in front of 's3://bucket'"):
        FaultyCatalog("s3://bucket")


def test_compressed_answers_stay_compressed(client):
    response, body = ask(client, headers={"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    assert version(gzip.decompress(body)) == "0"


def test_a_compressed_commit_reaches_the_catalog_and_the_ledger_reads_it(catalog, client, upstream):
    ask(client, "POST", body=gzip.compress(COMMIT), headers={"Content-Encoding": "gzip"})
    assert gzip.decompress(upstream.reached[0][3]) == COMMIT
    assert catalog.ledger.commits("shop.orders")[0].requirements == ({"type": "assert-create"},)


def test_chunked_bodies_arrive_whole_in_both_directions(client, upstream):
    upstream.chunked = True
    client.request("POST", ORDERS, iter([COMMIT[:5], COMMIT[5:]]), {"X-A": "1"}, encode_chunked=True)
    response = client.getresponse()
    assert version(response.read()) == "1"
    assert upstream.reached[0][3] == COMMIT


def test_answers_without_a_body_end_and_the_connection_stays(client):
    assert ask(client, "HEAD")[1] == b""
    assert ask(client, "DELETE", "/v1/nothing")[0].status == 204
    used = client.sock
    assert ask(client)[0].status == 200
    assert client.sock is used


def test_a_client_that_waits_to_be_told_to_go_on_is_told(client, upstream):
    head = (
        f"POST {ORDERS} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(COMMIT)}\r\nExpect: 100-continue\r\n\r\n"
    )
    client.connect()
    client.sock.sendall(head.encode())
    assert client.sock.recv(100).startswith(b"HTTP/1.1 100")
    client.sock.sendall(COMMIT)
    assert client.sock.recv(100).startswith(b"HTTP/1.1 200")
    assert upstream.reached[0][3] == COMMIT


@pytest.mark.parametrize("head", ["Content-Length: 50\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n5\r\n{"])
def test_a_request_that_was_not_sent_whole_does_not_reach_the_catalog(client, upstream, head):
    client.connect()
    client.sock.sendall(f"POST {ORDERS} HTTP/1.1\r\n{head}".encode())
    client.sock.shutdown(socket.SHUT_WR)
    assert client.sock.recv(100) == b""
    assert upstream.reached == []


@pytest.mark.parametrize("code", GATEWAY)
def test_a_failure_before_applying_reaches_no_catalog(catalog, client, upstream, code):
    planned(catalog, f"fail_{code}")
    response, body = commit(client)
    assert (response.status, json.loads(body)["error"]["code"]) == (code, code)
    assert upstream.reached == []
    assert catalog.ledger.entries == ()


@pytest.mark.parametrize("code", GATEWAY)
def test_a_failure_after_applying_is_in_the_ledger_as_applied(catalog, client, upstream, code):
    planned(catalog, f"apply_{code}")
    assert commit(client)[0].status == code
    assert upstream.paths("POST") == [ORDERS]
    assert statuses(catalog) == [200]
    assert len(catalog.ledger.commits("shop.orders")) == 1


@pytest.mark.parametrize(
    "action", ["fail_503", "apply_500", "conflict", "too_many", "unauthorized", "cut_json"]
)
def test_after_an_answered_fault_the_same_connection_goes_on(catalog, client, action):
    planned(catalog, action)
    commit(client)
    used = client.sock
    assert commit(client)[0].status == 200
    assert client.sock is used


@pytest.mark.parametrize(("action", "applied"), [("reset", 0), ("apply_reset", 1)])
def test_a_reset_is_a_reset_before_or_after_applying(catalog, client, upstream, action, applied):
    planned(catalog, action)
    client.request("POST", ORDERS, COMMIT)
    with pytest.raises(ConnectionResetError) as failure:
        client.getresponse()
    assert not isinstance(failure.value, RemoteDisconnected)
    assert len(upstream.reached) == len(catalog.ledger.commits()) == applied


@pytest.mark.parametrize(("action", "applied"), [("hang", 0), ("apply_hang", 1)])
def test_a_hang_lasts_until_the_client_gives_up(catalog, client, upstream, action, applied):
    planned(catalog, action)
    client.timeout = 0.1
    client.request("POST", ORDERS, COMMIT)
    with pytest.raises(TimeoutError):
        client.getresponse()
    assert len(upstream.reached) == len(catalog.ledger.commits()) == applied
    assert len(catalog.fired) == 1


def test_a_hang_ends_by_itself_after_its_seconds(catalog, client):
    planned(catalog, "hang", seconds=0.05)
    client.request("POST", ORDERS, COMMIT)
    with pytest.raises(RemoteDisconnected):
        client.getresponse()


def test_closing_ends_a_hang(catalog, client):
    planned(catalog, "hang", seconds=600)
    client.request("POST", ORDERS, COMMIT)
    wait_until(lambda: bool(catalog.fired), "the fault", 5)
    start = time.monotonic()
    catalog.close()
    assert time.monotonic() - start < 2
    with pytest.raises(RemoteDisconnected):
        client.getresponse()


def test_a_conflict_may_be_told_of_a_commit_that_landed(catalog, client, upstream):
    planned(catalog, "conflict_landed")
    response, body = commit(client)
    assert (response.status, json.loads(body)["error"]["type"]) == (409, "CommitFailedException")
    assert upstream.versions[ORDERS] == len(catalog.ledger.commits()) == 1


def test_a_conflict_may_be_told_without_applying(catalog, client, upstream):
    planned(catalog, "conflict")
    assert commit(client)[0].status == 409
    assert upstream.reached == []


def test_too_many_requests_says_when_to_come_again(catalog, client, upstream):
    planned(catalog, "too_many", seconds=7)
    response, _ = commit(client)
    assert (response.status, response.headers["Retry-After"]) == (429, "7")
    assert upstream.reached == []


def test_the_credentials_may_be_refused_between_load_and_commit(catalog, client, upstream):
    planned(catalog, "unauthorized")
    assert ask(client)[0].status == 200
    assert commit(client)[0].status == 401
    assert upstream.paths("POST") == []


def test_a_redirect_points_to_the_same_path_at_another_host(catalog, client, upstream):
    planned(catalog, "redirect", to="http://elsewhere:8181/")
    response, body = commit(client)
    assert (response.status, response.headers["Location"]) == (302, f"http://elsewhere:8181{ORDERS}")
    assert (body, upstream.reached) == (b"", [])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_json_that_was_cut_is_whole_for_http_and_not_for_json(catalog, client, seed, encoding):
    planned(catalog, "cut_json", seed=seed)
    response, body = ask(client, "POST", body=COMMIT, headers={"Accept-Encoding": encoding})
    assert response.status == 200
    assert int(response.headers["Content-Length"]) == len(body)
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)
    assert len(catalog.ledger.commits()) == 1


def test_what_has_no_json_is_not_cut_and_the_fault_has_not_fired(catalog, client):
    planned(catalog, "cut_json", "catalog.any")
    assert ask(client, "DELETE", "/v1/nothing")[0].status == 204
    assert catalog.fired == ()
    assert len(catalog.unfired) == 1


def test_a_lie_shows_the_snapshot_and_the_properties_that_nobody_has(catalog, client, upstream):
    snapshot = {"snapshot-id": 5, "sequence-number": 1, "timestamp-ms": 10, "summary": {"calve.commit": "c"}}
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 5},
        {"action": "set-properties", "updates": {"calve.sink.orders": "{}"}},
        {"action": "remove-properties", "removals": ["version"]},
    ]
    planned(catalog, "lie")
    response, body = ask(client, "POST", body=json.dumps({"updates": updates}))
    told = json.loads(body)["metadata"]
    assert response.status == 200
    assert told["snapshots"] == [snapshot]
    assert (told["current-snapshot-id"], told["refs"]["main"]["snapshot-id"]) == (5, 5)
    assert told["properties"] == {"calve.sink.orders": "{}"}
    assert upstream.paths("POST") == []
    assert [entry.asked_by for entry in catalog.ledger.entries] == ["proxy"]
    assert catalog.ledger.commits() == ()


def test_a_lie_about_several_tables_is_an_empty_answer(catalog, client, upstream):
    planned(catalog, "lie")
    response, _ = ask(client, "POST", "/v1/transactions/commit", b'{"table-changes": []}')
    assert (response.status, upstream.reached) == (204, [])


def test_a_stale_table_is_served_for_as_many_loads_as_planned(catalog, client):
    planned(catalog, "stale", "catalog.load", nth=2, loads=3)
    ask(client)
    commit(client)
    assert [version(ask(client)[1]) for _ in range(4)] == ["0", "0", "0", "1"]
    assert len(catalog.fired) == 1
    assert statuses(catalog) == [200] * 6


def test_a_stale_table_is_older_than_the_present_one_even_if_that_was_seen(catalog, client):
    planned(catalog, "stale", "catalog.load", nth=3)
    ask(client)
    commit(client)
    ask(client)
    assert version(ask(client)[1]) == "0"


def test_a_client_that_knows_the_present_table_is_told_of_no_change_unless_it_is_to_get_an_older_one(
    catalog, client
):
    planned(catalog, "stale", "catalog.load", nth=3)
    older = ask(client)[0].headers["ETag"]
    known = {"If-None-Match": commit(client)[0].headers["ETag"]}
    assert ask(client, headers=known)[0].status == 304
    response, body = ask(client, headers=known)
    assert (response.status, response.headers["ETag"], version(body)) == (200, older, "0")


def test_another_table_is_not_stale(catalog, client):
    planned(catalog, "stale", "catalog.load", nth=2, loads=5)
    ask(client)
    commit(client)
    ask(client)
    assert ask(client, path=f"{ORDERS}_too")[0].status == 200
    assert version(ask(client)[1]) == "0"


def test_a_table_that_was_never_older_is_served_as_it_is_and_the_fault_has_not_fired(catalog, client):
    planned(catalog, "stale", "catalog.load")
    assert version(ask(client)[1]) == "0"
    assert catalog.fired == ()


def test_a_late_commit_lands_just_before_the_next_one(catalog, client, upstream):
    planned(catalog, "late")
    assert commit(client)[0].status == 504
    assert version(ask(client)[1]) == "0"
    assert ask(client, "POST", body=b'{"updates": [{"action": "second"}]}')[0].status == 200
    assert [bool(one.updates) for one in catalog.ledger.commits("shop.orders")] == [False, True]
    assert upstream.versions[ORDERS] == 2


def test_a_late_commit_is_forgotten_when_another_plan_begins(catalog, client, upstream):
    planned(catalog, "late")
    commit(client)
    catalog.load([])
    commit(client)
    assert upstream.versions[ORDERS] == 1


def test_the_nth_request_of_its_kind_is_the_one(catalog, client):
    catalog.load(
        [CatalogFault("catalog.commit", nth=2), CatalogFault("catalog.any", nth=5, action="fail_500")]
    )
    asked = [commit(client), ask(client), commit(client), commit(client), ask(client), ask(client)]
    assert [response.status for response, _ in asked] == [200, 200, 503, 200, 500, 200]
    assert catalog.unfired == ()


def test_a_new_plan_begins_to_count_anew(catalog, client):
    planned(catalog, "fail_500")
    commit(client)
    planned(catalog, "fail_502")
    assert catalog.fired == ()
    assert commit(client)[0].status == 502
    assert [fault.action for fault in catalog.fired] == ["fail_502"]


def test_requests_at_once_are_each_counted_once(catalog, upstream):
    catalog.load([CatalogFault("catalog.commit", nth=nth) for nth in range(2, 42, 2)])
    port = int(catalog.uri.rpartition(":")[2])

    def commits(_):
        with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as client:
            return [commit(client)[0].status for _ in range(10)]

    with ThreadPoolExecutor(4) as pool:
        found = [status for four in pool.map(commits, range(4)) for status in four]
    assert (found.count(503), found.count(200)) == (20, 20)
    assert len(catalog.ledger.commits()) == upstream.versions[ORDERS] == 20
    assert catalog.unfired == ()


def test_one_hanging_request_does_not_hold_up_another(catalog, client):
    planned(catalog, "hang", seconds=600)
    silent = HTTPConnection("127.0.0.1", client.port, timeout=5)
    silent.request("POST", ORDERS, COMMIT)
    wait_until(lambda: bool(catalog.fired), "the fault", 5)
    assert commit(client)[0].status == 200
    silent.close()


def test_the_trace_tells_what_was_done_to_which_request(upstream, tmp_path):
    plan = [CatalogFault("catalog.commit", action="apply_500", seed=3)]
    with FaultyCatalog(upstream.uri, plan, tmp_path / "trace") as catalog:
        client = HTTPConnection("127.0.0.1", int(catalog.uri.rpartition(":")[2]), timeout=5)
        commit(client)
        client.close()
    line = json.loads((tmp_path / "trace").read_text())
    assert (line["point"], line["nth"], line["action"], line["seed"]) == ("catalog.commit", 1, "apply_500", 3)
    assert (line["method"], line["path"], line["table"], line["status"]) == (
        "POST",
        ORDERS,
        "shop.orders",
        200,
    )


def test_the_ledger_knows_a_refusal_of_the_catalog_from_one_of_the_proxy(catalog, client):
    response, _ = ask(client, "POST", "/refused/namespaces/shop/tables/orders", COMMIT)
    (entry,) = catalog.ledger.entries
    assert response.status == entry.status == 409
    assert (entry.error, entry.applied) == ("the base has moved", False)
    assert catalog.ledger.commits() == ()


def test_a_catalog_that_does_not_answer_is_told_as_such(catalog, client, upstream):
    upstream.close()
    response, _ = commit(client)
    (entry,) = catalog.ledger.entries
    assert (response.status, entry.status, entry.applied) == (502, None, False)
    assert "ConnectionRefusedError" in entry.error


def test_closing_twice_is_closing_once_and_nothing_listens_any_more(upstream):
    before = threading.active_count()
    catalog = FaultyCatalog(upstream.uri)
    port = int(catalog.uri.rpartition(":")[2])
    catalog.close()
    catalog.close()
    assert threading.active_count() <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)
