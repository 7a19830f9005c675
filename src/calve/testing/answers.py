"""The answers of a faulty catalog. Pure."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterable

from calve.testing.faults import CatalogFault
from calve.testing.ledger import Json, body
from calve.testing.wire import Answer, Break, Outcome, Request, content, without

_JSON = ("Content-Type", "application/json")
_STATUS = {"conflict": 409, "conflict_landed": 409, "too_many": 429, "unauthorized": 401, "late": 504}
_TYPES = {
    401: "NotAuthorizedException",
    409: "CommitFailedException",
    429: "TooManyRequestsException",
    500: "InternalServerError",
    502: "BadGateway",
    503: "ServiceUnavailableException",
    504: "GatewayTimeout",
}


def applies(fault: CatalogFault) -> bool:
    """Whether the request of a fault goes to the catalog before it is answered."""
    return fault.action.startswith("apply_") or fault.action in ("conflict_landed", "cut_json")


def outcome(fault: CatalogFault, request: Request, real: Answer | None) -> Outcome | None:
    """What the client gets for a request that was really answered so; nothing if the fault cannot be done."""
    kind = fault.action.removeprefix("apply_")
    if kind == "reset":
        return Break()
    if kind == "hang":
        return Break(silent_for=fault.wait)
    if kind == "cut_json":
        return None if real is None else cut(real, fault.seed)
    if kind == "redirect":
        return Answer(302, (("Location", str(fault.to).rstrip("/") + request.path),))
    status = _STATUS[kind] if kind in _STATUS else int(kind.removeprefix("fail_"))
    extra = (("Retry-After", f"{fault.wait:.0f}"),) if kind == "too_many" else ()
    return refusal(status, f"a planned fault: {fault.action}", *extra)


def refusal(status: int, message: str, *headers: tuple[str, str]) -> Answer:
    """An error as a REST catalog tells it."""
    error = {"message": message, "type": _TYPES[status], "code": status}
    return Answer(status, (_JSON, *headers), json.dumps({"error": error}).encode())


def cut(real: Answer, seed: int) -> Answer | None:
    """An answer whose JSON ends early, though HTTP says that it is whole."""
    text = content(real).rstrip()
    if len(text) < 2:
        return None
    length = random.Random(seed).randrange(1, len(text))
    return Answer(real.status, without(real.headers, "content-encoding"), text[:length])


def lie(loaded: Answer, updates: Iterable[Json]) -> Answer | None:
    """The answer to a commit as if its snapshots and properties were in the table that was loaded."""
    table = body(loaded)
    if loaded.status != 200 or not {"metadata", "metadata-location"} <= table.keys():
        return None
    folder = str(table["metadata-location"]).rpartition("/")[0]
    metadata = pretended(table["metadata"], updates)
    location = f"{folder}/{uuid.uuid4()}.metadata.json"
    return Answer(200, (_JSON,), json.dumps({"metadata-location": location, "metadata": metadata}).encode())


def pretended(metadata: Json, updates: Iterable[Json]) -> Json:
    """Metadata with the snapshots, references and properties of `updates`; other updates are left out."""
    result: Json = json.loads(json.dumps(metadata))
    for update in updates:
        action = update.get("action")
        if action == "add-snapshot":
            _add_snapshot(result, update["snapshot"])
        elif action == "set-snapshot-ref":
            _set_reference(result, update)
        elif action == "set-properties":
            result.setdefault("properties", {}).update(update["updates"])
        elif action == "remove-properties":
            for key in update["removals"]:
                result.get("properties", {}).pop(key, None)
    return result


def _add_snapshot(metadata: Json, snapshot: Json) -> None:
    metadata.setdefault("snapshots", []).append(snapshot)
    metadata["last-sequence-number"] = snapshot.get(
        "sequence-number", metadata.get("last-sequence-number", 0)
    )
    metadata["last-updated-ms"] = max(snapshot["timestamp-ms"], metadata.get("last-updated-ms", 0))
    if "next-row-id" in metadata:
        metadata["next-row-id"] += snapshot.get("added-rows", 0)


def _set_reference(metadata: Json, update: Json) -> None:
    name, snapshot_id = update["ref-name"], update["snapshot-id"]
    reference = {key: value for key, value in update.items() if key not in ("action", "ref-name")}
    metadata.setdefault("refs", {})[name] = reference
    if name == "main":
        metadata["current-snapshot-id"] = snapshot_id
        entry = {"snapshot-id": snapshot_id, "timestamp-ms": metadata["last-updated-ms"]}
        metadata.setdefault("snapshot-log", []).append(entry)
