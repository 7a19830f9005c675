"""Schemas of a registry that speaks Confluent's protocol: by id, and by subject and version."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from calve import http_client
from calve.decode.division import Mismatch
from calve.errors import ConfigurationError, NotPermitted, Unavailable

AVRO, JSON = "AVRO", "JSON"
HEADER = 5
_MAGIC = 0
_LARGEST = 16 * 1024 * 1024
_NOT_FOUND = (40401, 40402, 40403)
"""What a registry says of a subject, version or id that it does not have; a proxy's 404 says nothing."""
_MOST_REFERENCES = 200
_MOST_UNKNOWN = 100_000
UNKNOWN_FOR = 60.0
"""For how many seconds an id that the registry does not have is not asked for again."""


@dataclass(frozen=True)
class Registered:
    """A schema as the registry has it; `references` are those that it needs, each before who needs it."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    number: int | None = None
    version: int | None = None


class _Missing(Exception):
    """The registry answers that it has no such thing."""


@dataclass(frozen=True)
class SchemaRegistry:
    """Where schemas are asked for. Travels to Python workers: it holds values only."""

    url: str
    authorization: str | None = field(default=None, repr=False)

    def by_id(self, number: int) -> Registered:
        """The schema of an id, asked for once; raises Mismatch where there is none."""
        return _by_id(self, number)

    def of_subject(self, subject: str, version: str) -> Registered:
        """The schema of a subject; raises ConfigurationError where there is none."""
        try:
            return self._registered(self._answer(_path(subject, version)))
        except _Missing:
            what = f"Cannot find subject '{subject}', version {version}, in the schema registry"
            raise ConfigurationError(f"{what} at '{self.url}'; name another with 'subject'") from None

    def _registered(self, answer: Any) -> Registered:
        try:
            kind, text = answer.get("schemaType") or AVRO, answer["schema"]
            references = _References(self).of(answer)
        except (AttributeError, KeyError, TypeError):
            raise ConfigurationError(self._strange()) from None
        return Registered(kind, text, tuple(references.items()), answer.get("id"), answer.get("version"))

    def _answer(self, path: str) -> Any:
        accept = "application/vnd.schemaregistry.v1+json, application/json"
        headers = {"Accept": accept, **({"Authorization": self.authorization} if self.authorization else {})}
        try:
            answer = http_client.ask(self.url.rstrip("/") + path, headers, largest=_LARGEST)
        except (OSError, HTTPException) as error:
            raise Unavailable(f"Cannot reach the schema registry at '{self.url}': {error}") from None
        except http_client.MetadataHost:
            why = "it is where a cloud tells its machines their credentials"
            raise ConfigurationError(f"{self._cannot()}: {why}") from None
        except (http_client.TooLarge, ValueError):
            raise ConfigurationError(self._strange()) from None
        if answer.status != 200:
            raise self._refusal(answer)
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise ConfigurationError(self._strange()) from None

    def _refusal(self, answer: http_client.Answer) -> Exception:
        code = answer.status
        if code == 404 and _error_code(answer.body) in _NOT_FOUND:
            return _Missing()
        if code in (401, 403):
            return NotPermitted(f"{self._cannot()}: it answers {code}")
        if code in (408, 429) or code >= 500:
            return Unavailable(f"{self._cannot()}: it answers {code}")
        return ConfigurationError(f"{self._strange()}: it answers {code}")

    def _cannot(self) -> str:
        return f"Cannot use the schema registry at '{self.url}'"

    def _strange(self) -> str:
        return f"Cannot use '{self.url}' as a schema registry: it does not answer like one"


class _References:
    """The schemas that another refers to, each asked for once."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._texts: dict[tuple[str, str], str] = {}
        self._found: dict[str, str] = {}
        self._asked = 0

    def of(self, answer: Any) -> dict[str, str]:
        """The texts of the schemas by their names, each before those that need it."""
        self._follow(answer, ())
        return self._found

    def _follow(self, answer: Any, above: tuple[tuple[str, str], ...]) -> None:
        for reference in answer.get("references") or ():
            place = str(reference["subject"]), str(reference["version"])
            if place in above:
                self._refuse(f"the references of subject '{place[0]}' form a circle")
            if place not in self._texts:
                self._load(place, above)
            self._found.setdefault(str(reference["name"]), self._texts[place])

    def _load(self, place: tuple[str, str], above: tuple[tuple[str, str], ...]) -> None:
        self._asked += 1
        if self._asked > _MOST_REFERENCES:
            self._refuse(f"a schema has more than {_MOST_REFERENCES} references")
        answer = self._registry._answer(_path(*place))
        self._follow(answer, (*above, place))
        self._texts[place] = answer["schema"]

    def _refuse(self, why: str) -> None:
        raise ConfigurationError(f"{self._registry._cannot()}: {why}")


def _error_code(body: bytes) -> Any:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found.get("error_code") if isinstance(found, dict) else None


class _Unknown:
    """The ids that a registry did not have a moment ago, so that it is not asked for each record."""

    def __init__(self) -> None:
        self._until: dict[tuple[SchemaRegistry, int], float] = {}

    def has(self, registry: SchemaRegistry, number: int) -> bool:
        return time.monotonic() < self._until.get((registry, number), 0)

    def add(self, registry: SchemaRegistry, number: int) -> None:
        if len(self._until) >= _MOST_UNKNOWN:
            self._until.clear()
        self._until[registry, number] = time.monotonic() + UNKNOWN_FOR


_unknown = _Unknown()


def _by_id(registry: SchemaRegistry, number: int) -> Registered:
    if not _unknown.has(registry, number):
        try:
            return _registered(registry, number)
        except _Missing:
            _unknown.add(registry, number)
    raise Mismatch(f"the schema registry has no schema of id {number}", "unknown_schema")


@lru_cache(maxsize=4096)
def _registered(registry: SchemaRegistry, number: int) -> Registered:
    return registry._registered(registry._answer(f"/schemas/ids/{number}"))


def _path(subject: str, version: str) -> str:
    return f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"


def has_id(value: bytes) -> bool:
    """Whether a record begins as one does that says the id of its schema."""
    return len(value) >= HEADER and value[0] == _MAGIC


def stated_id(value: bytes | None) -> int | None:
    """The id that a record begins with, if it does, as a number of 32 bits."""
    return int.from_bytes(value[1:HEADER], "big", signed=True) if value and has_id(value) else None


def schema_id(value: bytes) -> int:
    """The id of the schema that a record is written with; raises Mismatch."""
    if not has_id(value):
        raise Mismatch("it does not begin with the id of a schema")
    return int.from_bytes(value[1:HEADER], "big")
