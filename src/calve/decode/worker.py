"""What every Python worker of Spark's does once, so that each of its tasks begins at once."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any
from zipimport import zipimporter


@cache
def settle() -> None:
    """Have archives on the path be read again only if they have changed.

    Spark has Python forget what it knows of the path before every task. Up to Python 3.12 all names in
    Spark's own archive are then read anew, which takes a fifth of a second.
    """
    read = zipimporter.invalidate_caches
    seen = {_key(one): _state(one) for one in _on_path()}

    def read_if_changed(importer: zipimporter) -> None:
        state = _state(importer)
        if state is None or seen.get(_key(importer)) != state:
            read(importer)
            seen[_key(importer)] = state

    setattr(zipimporter, read.__name__, read_if_changed)


def _on_path() -> list[Any]:
    return [one for one in sys.path_importer_cache.values() if isinstance(one, zipimporter)]


def _key(importer: zipimporter) -> tuple[str, str]:
    return importer.archive, importer.prefix


def _state(importer: zipimporter) -> tuple[int, int] | None:
    try:
        found = os.stat(importer.archive)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
