"""What really reached a REST catalog, and what it really answered."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from calve.position import SUMMARY_COMMIT
from calve.testing.wire import Answer, Request, content

Json = dict[str, Any]

_TABLE = re.compile(r"/namespaces/([^/]+)/tables/([^/]+)$")
_TABLES = re.compile(r"/namespaces/([^/]+)/(?:tables|register)$")


@dataclass(frozen=True)
class Commit:
    """What a request asks to change in one table."""

    table: str
    requirements: tuple[Json, ...]
    updates: tuple[Json, ...]

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that it adds; the last one, if it adds several."""
        snapshot = self._snapshot()
        return None if snapshot is None else int(snapshot["snapshot-id"])

    @property
    def commit_id(self) -> str | None:
        """The commit id of Calve in the summary of that snapshot."""
        found = (self._snapshot() or {}).get("summary", {}).get(SUMMARY_COMMIT)
        return None if found is None else str(found)

    def _snapshot(self) -> Json | None:
        added = [update["snapshot"] for update in self.updates if update.get("action") == "add-snapshot"]
        return dict(added[-1]) if added else None


@dataclass(frozen=True)
class Entry:
    """One request that reached the catalog; without a status, its answer was lost on the way to us."""

    method: str
    path: str
    point: str
    table: str | None
    status: int | None
    error: str = ""
    commits: tuple[Commit, ...] = ()
    asked_by: str = "client"

    @property
    def applied(self) -> bool:
        """Whether the catalog says that it did what was asked."""
        return self.status is not None and 200 <= self.status < 300


class Ledger:
    """Every request that reached the catalog, in the order of its answers."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All of them."""
        with self._lock:
            return tuple(self._entries)

    def add(self, request: Request, answer: Answer | None, error: str = "", by: str = "client") -> None:
        """Remember a request and its real answer."""
        entry = Entry(
            method=request.method,
            path=request.path,
            point=point(request),
            table=table(request),
            status=answer.status if answer else None,
            error=_error(answer) if answer else error,
            commits=commits(request),
            asked_by=by,
        )
        with self._lock:
            self._entries.append(entry)

    def commits(self, table: str | None = None) -> tuple[Commit, ...]:
        """The commits that were really applied, to one table or to all."""
        found = (commit for entry in self.entries if entry.applied for commit in entry.commits)
        return tuple(commit for commit in found if table in (None, commit.table))


def point(request: Request) -> str:
    """The point of a plan that a request is; `catalog.any` where it has no name of its own."""
    path = urlsplit(request.path).path
    if request.method == "GET" and path.endswith("/config"):
        return "catalog.config"
    if request.method == "GET" and _TABLE.search(path):
        return "catalog.load"
    if request.method == "POST" and (_TABLE.search(path) or _is_transaction(path)):
        return "catalog.commit"
    if request.method == "POST" and _TABLES.search(path):
        return "catalog.create"
    return "catalog.any"


def table(request: Request) -> str | None:
    """The table that a request is about, as `namespace.name`."""
    path = urlsplit(request.path).path
    if found := _TABLE.search(path):
        return _name(found[1], unquote(found[2]))
    if request.method == "POST" and (found := _TABLES.search(path)):
        return _name(found[1], str(body(request).get("name")))
    return None


def commits(request: Request) -> tuple[Commit, ...]:
    """What a request asks to change, table by table."""
    if point(request) != "catalog.commit":
        return ()
    asked = body(request)
    if _is_transaction(urlsplit(request.path).path):
        changes = asked.get("table-changes", ())
        return tuple(_commit(_identified(change.get("identifier", {})), change) for change in changes)
    return (_commit(str(table(request)), asked),)


def body(message: Request | Answer) -> Json:
    """The JSON object that a message carries; an empty one where it carries none."""
    try:
        found = json.loads(content(message) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _commit(table: str, change: Json) -> Commit:
    return Commit(table, tuple(change.get("requirements", ())), tuple(change.get("updates", ())))


def _is_transaction(path: str) -> bool:
    return path.endswith("/transactions/commit")


def _identified(identifier: Json) -> str:
    return ".".join([*identifier.get("namespace", ()), str(identifier.get("name"))])


def _name(namespace: str, table: str) -> str:
    # The levels of a namespace are parted by the unit separator.
    return f"{unquote(namespace)}.{table}".replace("\x1f", ".")


def _error(answer: Answer) -> str:
    found = body(answer).get("error") if answer.status >= 400 else None
    return str(found.get("message", "")) if isinstance(found, dict) else ""
