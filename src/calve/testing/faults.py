"""Plans of faults: one format for crash points and for the faulty catalog, and a trace of what fired.

A plan is a JSON list of `{"point", "nth", "action", "seed"}`. The `nth` time (from 1) that `point` is
reached, `action` is done. Points of the process are those of `calve.crash`; points of the catalog are
kinds of requests, counted by `calve.testing.catalog`.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from calve import crash
from calve.model import suggestion

POINTS = {
    "catalog.config": "the catalog's configuration is asked for",
    "catalog.load": "a table is loaded",
    "catalog.create": "a table is created",
    "catalog.commit": "a table is changed, alone or with others in one transaction",
    "catalog.any": "any request",
}

_GATEWAY = (500, 502, 503, 504)

ACTIONS = {
    **{f"fail_{code}": f"answer {code}; nothing is applied" for code in _GATEWAY},
    **{f"apply_{code}": f"apply, then answer {code}" for code in _GATEWAY},
    "hang": "stay silent until the client gives up or `seconds` have passed; nothing is applied",
    "apply_hang": "apply, then stay silent until the client gives up or `seconds` have passed",
    "reset": "reset the connection (RST); nothing is applied",
    "apply_reset": "apply, then reset the connection (RST)",
    "conflict": "answer 409; nothing is applied",
    "conflict_landed": "apply, then answer 409",
    "too_many": "answer 429 with a Retry-After of `seconds`; nothing is applied",
    "unauthorized": "answer 401; nothing is applied",
    "redirect": "answer 302 to the same path at `to`; nothing is applied",
    "cut_json": "apply, then cut the JSON of the answer short at a place that `seed` chooses",
    "late": "answer 504; apply just before the next commit to the same table",
    "lie": "answer as if it had been applied; nothing is applied",
    "stale": "answer the next `loads` loads of the table with what it was before",
}

_ONLY_AT = {"late": "catalog.commit", "lie": "catalog.commit", "stale": "catalog.load"}
_KEYS = {"seconds": ("hang", "apply_hang", "too_many"), "loads": ("stale",), "to": ("redirect",)}
_DEFAULT_SECONDS = {"too_many": 1.0}
LONGEST_HANG = 600.0


@dataclass(frozen=True)
class CatalogFault:
    """One planned fault of a catalog."""

    point: str
    nth: int = 1
    action: str = "fail_503"
    seed: int = 0
    seconds: float | None = None
    loads: int | None = None
    to: str | None = None

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ValueError(f"Cannot plan a fault at '{self.point}': {problem}")

    @property
    def wait(self) -> float:
        """How long a hang lasts at most, or a client is told to wait, in seconds."""
        return _DEFAULT_SECONDS.get(self.action, 30.0) if self.seconds is None else self.seconds


Plan = tuple[crash.Fault | CatalogFault, ...]


def parse(text: str) -> Plan:
    """The plan that a JSON text holds; raises ValueError with the number of the fault that is wrong."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"Cannot read a plan of faults: not JSON: {error}") from error
    if not isinstance(found, list):
        raise ValueError("Cannot read a plan of faults: not a list")
    return tuple(_fault(number, one) for number, one in enumerate(found, 1))


def read(path: Path) -> Plan:
    """The plan that a file holds."""
    return parse(path.read_text())


def dump(plan: Iterable[crash.Fault | CatalogFault]) -> str:
    """The JSON text of a plan."""
    return json.dumps([_values(fault) for fault in plan])


def for_process(plan: Plan) -> tuple[crash.Fault, ...]:
    """The faults of a plan that `calve.crash` does."""
    return tuple(fault for fault in plan if isinstance(fault, crash.Fault))


def for_catalog(plan: Plan) -> tuple[CatalogFault, ...]:
    """The faults of a plan that a faulty catalog does."""
    return tuple(fault for fault in plan if isinstance(fault, CatalogFault))


