"""Asks a catalog of the REST protocol for its settings, before Iceberg's client believes them."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO, Any
from urllib.parse import urlencode

from calve.addresses import host
from calve.catalogs.rest import token_address
from calve.errors import CalveError, ConfigurationError, NotPermitted, Unavailable
from calve.redaction import redacted, remember
from calve.trust import overrides
from calve.trust.policy import Policy

LARGEST = 4 * 2**20
"""No catalog has more than this to say of itself."""

PATIENCE = 30.0


def is_needed(policy: Policy, properties: Mapping[str, str]) -> bool:
    """Whether there is something that a catalog could lead astray, or several addresses to choose from.

    Requests that are signed cannot be sent from here; they hold no secret either.
    """
    signed = properties.get("rest.auth.type") in ("sigv4", "google") or "rest.sigv4-enabled" in properties
    return bool(policy.uris) and not signed and (policy.has_secrets or len(policy.uris) > 1)


def checked(policy: Policy, properties: Mapping[str, str]) -> dict[str, str]:
    """`properties` with the first address of the catalog that answers, whose settings the declaration covers.

    Raises what the last address failed with.
    """
    failure: CalveError | None = None
    for uri in policy.uris:
        here = _at(uri, policy.uris[0], properties)
        try:
            sent = settings(uri, here, policy.catalog)
        except Unavailable as error:
            failure = error
            continue
        overrides.refuse(policy, sent, here)
        return here
    assert failure is not None, "there is an address"
    raise failure


def _at(uri: str, first: str, properties: Mapping[str, str]) -> dict[str, str]:
    """`properties` for the catalog at `uri`; one that gives out tokens itself does so at its own address."""
    found = {**properties, "uri": uri}
    if properties.get("oauth2-server-uri") == token_address(first):
        found["oauth2-server-uri"] = token_address(uri)
    return found


def settings(uri: str, properties: Mapping[str, str], catalog: str) -> dict[str, str]:
    """What the catalog at `uri` wants its clients to be set to."""
    headers = {
        "Accept": "application/json",
        **{
            name.removeprefix("header."): value
            for name, value in properties.items()
            if name.startswith("header.")
        },
        **_authorization(uri, properties, catalog),
    }
    query = {"warehouse": properties["warehouse"]} if "warehouse" in properties else {}
    address = f"{uri.rstrip('/')}/v1/config" + (f"?{urlencode(query)}" if query else "")
    found = _asked(urllib.request.Request(address, headers=headers), catalog)
    return {**_texts(found.get("defaults")), **_texts(found.get("overrides"))}


def _authorization(uri: str, properties: Mapping[str, str], catalog: str) -> dict[str, str]:
    kind = properties.get("rest.auth.type")
    if kind == "basic":
        pair = f"{properties['rest.auth.basic.username']}:{properties['rest.auth.basic.password']}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    if "token" in properties:
        return {"Authorization": f"Bearer {properties['token']}"}
    if "credential" in properties:
        return {"Authorization": f"Bearer {_token(uri, properties, catalog)}"}
    return {}


def _token(uri: str, properties: Mapping[str, str], catalog: str) -> str:
    client, _, secret = properties["credential"].partition(":")
    form = {
        "grant_type": "client_credentials",
        "client_id": client,
        "client_secret": secret,
        "scope": properties.get("scope", "catalog"),
        **{name: properties[name] for name in ("audience", "resource") if name in properties},
    }
    address = properties.get("oauth2-server-uri") or token_address(uri)
    request = urllib.request.Request(
        address,
        urlencode(form).encode(),
        {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
    )
    token = _asked(request, catalog).get("access_token")
    if not isinstance(token, str) or not token:
        raise NotPermitted(f"Cannot use {catalog}: '{host(address)}' gives no token")
    remember(token, passing=True)
    return token


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for an answer: credentials are for the host that was declared."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def _asked(request: urllib.request.Request, catalog: str) -> dict[str, Any]:
    """The JSON object that a server answers with."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    what = f"Cannot use {catalog}: '{host(request.full_url)}'"
    try:
        with opener.open(request, timeout=PATIENCE) as answer:
            body = _body(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(what, error.code, error.headers, _said(error)) from None
    except urllib.error.URLError as error:
        raise _failed(what, error.reason) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _failed(what, error) from None
    if len(body) > LARGEST:
        raise ConfigurationError(
            f"{what} answers with more than {LARGEST >> 20} MiB where settings are expected"
        )
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ConfigurationError(
            f"{what} does not answer as a catalog of Iceberg's REST protocol does; check the path of 'uri'"
        ) from None
    return found if isinstance(found, dict) else {}


def _body(answer: Any) -> bytes:
    """What a server sends, or enough of it to see that it is too much; raises TimeoutError where it drips."""
    deadline, parts, size = time.monotonic() + PATIENCE, list[bytes](), 0
    while size <= LARGEST and (part := answer.read1(2**16)):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError
    if answer.length and size <= LARGEST:
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(parts)


def _said(error: urllib.error.HTTPError) -> bytes:
    """The text beside a refusal; the code counts where it cannot be read."""
    try:
        return _body(error.fp)
    except (OSError, ValueError, http.client.HTTPException):
        return b""


def _failed(what: str, reason: object) -> CalveError:
    if isinstance(reason, ssl.SSLError):
        detail = getattr(reason, "verify_message", "") or getattr(reason, "reason", "") or str(reason)
        return NotPermitted(f"{what} cannot be trusted: TLS: {str(detail).replace('_', ' ').lower()}")
    if isinstance(reason, socket.gaierror):
        return Unavailable(f"{what} cannot be found: the name is not known")
    if isinstance(reason, ConnectionRefusedError):
        return Unavailable(f"{what} does not answer: connection refused")
    if isinstance(reason, http.client.IncompleteRead):
        return Unavailable(f"{what} does not answer: the connection ended before the answer did")
    if isinstance(reason, http.client.HTTPException):
        return Unavailable(f"{what} does not answer as a web server does ({type(reason).__name__})")
    if isinstance(reason, TimeoutError):
        return Unavailable(f"{what} does not answer within {PATIENCE:.0f} s")
    return Unavailable(f"{what} does not answer: {redacted(str(reason))}")


def _refused(what: str, code: int, headers: Message, body: bytes) -> CalveError:
    if 300 <= code < 400:
        there = host(headers.get("Location") or "") or "another address"
        return ConfigurationError(
            f"{what} sends us to '{there}', which is not followed; declare that address"
        )
    said = _message(body)
    told = f" {code}" + (f": {said}" if said else "")
    if code in (401, 403, 419):
        return NotPermitted(f"{what} answers{told}")
    if code in (408, 425, 429) or code >= 500:
        return Unavailable(f"{what} answers{told}")
    return ConfigurationError(f"{what} answers{told}")


def _message(body: bytes) -> str:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(found, dict):
        return ""
    inner = found.get("error")
    text = inner.get("message") if isinstance(inner, dict) else found.get("error_description") or inner
    return redacted(" ".join(str(text or "").split()))[:300]


def _texts(found: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
