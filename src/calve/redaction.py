"""Every secret value that this process has revealed, and texts without them, in whatever encoding."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import threading
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus

SHORTEST = 8
"""Shorter values are not looked for: they would be found in words that have nothing to do with them."""

SHOWN = "***"

PASSING = 3_000
"""How many tokens and keys that are good for a while are looked for: with every table come new ones."""

_LINES_FROM = 16


class Register:
    """The values that are taken out of texts."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._passing: deque[str] = deque()
        self._counts: Counter[str] = Counter()
        # Every form of every value, in lower case and as it is, by its beginning: a text is looked through
        # once, however many there are.
        self._forms: dict[str, tuple[tuple[str, str], ...]] = {}
        self._lock = threading.Lock()

    def add(self, value: str, passing: bool) -> None:
        if value in self._known:
            return
        with self._lock:
            self._known.add(value)
            self._look_for(_forms_of(value))
            if passing:
                self._passing.append(value)
            if len(self._passing) > PASSING:
                self._forget(self._passing.popleft())

    def found(self, text: str) -> set[str]:
        """The forms that are in `text`."""
        folded = text.casefold()
        return {
            form
            for at in range(len(folded) - SHORTEST + 1)
            for plain, form in self._forms.get(folded[at : at + SHORTEST], ())
            if folded.startswith(plain, at)
        }

    def _look_for(self, forms: set[str]) -> None:
        self._counts.update(forms)
        for form in forms:
            if self._counts[form] == 1:
                plain = form.casefold()
                begin = plain[:SHORTEST]
                self._forms[begin] = (*self._forms.get(begin, ()), (plain, form))

    def _forget(self, value: str) -> None:
        self._known.discard(value)
        for form in _forms_of(value):
            self._counts[form] -= 1
            if not self._counts[form]:
                del self._counts[form]
                begin = form.casefold()[:SHORTEST]
                self._forms[begin] = tuple(one for one in self._forms[begin] if one[1] != form)
                if not self._forms[begin]:
                    del self._forms[begin]


_register = Register()


def remember(value: str, *, passing: bool = False) -> None:
    """From now on `value` is taken out of texts, and so are the parts of it that are secret by themselves.

    A `passing` one is good for a while only, and forgotten when many others have come after it.
    """
    _register.add(value, passing)


def redacted(text: str) -> str:
    """`text` with *** in place of every secret value that has been revealed."""
    found = sorted(_register.found(text), key=len, reverse=True)
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


def _forms_of(value: str) -> set[str]:
    """The forms of a value, and of the parts of it that are secret by themselves."""
    return {form for part in _parts(value) if len(part) >= SHORTEST for form in forms(part)}


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