class Schedule:
    """A plan that is being done: how often each point was reached, and what fired."""

    def __init__(self, plan: Iterable[CatalogFault]) -> None:
        self.plan = tuple(plan)
        self.fired: list[CatalogFault] = []
        self._reached: Counter[str] = Counter()
        self._lock = threading.Lock()
        for place, count in Counter((fault.point, fault.nth) for fault in self.plan).items():
            if count > 1:
                raise ValueError(
                    f"Cannot plan {count} faults at '{place[0]}', nth {place[1]}: only one can fire"
                )

    def reach(self, *points: str) -> CatalogFault | None:
        """Count one more time at `points`, and tell the fault that is due: the first of the plan."""
        with self._lock:
            self._reached.update(points)
            due = (f for f in self.plan if f.point in points and f.nth == self._reached[f.point])
            return next(due, None)

    def fire(self, fault: CatalogFault) -> None:
        """Remember that a fault was done; one of an earlier plan is none of ours."""
        with self._lock:
            if fault in self.plan:
                self.fired.append(fault)

    def unfired(self) -> tuple[CatalogFault, ...]:
        """The faults of the plan that have not fired."""
        return tuple(fault for fault in self.plan if fault not in self.fired)


class Trace:
    """What fired, as synced JSON lines in a file; several processes may write to one."""

    def __init__(self, path: Path | str | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()

    def add(self, fault: CatalogFault, **facts: object) -> None:
        """Write one line: the fault, and the request that it was done to."""
        if self._path is None:
            return
        line = json.dumps({**_values(fault), **facts, "pid": os.getpid()}) + "\n"
        with self._lock, open(self._path, "a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def _values(fault: crash.Fault | CatalogFault) -> dict[str, Any]:
    return {key: value for key, value in asdict(fault).items() if value is not None}


def _fault(number: int, values: object) -> crash.Fault | CatalogFault:
    if not isinstance(values, Mapping) or not isinstance(values.get("point"), str):
        raise ValueError(f"Cannot read fault {number} of a plan: not an object with a 'point'")
    point = values["point"]
    kind = CatalogFault if point.startswith("catalog.") else crash.Fault
    known = [field.name for field in fields(kind)]
    for key in values:
        if key not in known:
            raise ValueError(
                f"Cannot read fault {number} of a plan: unknown key '{key}'{suggestion(key, known)}"
            )
    try:
        return CatalogFault(**values) if kind is CatalogFault else _crash(values)
    except ValueError as error:
        raise ValueError(f"{error} (fault {number})") from error


def _crash(values: Mapping[str, Any]) -> crash.Fault:
    fault = crash.Fault(**values)
    actions = ("kill", "stop", "term", "raise")
    for problem in (*_counted(fault), *_known("action", fault.action, actions)):
        raise ValueError(f"Cannot plan a fault at '{fault.point}': {problem}")
    return fault


def _problems(fault: CatalogFault) -> Iterable[str]:
    yield from _known("point", fault.point, POINTS)
    yield from _known("action", fault.action, ACTIONS)
    yield from _counted(fault)
    place = _ONLY_AT.get(fault.action, fault.point)
    if fault.point != place:
        yield f"action '{fault.action}' is only possible at '{place}'"
    for key, actions in _KEYS.items():
        if getattr(fault, key) is not None and fault.action not in actions:
            yield f"'{key}' has no effect with action '{fault.action}', only with {', '.join(actions)}"
    yield from _values_out_of_range(fault)


def _values_out_of_range(fault: CatalogFault) -> Iterable[str]:
    if not _is_number(fault.wait) or not 0 <= fault.wait <= LONGEST_HANG:
        yield f"'seconds' must be a number from 0 to {LONGEST_HANG:.0f}, not {fault.seconds!r}"
    if fault.loads is not None and (type(fault.loads) is not int or fault.loads < 1):
        yield f"'loads' must be a number from 1, not {fault.loads!r}"
    if fault.action == "redirect" and not _is_address(fault.to):
        yield f"action 'redirect' needs 'to', the address of another host, not {fault.to!r}"


def _known(what: str, word: object, known: Iterable[str]) -> Iterable[str]:
    if word not in (known := tuple(known)):
        yield f"no such {what} '{word}'{suggestion(str(word), known)}; one of {', '.join(known)}"


def _counted(fault: crash.Fault | CatalogFault) -> Iterable[str]:
    if type(fault.nth) is not int or fault.nth < 1:
        yield f"'nth' must be a number from 1, not {fault.nth!r}"
    if type(fault.seed) is not int:
        yield f"'seed' must be a number, not {fault.seed!r}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_address(text: object) -> bool:
    return (
        isinstance(text, str) and urlsplit(text).scheme in ("http", "https") and bool(urlsplit(text).netloc)
    )
