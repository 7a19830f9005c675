"""A canary in every secret field, and many ways to fail: it is not seen anywhere, in any encoding."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

from calve.cli import app
from calve.runtime import session
from calve.testing.wire import Answer, Request, content
from tests.catalogs.readers import pyiceberg_catalog
from tests.faults.process import Calve
from tests.servers.gates import Gate, as_json
from tests.servers.process import free_port
from tests.servers.web import tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.park import Park

CORE = "Canary7f3a9c2eQmZx41"
CANARY = f"{CORE}/+=&%\"'<{CORE}"
"""A value that every encoding writes differently, around a core that most of them leave as it is."""


def traces(text: str) -> list[str]:
    """Where the canary is in a text: plain, as URLs, JSON and markup have it, in base64 or hexadecimal."""
    return [form for form in _forms() if form.lower() in text.lower()]


def _forms() -> Iterator[str]:
    core = CORE.encode()
    yield CORE
    yield core.hex()
    for before in range(3):
        # What base64 makes of it depends on where it stands, and the outer letters on what is around it.
        middle = base64.b64encode(b"\0" * before + core).decode().rstrip("=")[before + 1 : -2]
        yield from (middle, middle.replace("+", "-").replace("/", "_"))


def test_the_search_finds_the_canary_in_every_encoding() -> None:
    from html import escape
    from urllib.parse import quote

    around = [f"id:{CANARY}", f"ab{CANARY}", f"xyz{CANARY}!"]
    for text in around:
        for told in (text, quote(text), json.dumps(text), escape(text), text.encode().hex(), text.lower()):
            assert traces(told)
        assert traces(base64.b64encode(text.encode()).decode())
        assert traces(base64.urlsafe_b64encode(text.encode()).decode())
    assert not traces("nothing of it is here")


class Echo(Gate):
    """A server that answers every request with a status, and tells in its answer all that it was sent."""

    def __init__(self, status: int, kind: str = "application/json") -> None:
        super().__init__()
        self._status, self._kind = status, kind

    def respond(self, request: Request) -> Answer:
        sent = " ".join([request.path, *(f"{key}: {value}" for key, value in request.headers)])
        body = _text(request)
        told = f"{sent} {body} {_unpacked(sent)}"
        headers = (("Content-Type", self._kind), ("WWW-Authenticate", told.replace("\n", " ")[:500]))
        if self._kind != "application/json":
            return Answer(self._status, headers, told.encode())
        error = {"message": told, "type": "NotAuthorizedException", "code": self._status}
        answer = as_json({"error": error, "error_description": told}, self._status)
        return Answer(answer.status, (*answer.headers, *headers[1:]), answer.body)


def _text(request: Request) -> str:
    try:
        return content(request).decode(errors="replace")
    except ValueError:
        # Amazon's client has a way of its own to send a file.
        return request.body.decode(errors="replace")


def _unpacked(sent: str) -> str:
    """What a server may make of a user and a password."""
    found = re.search(r"Basic (\S+)", sent)
    return base64.b64decode(found[1]).decode(errors="replace") if found else ""


@dataclass(frozen=True)
class Field:
    """A secret field: the keys of a sink that has the canary in it, given the address of its server."""

    name: str
    keys: Callable[[str], dict[str, Any]]
    failures: tuple[str, ...]

    @property
    def verbs(self) -> tuple[list[str], ...]:
        """What fails: a plan of a table that is to be made asks the catalog, and no store."""
        return tuple(verb for verb in VERBS if verb != ["plan"] or self.failures != IN_STORES)


def rest(**keys: Any) -> Callable[[str], dict[str, Any]]:
    return lambda uri: {"catalog": {"type": "rest", "rest": {"uri": uri, **keys}}}


def nessie(**keys: Any) -> Callable[[str], dict[str, Any]]:
    store = {"s3": {"region": "us-east-1"}}
    return lambda uri: {
        "catalog": {"type": "nessie", "nessie": {"uri": f"{uri}/api/v2", **keys}, "warehouse": "s3://lake/n"},
        **store,
    }


def s3tables(**keys: Any) -> Callable[[str], dict[str, Any]]:
    told = {"arn": "arn:aws:s3tables:us-east-1:000000000000:bucket/tables"}
    pair = {"access_key_id": "tests-key-id", "secret_access_key": "tests-secret", "region": "us-east-1"}
    return lambda uri: {
        "catalog": {"type": "s3tables", "s3tables": {**told, "endpoint": f"{uri}/iceberg"}},
        "s3": {**pair, **keys},
    }


def jdbc(kind: str) -> Callable[[str], dict[str, Any]]:
    def keys(uri: str) -> dict[str, Any]:
        address = f"jdbc:{kind}://{uri.partition('://')[2]}/lake"
        told = {"uri": address, "user": "tests", "password": CANARY}
        return {"catalog": {"type": "jdbc", "jdbc": told, "warehouse": "warehouse"}}

    return keys


def on_sqlite(warehouse: str, **store: Any) -> Callable[[str], dict[str, Any]]:
    def keys(uri: str) -> dict[str, Any]:
        catalog = {"type": "jdbc", "jdbc": {"uri": "jdbc:sqlite:catalog.db"}, "warehouse": warehouse}
        filled = {
            name: {**told, "endpoint": uri + str(told.get("endpoint", ""))} for name, told in store.items()
        }
        return {"catalog": catalog, **filled}

    return keys


HTTP = (
    "refused",
    "unknown host",
    "no TLS",
    "echo 401",
    "echo 403",
    "echo 500",
    "echo 200 as text",
    "echo 400",
)
IN_STORES = ("echo 403",)
ANSWERS = ("echo 401", "echo 403", "echo 500")
S3_KEYS = {"access_key_id": "tests-key-id", "region": "us-east-1", "path_style_access": True}
AZURE = {"storage_account": "devstoreaccount1", "endpoint": "/devstoreaccount1"}
GOOGLE_KEY = json.dumps(
    {"type": "service_account", "project_id": "tests", "client_email": "a@b.c", "private_key": CANARY}
)

FIELDS = (
    Field("the secret of OAuth2", rest(credential=f"tests:{CANARY}"), HTTP),
    Field("a bearer token", rest(credential=CANARY.replace(":", "")), HTTP),
    Field("a password", rest(username="tests", password=CANARY), HTTP),
    Field("a header", rest(headers={"X-Key": CANARY}), ("refused", *ANSWERS)),
    Field("a property", rest(properties={"header.X-Other": CANARY}), ("refused", *ANSWERS)),
    Field("a token of Nessie", nessie(token=CANARY), ("refused", *ANSWERS)),
    Field("a password of Nessie", nessie(username="tests", password=CANARY), ("refused", *ANSWERS)),
    Field("a key that signs", s3tables(secret_access_key=CANARY), ("refused", *ANSWERS)),
    Field("a session token", s3tables(session_token=CANARY), ("refused", *ANSWERS)),
    Field("the password of PostgreSQL", jdbc("postgresql"), ("refused", "unknown host", "echo 401")),
    Field("the password of MariaDB", jdbc("mariadb"), ("refused", "unknown host")),
    Field("a key of S3", on_sqlite("s3://lake/t", s3={**S3_KEYS, "secret_access_key": CANARY}), IN_STORES),
    Field(
        "a session token of S3",
        on_sqlite("s3://lake/t", s3={**S3_KEYS, "secret_access_key": "x" * 20, "session_token": CANARY}),
        IN_STORES,
    ),
    Field(
        "the key of Azure",
        on_sqlite(
            "abfss://c@devstoreaccount1.dfs.core.windows.net/t",
            azure={**AZURE, "access_key": base64.b64encode(CANARY.encode()).decode()},
        ),
        IN_STORES,
    ),
    Field(
        "a signature of Azure",
        on_sqlite(
            "abfss://c@devstoreaccount1.dfs.core.windows.net/t",
            azure={**AZURE, "sas_token": f"sv=2021-08-06&sig={CORE}"},
        ),
        IN_STORES,
    ),
    Field(
        "the key of Google",
        on_sqlite("gs://lake/t", gcs={"service_account_key": GOOGLE_KEY}),
        IN_STORES,
    ),
)
VERBS = (["check"], ["run", "--once"], ["plan"], ["check", "--output", "json"], ["run", "--once", "--debug"])
PATHS = [
    (field, failure, field.verbs[number % len(field.verbs)])
    for number, (field, failure) in enumerate(
        (field, failure) for field in FIELDS for failure in field.failures
    )
]

KAFKA = {
    "connector": "kafka",
    "config": {
        "bootstrap_servers": "127.0.0.1:{port}",
        "topics": ["t"],
        "format": "json",
        "schema": "id BIGINT",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "username": "tests",
        "password": CANARY,
    },
}


@pytest.fixture
def server() -> Iterator[Callable[[str], str]]:
    """The address of a server that fails in the way named."""
    made: list[Echo] = []

    def address(failure: str) -> str:
        if failure == "refused":
            return f"http://127.0.0.1:{free_port()}"
        if failure == "unknown host":
            return "https://nowhere.invalid:8181"
        kind = "text/plain" if failure.endswith("as text") else "application/json"
        status = int(failure.split()[1]) if failure.startswith("echo") else 500
        made.append(Echo(status, kind))
        return made[-1].uri.replace("http:", "https:") if failure == "no TLS" else made[-1].uri

    yield address
    for one in made:
        one.close()


def write(folder: Path, keys: dict[str, Any], source: dict[str, Any] | None = None, **more: Any) -> None:
    """A project with one pipeline into a sink with these keys."""
    table = {"namespace": "shop", "table": "orders", "retry_for": "1s"}
    project = {
        "version": "1.0",
        "sources": {"orders": source or {"connector": "datagen", "config": {"rows": 5}}},
        "sinks": {"lake": {"connector": "iceberg", "config": {**keys, **table}}},
        "pipelines": {"orders": {"source": "orders", "sink": "lake"}},
        **more,
    }
    with (folder / "calve.yaml").open("w") as out:
        YAML().dump(project, out)


def left(folder: Path, *but: Path) -> dict[str, str]:
    """Every file below a folder, as text."""
    files = [path for path in folder.rglob("*") if path.is_file() and path not in but]
    return {str(path): path.read_bytes().decode("latin-1") for path in files}


class Kept:
    """The Spark of all tests, which a verb believes to be its own."""

    def __init__(self, spark: SparkSession) -> None:
        self.newSession = spark.newSession

    def stop(self) -> None:
        pass


@dataclass
class Watch:
    """Runs verbs and looks for the canary in everything that comes of it."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    caplog: pytest.LogCaptureFixture
    logs: Path
    said: str = ""

    def run(self, *arguments: str) -> int:
        self.capsys.readouterr()
        self.caplog.clear()
        size = self.logs.stat().st_size
        code = app.run([*arguments, "--config", str(self.folder)])
        out, err = self.capsys.readouterr()
        self.said = out + err
        with self.logs.open(errors="replace") as log:
            log.seek(size)
            spark = log.read()
        places = {"stdout": out, "stderr": err, "log": self.caplog.text, "Spark's log": spark}
        places |= left(self.folder, self.folder / "calve.yaml")
        found = {place: traces(text) for place, text in places.items()}
        assert {place: forms for place, forms in found.items() if forms} == {}
        return code


