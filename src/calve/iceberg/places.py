"""Where Python workers write files: on this machine, or in a store that speaks S3's protocol."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from calve.addresses import local_path


@dataclass(frozen=True)
class Bucket:
    """A store with keys of its own. Travels to Python workers, as the keys of Iceberg's FileIO do."""

    key: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False


def opened(location: str, bucket: Bucket | None = None) -> Any:
    """A stream to a new file."""
    path = local_path(location)
    if path is None:
        assert bucket is not None, location
        return _filesystem(bucket).open_output_stream(location.partition("://")[2])
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return pa.OSFile(path, "wb")


def remove(location: str) -> None:
    """Take a file away that lies on this machine; in a store it is left, like those of a crash."""
    path = local_path(location)
    if path is not None:
        Path(path).unlink(missing_ok=True)


@lru_cache(maxsize=8)
def _filesystem(bucket: Bucket) -> Any:
    from pyarrow import fs

    make: Any = fs.S3FileSystem
    # There are keys: nobody has to be asked for some.
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    scheme, _, host = (bucket.endpoint or "https://").partition("://")
    return make(
        access_key=bucket.key,
        secret_key=bucket.secret,
        session_token=bucket.token,
        region=bucket.region or "us-east-1",
        scheme=scheme,
        endpoint_override=host.rstrip("/") or None,
        force_virtual_addressing=bool(bucket.endpoint) and not bucket.path_style,
    )
