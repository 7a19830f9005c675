"""Schemas of a registry that speaks Confluent's protocol: by id, and by subject and version."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from calve.decode.division import Mismatch
from calve.errors import ConfigurationError, NotPermitted, Unavailable

AVRO, JSON = "AVRO", "JSON"
HEADER = 5
_MAGIC = 0
_TIMEOUT = 30
_LARGEST = 16 * 1024 * 1024


@dataclass(frozen=True)
class Registered:
    """A schema as the registry has it; `references` are those that it needs, each before who needs it."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    number: int | None = None
    version: int | None = None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials go to the declared address and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


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
            references = dict(self._references(answer))
        except (AttributeError, KeyError, TypeError):
            raise ConfigurationError(self._strange()) from None
        return Registered(kind, text, tuple(references.items()), answer.get("id"), answer.get("version"))

    def _references(self, answer: Any) -> Iterator[tuple[str, str]]:
        for one in answer.get("references") or ():
            found = self._answer(_path(one["subject"], str(one["version"])))
            yield from self._references(found)
            yield str(one["name"]), found["schema"]

    def _answer(self, path: str) -> Any:
        accept = "application/vnd.schemaregistry.v1+json, application/json"
        headers = {"Accept": accept, **({"Authorization": self.authorization} if self.authorization else {})}
        request = urllib.request.Request(self.url.rstrip("/") + path, headers=headers)
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT) as response:
                return json.loads(response.read(_LARGEST))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error.code) from None
        except OSError as error:
            why = getattr(error, "reason", error)
            raise Unavailable(f"Cannot reach the schema registry at '{self.url}': {why}") from None
        except ValueError:
            raise ConfigurationError(self._strange()) from None

    def _refusal(self, code: int) -> Exception:
        if code == 404:
            return _Missing()
        if code in (401, 403):
            return NotPermitted(f"Cannot use the schema registry at '{self.url}': it answers {code}")
        if code in (408, 429) or code >= 500:
            return Unavailable(f"Cannot use the schema registry at '{self.url}': it answers {code}")
        return ConfigurationError(f"{self._strange()}: it answers {code}")

    def _strange(self) -> str:
        return f"Cannot use '{self.url}' as a schema registry: it does not answer like one"


@lru_cache(maxsize=4096)
def _by_id(registry: SchemaRegistry, number: int) -> Registered:
    try:
        return registry._registered(registry._answer(f"/schemas/ids/{number}"))
    except _Missing:
        raise Mismatch(f"the schema registry has no schema of id {number}", "unknown_schema") from None


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
