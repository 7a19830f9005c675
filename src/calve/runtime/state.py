"""Where the disposable state of a project is kept: run status and logs."""

from __future__ import annotations

import os
from pathlib import Path

from calve.project import Project

VARIABLE = "CALVE_STATE"
"""The environment variable that names the folder; `--state` sets it."""


def folder(project: Project) -> Path:
    """The folder that was named, or `.calve` beside the declaration."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else project.directory / ".calve"
