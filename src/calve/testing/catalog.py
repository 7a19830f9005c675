"""A REST catalog with planned faults: a proxy in front of a real one, and the ledger of what reached it."""

from __future__ import annotations

import socket
import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from types import TracebackType

from calve.testing import answers, ledger
from calve.testing.faults import CatalogFault, Schedule, Trace
from calve.testing.ledger import Ledger, body
from calve.testing.listener import HOST, Listener
from calve.testing.wire import Answer, Outcome, Request, Speaker, Upstream, content, header, without

_REMEMBERED = 3
_CARRIED = ("content-type", "etag")


class FaultyCatalog:
    """A proxy for a REST catalog that does the faults of a plan; it serves until it is closed.

    `trace` is a file that each fault is written to when it fires, before the client can notice it.
    A catalog that does not answer within `timeout` seconds is answered for with 502.
    """

    def __init__(
        self,
        upstream_uri: str,
        plan: Iterable[CatalogFault] = (),
        trace: Path | str | None = None,
        *,
        timeout: float = 60.0,
    ) -> None:
        self.ledger = Ledger()
        self._upstream = Upstream(upstream_uri, timeout)
        self._trace = Trace(trace)
        self._lock = threading.Lock()
        self._versions = _Versions()
        self.load(plan)
        self._listener = Listener(self._serve)

    @property
    def uri(self) -> str:
        """The address that clients are given instead of the catalog's."""
        return f"http://{HOST}:{self._listener.port}"

    @property
    def fired(self) -> tuple[CatalogFault, ...]:
        """The faults of the plan that fired."""
        return tuple(self._schedule.fired)

    @property
    def unfired(self) -> tuple[CatalogFault, ...]:
        """The faults of the plan that did not fire, or not yet."""
        return self._schedule.unfired()

    def load(self, plan: Iterable[CatalogFault]) -> None:
        """Begin another plan: counts, stale tables and late requests are forgotten, the ledger is not."""
        schedule = Schedule(plan)
        with self._lock:
            self._schedule = schedule
            self._stale: dict[str, tuple[Answer, int]] = {}
            self._late: dict[str, list[Request]] = defaultdict(list)

    def close(self) -> None:
        """End every connection and stop serving."""
        self._listener.close()

    def __enter__(self) -> FaultyCatalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve(self, connection: socket.socket) -> None:
        Speaker(connection, self._respond)

    def _respond(self, request: Request) -> Outcome:
        fault = self._schedule.reach(*{ledger.point(request), "catalog.any"})
        if fault is None:
            return self._stale_answer(request) or self._ask(request)
        if fault.action == "stale":
            return self._begin_stale(fault, request)
        if fault.action == "lie":
            return self._lie(fault, request)
        if fault.action == "late":
            self._hold(request)
        return self._do(fault, request)

    def _do(self, fault: CatalogFault, request: Request) -> Outcome:
        real = self._ask(request) if answers.applies(fault) else None
        outcome = answers.outcome(fault, request, real)
        if outcome is None:
            return real or self._ask(request)
        self._fire(fault, request, real)
        return outcome

    def _ask(self, request: Request) -> Answer:
        """The real answer, after what was held back for the same table."""
        for held in self._released(request):
            self._reach_catalog(held)
        return self._reach_catalog(request)

    def _reach_catalog(self, request: Request, by: str = "client") -> Answer:
        try:
            answer = self._upstream.ask(request)
        except (OSError, HTTPException) as error:
            self.ledger.add(request, None, f"{type(error).__name__}: {error}", by)
            return answers.refusal(502, f"the catalog behind the proxy does not answer: {error}")
        self.ledger.add(request, answer, by=by)
        self._versions.remember(request, answer)
        return answer

    def _fire(self, fault: CatalogFault, request: Request, real: Answer | None) -> None:
        self._schedule.fire(fault)
        facts = {"method": request.method, "path": request.path, "table": ledger.table(request)}
        self._trace.add(fault, **facts, status=real.status if real else None)

    def _hold(self, request: Request) -> None:
        with self._lock:
            for commit in ledger.commits(request)[:1]:
                self._late[commit.table].append(request)

    def _released(self, request: Request) -> list[Request]:
        with self._lock:
            tables = [commit.table for commit in ledger.commits(request)]
            return [held for table in tables for held in self._late.pop(table, ())]

    def _lie(self, fault: CatalogFault, request: Request) -> Answer:
        answer = self._pretended(request)
        if answer is None:
            return self._ask(request)
        self._fire(fault, request, None)
        return answer

    def _pretended(self, request: Request) -> Answer | None:
        if ledger.table(request) is None:
            return Answer(204)  # what a transaction over several tables is answered with
        headers = without(request.headers, "content-type", "content-encoding", "accept-encoding")
        loaded = self._reach_catalog(Request("GET", request.path, headers), by="proxy")
        return answers.lie(loaded, ledger.commits(request)[0].updates)

    def _begin_stale(self, fault: CatalogFault, request: Request) -> Answer:
        real, old = self._present_and_old(request)
        if old is None:
            return real
        self._fire(fault, request, real)
        with self._lock:
            self._stale[str(ledger.table(request))] = (old, (fault.loads or 1) - 1)
        return old

    def _stale_answer(self, request: Request) -> Answer | None:
        """The older table, while a load is to get it; the catalog is asked all the same."""
        if ledger.point(request) != "catalog.load":
            return None
        table = str(ledger.table(request))
        with self._lock:
            old, left = self._stale.pop(table, (None, 0))
            if old is None or left == 0:
                return None
            self._stale[table] = (old, left - 1)
        self._present_and_old(request)
        return old

    def _present_and_old(self, request: Request) -> tuple[Answer, Answer | None]:
        real = self._ask(replace(request, headers=without(request.headers, "if-none-match")))
        return real, self._versions.before(request, real)


class _Versions:
    """The last versions of each table that went through the proxy."""

    def __init__(self) -> None:
        self._known: dict[str, deque[tuple[str, Answer]]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self._lock = threading.Lock()

    def remember(self, request: Request, answer: Answer) -> None:
        """Keep the table that an answer brings, if it brings one."""
        table, location = ledger.table(request), _location(answer)
        if table is None or location is None:
            return
        kept = tuple(pair for pair in answer.headers if pair[0].lower() in _CARRIED)
        with self._lock:
            versions = self._known[table]
            if location not in [known for known, _ in versions]:
                versions.append((location, Answer(200, kept, content(answer))))

    def before(self, request: Request, present: Answer) -> Answer | None:
        """The newest version that is not the present one."""
        location = _location(present)
        if location is None:
            return None
        with self._lock:
            known = list(self._known[str(ledger.table(request))])
        return next((answer for other, answer in reversed(known) if other != location), None)


def _location(answer: Answer) -> str | None:
    if answer.status != 200 or "json" not in header(answer, "content-type"):
        return None
    found = body(answer).get("metadata-location")
    return found if isinstance(found, str) else None
