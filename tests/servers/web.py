"""Requests to the servers of the tests: past every proxy, and with an answer in plain values."""

import json
import urllib.error
import urllib.request
from typing import Any

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(
    url: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """The status and the body of an answer; raises OSError where there is none. A `body` may be JSON."""
    if body is not None and not isinstance(body, bytes):
        body, headers = json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with _DIRECT.open(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def tell(
    url: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """The JSON of an answer that says yes; raises OSError of any other."""
    status, answer = ask(url, method, body, headers)
    if status >= 300:
        raise OSError(f"{method} {url}: {status} {answer.decode(errors='replace')}")
    return dict(json.loads(answer or b"{}"))


def is_told(url: str, *statuses: int) -> bool:
    """Whether a GET is answered with one of the statuses."""
    try:
        return ask(url)[0] in statuses
    except OSError:
        return False
