"""Calve itself as an archive, for executors that do not have it installed."""

from __future__ import annotations

import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

import calve


@lru_cache
def archive() -> Path:
    """A zip of the package as it is imported here."""
    root = Path(calve.__file__).parent
    folder = Path(tempfile.mkdtemp(prefix="calve-"))
    return Path(shutil.make_archive(str(folder / "calve"), "zip", root.parent, root.name))