@pytest.fixture
def watch(
    spark: SparkSession,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Watch:
    monkeypatch.setattr(session, "start", lambda *_: Kept(spark))
    monkeypatch.chdir(tmp_path)
    (logs,) = tmp_path_factory.getbasetemp().glob("spark[0-9]*/spark.log")
    return Watch(tmp_path, capsys, caplog, logs)


def test_there_are_as_many_ways_to_fail_as_are_promised() -> None:
    assert len(PATHS) >= 40
    assert {failure for _, failure, _ in PATHS} == set(HTTP)
    assert len({tuple(verb) for _, _, verb in PATHS}) == len(VERBS)


@pytest.mark.parametrize(
    ("field", "failure", "verb"),
    PATHS,
    ids=[f"{field.name}, {failure}, {' '.join(verb)}" for field, failure, verb in PATHS],
)
def test_a_failure_does_not_tell_the_secret(
    watch: Watch, server: Callable[[str], str], field: Field, failure: str, verb: list[str]
) -> None:
    write(watch.folder, field.keys(server(failure)))
    assert watch.run("validate") == 0
    code = watch.run(*verb)
    assert code in (65, 69, 75, 77, 78), watch.said
    watch.run("status", "--output", "json")


@pytest.mark.parametrize(
    "verb",
    # Kafka's client is waited for, half a minute each time.
    [pytest.param(verb, id=" ".join(verb), marks=[pytest.mark.full] * (verb != VERBS[0])) for verb in VERBS],
)
def test_a_source_that_cannot_be_reached_does_not_tell_its_password(watch: Watch, verb: list[str]) -> None:
    text = json.dumps(KAFKA).replace("{port}", str(free_port()))
    write(watch.folder, {"catalog": {"type": "memory", "warehouse": "warehouse"}}, json.loads(text))
    assert watch.run(*verb) in (69, 75, 77)


WRONG = {
    "a list": lambda keys: {**keys, "credential": [CANARY]},
    "a mapping": lambda keys: {**keys, "credential": {CANARY: CANARY}},
    "in the address": lambda keys: {**keys, "uri": f"http://tests:{CORE}@127.0.0.1:1"},
    "a key that is not known": lambda keys: {**keys, "credentials": CANARY},
    "beside another": lambda keys: {**keys, "credential": CANARY, "username": "u", "password": CANARY},
    "among properties": lambda keys: {**keys, "properties": {"credential": CANARY}},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_declaration_that_is_refused_does_not_tell_the_secret(watch: Watch, wrong: Any) -> None:
    keys = wrong({"uri": "http://127.0.0.1:1"})
    write(watch.folder, {"catalog": {"type": "rest", "rest": keys}})
    assert watch.run("check") != 0
    for verb in (["validate"], ["plan"], ["plan", "--offline"], ["run", "--once"]):
        watch.run(*verb)


def test_a_run_that_succeeds_leaves_the_secret_nowhere(park: Park, tmp_path: Path) -> None:
    """A process of its own, with Spark's event log: what it says, keeps, logs and writes to the table."""
    server, events = park["rest_on_ministack"], tmp_path / "events"
    events.mkdir()
    secret = {"access_key_id": f"{CORE}id", "secret_access_key": CANARY, "session_token": CANARY}
    place = {"endpoint": server.store.endpoint, "region": "us-east-1", "path_style_access": True}
    told = {"uri": server.uri, "credential": CANARY.replace(":", ""), "headers": {"X-Key": CANARY}}
    keys = {"catalog": {"type": "rest", "rest": told}, "s3": {**place, **secret}}
    config = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    calve = Calve(tmp_path / "project", "", is_measured=False)
    write(calve.folder, keys, spark={"master": "local[1]", "driver_memory": "1g", "config": config})
    verbs = ("run --once --debug", "status", "plan", "snapshots orders")
    said = {verb: calve.run(*verb.split()) for verb in verbs}
    assert [code for code, _ in said.values()] == [0] * len(said), said
    places = {verb: text for verb, (_, text) in said.items()}
    places |= left(calve.folder, calve.folder / "calve.yaml") | left(events)
    assert any(str(events) in place for place in places), "there is no event log"
    table = tell(f"{server.uri}/v1/namespaces/shop/tables/orders")
    places["the table"] = json.dumps(table)
    rows = pyiceberg_catalog(server).load_table("shop.orders").scan().to_arrow()
    assert rows.num_rows == 5
    found = {place: traces(text) for place, text in places.items()}
    assert {place: forms for place, forms in found.items() if forms} == {}
