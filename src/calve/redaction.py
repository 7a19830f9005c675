"""Every secret value that this process has revealed, and texts without them, in whatever encoding."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus

SHORTEST = 8
"""Shorter values are not looked for: they would be found in words that have nothing to do with them."""

SHOWN = "***"

PASSING = 300
"""How many tokens and keys that are good for a while are looked for: with every table come new ones."""

_LINES_FROM = 16
_known: dict[str, frozenset[str]] = {}
_passing: deque[str] = deque()
_looked_for: tuple[tuple[str, str], ...] = ()
_lock = threading.Lock()


def remember(value: str, *, passing: bool = False) -> None:
    """From now on `value` is taken out of texts, and so are the parts of it that are secret by themselves.

    A `passing` one is good for a while only, and forgotten when many others have come after it.
    """
    global _looked_for
    if value in _known:
        return
    with _lock:
        parts = (part for part in _parts(value) if len(part) >= SHORTEST)
        _known[value] = frozenset(form for part in parts for form in forms(part))
        if passing:
            _passing.append(value)
        if len(_passing) > PASSING:
            _known.pop(_passing.popleft(), None)
        _looked_for = tuple((form.casefold(), form) for form in frozenset().union(*_known.values()))


def redacted(text: str) -> str:
    """`text` with *** in place of every secret value that has been revealed."""
    # One pattern of all of them would take seconds to compile, each time that one is added.
    folded = text.casefold()
    found = sorted((form for plain, form in _looked_for if plain in folded), key=len, reverse=True)
    return re.sub("|".join(map(re.escape, found)), SHOWN, text, flags=re.IGNORECASE) if found else text


def cleaned(value: Any) -> Any:
    """A value of lists, mappings and scalars with *** in place of secret values in its texts."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [cleaned(inner) for inner in value]
    return value


def forms(value: str) -> set[str]:
    """`value` as it may stand in a text: plain, as URLs, JSON, XML and HTML have it, in base64 and hex."""
    data = value.encode()
    found = {value, data.hex(), *_in_urls(value), *_escaped(value), *_in_base64(data)}
    return {form for form in found if len(form) >= SHORTEST}


def _parts(value: str) -> Iterator[str]:
    """The whole, and what is secret in it: behind an id (`id:secret`), in JSON, in a query, in long lines."""
    yield value
    _, colon, secret = value.partition(":")
    if colon and "\n" not in value and not value.startswith("{"):
        yield secret
    if value.lstrip().startswith("{"):
        yield from _texts(value)
    if "&" in value:
        yield from (text for name, text in parse_qsl(value.lstrip("?")) if _SECRET_NAME.search(name))
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _LINES_FROM and not line.startswith("-----"))


_SECRET_NAME = re.compile(r"key|secret|password|token|^sig", re.IGNORECASE)


def _texts(value: str) -> Iterator[str]:
    try:
        found = json.loads(value)
    except ValueError:
        return
    for name, inner in found.items() if isinstance(found, dict) else ():
        if isinstance(inner, str) and _SECRET_NAME.search(name):
            yield from _parts(inner)


def _in_urls(value: str) -> Iterator[str]:
    yield from (quote(value), quote(value, safe=""), quote(value, safe="!$&'()*+,;=:@/"), quote_plus(value))
    # As Java has it.
    yield quote_plus(value).replace("%2A", "*").replace("~", "%7E")


def _escaped(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        written = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield from (written, written.replace("/", r"\/"), json.dumps(written)[1:-1])
    markup = html.escape(value, quote=False)
    yield markup
    for double in ('"', "&quot;", "&#34;", "&#x22;"):
        for single in ("'", "&apos;", "&#39;", "&#x27;"):
            yield markup.replace('"', double).replace("'", single)


def _in_base64(value: bytes) -> Iterator[str]:
    """What base64 makes of `value` wherever it stands, without what depends on its neighbours."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + value).decode().rstrip("=")
        end = len(text) if (before + len(value)) % 3 == 0 else len(text) - 1
        inner = text[(before * 8 + 5) // 6 : end]
        yield from (inner, inner.replace("+", "-").replace("/", "_"), quote(inner, safe=""))


class Filter(logging.Filter):
    """Takes secret values out of what is logged, stack traces included."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(record.getMessage()), None
        if record.exc_info:
            told = record.exc_text or logging.Formatter().formatException(record.exc_info)
            record.exc_text = redacted(told)
        return True
