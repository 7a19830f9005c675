"""The settings that `options` may hold, as Java's Kafka client and as librdkafka have them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MOST = 2**31 - 1


@dataclass(frozen=True)
class _Number:
    """A number that librdkafka knows by `names`, from `least` up to `most`; `never` is what -1 is there."""

    names: tuple[str, ...]
    least: int
    most: int
    never: int | None = None

    def settings(self, text: str) -> dict[str, Any] | None:
        """None where librdkafka cannot be told."""
        if not re.fullmatch(r"-?\d{1,18}", text):
            return None
        value = self.never if int(text) == -1 and self.never is not None else int(text)
        fits = value == self.never or self.least <= value <= self.most
        return dict.fromkeys(self.names, value) if fits else None


@dataclass(frozen=True)
class _Words:
    """One of some words, and what each is for librdkafka."""

    name: str
    words: Mapping[str, str]

    def settings(self, text: str) -> dict[str, Any] | None:
        found = self.words.get(text.lower())
        return None if found is None else {self.name: found}


@dataclass(frozen=True)
class _Same:
    """A text that is handed on."""

    name: str

    def settings(self, text: str) -> dict[str, Any] | None:
        return {self.name: text} if text else None


@dataclass(frozen=True)
class _Nothing:
    """What librdkafka has no setting for."""

    def settings(self, text: str) -> dict[str, Any] | None:
        return None


_BOTH = {"true": "true", "false": "false"}
_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
_RECORDS = "max.poll.records"
"""Not for librdkafka: how many records are taken at once."""

_AT_ONCE = 10_000

_SAME: Mapping[str, _Number | _Words | _Same | _Nothing] = {
    "check.crcs": _Words("check.crcs", _BOTH),
    "client.dns.lookup": _Words("client.dns.lookup", dict(zip(_LOOKUPS, _LOOKUPS, strict=True))),
    "client.id": _Same("client.id"),
    "client.rack": _Same("client.rack"),
    "connections.max.idle.ms": _Number(("connections.max.idle.ms",), 1, _MOST, never=0),
    "fetch.max.bytes": _Number(("fetch.max.bytes",), 1, _MOST - 512),
    "fetch.max.wait.ms": _Number(("fetch.wait.max.ms",), 0, 300_000),
    "fetch.min.bytes": _Number(("fetch.min.bytes",), 1, 100_000_000),
    "max.partition.fetch.bytes": _Number(("max.partition.fetch.bytes",), 1, 1_000_000_000),
    _RECORDS: _Number((_RECORDS,), 1, 1_000_000),
    "metadata.max.age.ms": _Number(("topic.metadata.refresh.interval.ms",), 1, 3_600_000),
    "receive.buffer.bytes": _Number(("socket.receive.buffer.bytes",), 1, 100_000_000, never=0),
    "reconnect.backoff.max.ms": _Number(("reconnect.backoff.max.ms",), 0, 3_600_000),
    "reconnect.backoff.ms": _Number(("reconnect.backoff.ms",), 0, 3_600_000),
    "request.timeout.ms": _Number(("socket.timeout.ms",), 10, 300_000),
    "retry.backoff.ms": _Number(("retry.backoff.ms", "fetch.error.backoff.ms"), 1, 300_000),
    "send.buffer.bytes": _Number(("socket.send.buffer.bytes",), 1, 100_000_000, never=0),
    "socket.connection.setup.timeout.max.ms": _Nothing(),
    "socket.connection.setup.timeout.ms": _Number(("socket.connection.setup.timeout.ms",), 1_000, _MOST),
    "ssl.endpoint.identification.algorithm": _Words(
        "ssl.endpoint.identification.algorithm", {"https": "https", "": "none"}
    ),
}

SETTINGS = tuple(_SAME)
"""The consumer settings that `options` may hold."""

_OWN = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "check.crcs": "true",
    "fetch.max.bytes": 64 * 2**20,
    "max.partition.fetch.bytes": 2**20,
    "fetch.wait.max.ms": 1,
    "fetch.queue.backoff.ms": 5,
    "queued.max.messages.kbytes": 4 * 2**10,
    "socket.timeout.ms": 30_000,
    "max.poll.interval.ms": 86_400_000,
    "log_level": 0,
}
"""What is set unless `options` say otherwise. Only what is there already is read, so nothing is waited for;
and what a consumer fetches ahead of the end of its range is thrown away."""


def why_java(options: Mapping[str, str], protocol: str, has_ca: bool) -> str | None:
    """Why Spark's own source has to read: what librdkafka cannot be told; None where it can."""
    if "SSL" in protocol and not has_ca:
        return "ssl_ca is left out, so that the certificates of Java are trusted"
    told = dict(_librdkafka(options))
    for name, found in told.items():
        if found is None:
            return f"librdkafka has no such {name}"
    made = settings(options)
    if made["fetch.wait.max.ms"] + 1_000 > made["socket.timeout.ms"]:
        return "librdkafka wants request.timeout.ms a second above fetch.max.wait.ms"
    return None


def _librdkafka(options: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    for name, value in options.items():
        yield name, _SAME[name].settings(value.strip())


def settings(options: Mapping[str, str]) -> dict[str, Any]:
    """What librdkafka is told; `max.poll.records` is left out."""
    made: dict[str, Any] = dict(_OWN)
    for _, found in _librdkafka(options):
        made |= found or {}
    made.pop(_RECORDS, None)
    if "retry.backoff.ms" in made:
        made["retry.backoff.max.ms"] = max(1_000, made["retry.backoff.ms"])
    # librdkafka does not fetch less at once than a message may have, nor queue less than is fetched.
    made["message.max.bytes"] = min(1_000_000, max(1_000, made["fetch.max.bytes"]))
    return made


def records_at_once(options: Mapping[str, str]) -> int:
    """How many records are decoded at once."""
    return int(options.get(_RECORDS, _AT_ONCE))
