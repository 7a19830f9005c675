"""Hosts and locations: which are of this machine, which are never asked, what lies inside what."""

from __future__ import annotations

import ipaddress
import posixpath
import re
import socket
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator

METADATA_HOSTS = frozenset({"metadata.google.internal", "metadata", "instance-data"})
_METADATA_ADDRESSES = frozenset(
    map(ipaddress.ip_address, ("fd00:ec2::254", "fd00:ec2::23", "100.100.100.200", "168.63.129.16"))
)
"""Those of Amazon, Alibaba and Azure that are not link-local; link-local ones count altogether."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_STORES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "wasb": "azure",
    "wasbs": "azure",
    "hdfs": "hdfs",
    "viewfs": "hdfs",
    "file": "local",
}
_PORTS = {"http": 80, "https": 443, "thrift": 9083}


def _http(value: str) -> str:
    if not re.match(r"https?://[^/]", value):
        raise ValueError("not an address; it begins with http:// or https://")
    return value


HttpAddress = Annotated[str, AfterValidator(_http)]
"""The address of a server that speaks HTTP."""


def host(uri: str) -> str:
    """The host that `uri` names, in lower case; empty where it names none."""
    try:
        return (urlsplit(uri).hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


def port(uri: str) -> int:
    """The port that `uri` names, or the usual one of its scheme."""
    parts = urlsplit(uri)
    return parts.port or _PORTS.get(parts.scheme, 443)


def is_loopback(name: str) -> bool:
    """Whether a host is this machine, by its name or address alone."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(name)
    return address is not None and address.is_loopback


def is_metadata(name: str) -> bool:
    """Whether a host is one at which a cloud tells its machines their credentials, however it is spelt."""
    if name.rstrip(".").lower() in METADATA_HOSTS:
        return True
    address = _address(name)
    return address is not None and (address in _METADATA_ADDRESSES or address.is_link_local)


def leads_to_metadata(name: str) -> bool:
    """Whether a host is such a one, or a name that stands for such an address now."""
    if is_metadata(name):
        return True
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(is_metadata(str(one[4][0])) for one in found)


def is_open(uri: str) -> bool:
    """Whether what is sent to `uri` can be read on the way: plain http to another machine."""
    return uri.lower().startswith("http://") and not is_loopback(host(uri))


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    bare = name.strip("[]").partition("%")[0]
    try:
        found = ipaddress.ip_address(bare)
    except ValueError:
        return _odd_address(bare)
    if isinstance(found, ipaddress.IPv6Address):
        if found in _NAT64:
            return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        return found.ipv4_mapped or found.sixtofour or found
    return found


def _odd_address(name: str) -> ipaddress.IPv4Address | None:
    """What the C library makes of numbers such as 2852039166 and 0xa9.0xfe.0xa9.0xfe."""
    parts = name.split(".")
    if not 1 <= len(parts) <= 4:
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    *first, last = numbers
    if any(one > 255 for one in first) or last >= 256 ** (5 - len(numbers)):
        return None
    value = sum(one << (8 * (3 - place)) for place, one in enumerate(first)) + last
    return ipaddress.IPv4Address(value)


def _number(text: str) -> int:
    if re.fullmatch(r"0x[0-9a-f]+", text, re.IGNORECASE):
        return int(text, 16)
    if re.fullmatch(r"0[0-7]+", text):
        return int(text, 8)
    if re.fullmatch(r"\d+", text):
        return int(text)
    raise ValueError(text)


def store_of(location: str) -> str | None:
    """The kind of store that a location is in: s3, gcs, azure, hdfs or local; None if it is no location."""
    if location.startswith("/"):
        return "local"
    scheme, colon, _ = location.partition(":")
    return _STORES.get(scheme.lower()) if colon else None


def local_path(location: str) -> str | None:
    """The path of a file on this machine; None for one in a store."""
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    return location if location.startswith("/") else None


def is_inside(location: str, roots: Iterable[str]) -> bool:
    """Whether `location` is one of `roots` or lies below one, with nothing in it that leads out again."""
    place = _place(location)
    return place is not None and any(_is_below(place, root) for one in roots if (root := _place(one)))


def _is_below(place: tuple[str, ...], root: tuple[str, ...]) -> bool:
    return place[: len(root)] == root


def _place(location: str) -> tuple[str, ...] | None:
    """The store, bucket and steps of a location; None for one that is not plain."""
    store = store_of(location)
    if store is None:
        return None
    rest = location if location.startswith("/") else location.partition(":")[2]
    bucket, path = "", rest
    if rest.startswith("//"):
        bucket, _, path = rest[2:].partition("/")
    decoded = unquote(path)
    if ".." in decoded.replace("\\", "/").split("/") or "\0" in decoded:
        return None
    steps = posixpath.normpath("/" + path).strip("/")
    return (store, bucket, *([step for step in steps.split("/") if step]))
