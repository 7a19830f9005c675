"""The files of a local folder, as they are now."""

from __future__ import annotations

import glob
import logging
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from calve.errors import ConfigurationError, DataRefused, Unavailable
from calve.sources.files_position import File

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Folder:
    """What a path names: a file, a directory with all below it, or what a pattern matches."""

    path: str
    ignored: tuple[str, ...]
    min_file_age: float
    follow_symlinks: bool = False

    @property
    def base(self) -> str:
        """The folder that the paths of files begin at."""
        base = self.path
        while glob.has_magic(base):
            base = os.path.dirname(base)
        return base if os.path.isdir(base) else os.path.dirname(base)

    def require(self) -> None:
        """Raise ConfigurationError where there is nothing at the path that can be read."""
        path = self.base if glob.has_magic(self.path) else self.path
        if not os.path.exists(path):
            raise ConfigurationError(f"Cannot read '{self.path}': it does not exist")
        if not os.path.isfile(path) and not os.path.isdir(path):
            raise ConfigurationError(f"Cannot read '{self.path}': it is neither a regular file nor a folder")

    def files(self) -> Iterator[File]:
        """The regular files that are there and written to the end.

        A symbolic link is followed where the declaration allows it, or is the path itself: whoever may write
        to the folder could otherwise have any file read that this process may read.
        """
        base = self.base
        if not os.path.isdir(base):
            raise Unavailable(f"Cannot list '{base}': it does not exist")
        newest = time.time_ns() - round(self.min_file_age * 1e9)
        links = _Links(base)
        for path in self._paths():
            if path != self.path and not self.follow_symlinks and links.lead_to(path):
                _ignore(path, "is a symbolic link; write 'follow_symlinks: true' below 'options' to read it")
                continue
            try:
                state = os.stat(path)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(state.st_mode):
                _ignore(path, "is not a regular file; it is not read")
            elif not self.min_file_age or state.st_mtime_ns <= newest:
                yield File(state.st_mtime_ns, os.path.relpath(path, base), state.st_size)

    def _paths(self) -> Iterator[str]:
        is_pattern = glob.has_magic(self.path)
        for path in glob.iglob(self.path, recursive=True) if is_pattern else [self.path]:
            if os.path.isdir(path):
                yield from self._below(path)
            elif not is_pattern or self._counts(os.path.basename(path)):
                yield path

    def _below(self, directory: str) -> Iterator[str]:
        for folder, folders, names in os.walk(directory):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            yield from (os.path.join(folder, name) for name in names if self._counts(name))

    def _counts(self, name: str) -> bool:
        return not name.startswith((".", "_")) and not name.endswith(self.ignored)

    def unchanged(self, files: Iterable[File]) -> list[File]:
        """The files with their whole paths; raises DataRefused where one is not as it was listed."""
        return [self._unchanged(file) for file in files]

    def _unchanged(self, file: File) -> File:
        path = os.path.join(self.base, file.path)
        try:
            state = os.stat(path)
        except OSError as error:
            raise DataRefused(f"Cannot read file '{path}': it is gone: {error.strerror}") from error
        if path != self.path and not self.follow_symlinks and _Links(self.base).lead_to(path):
            raise DataRefused(f"Cannot read file '{path}': it was replaced by a symbolic link")
        if (state.st_mtime_ns, state.st_size) != (file.mtime, file.size):
            raise DataRefused(f"Cannot read file '{path}': it was changed after the batch was planned")
        return File(file.mtime, path, file.size)


class _Links:
    """Whether a path below a folder leads through a symbolic link; folders are looked at once."""

    def __init__(self, base: str) -> None:
        self._folders = {base: False, "": False, os.path.dirname(base): False}

    def lead_to(self, path: str) -> bool:
        return os.path.islink(path) or self._leads(os.path.dirname(path))

    def _leads(self, folder: str) -> bool:
        found = self._folders.get(folder)
        if found is None:
            found = os.path.islink(folder) or self._leads(os.path.dirname(folder))
            self._folders[folder] = found
        return found


@lru_cache(maxsize=1_000)
def _ignore(path: str, why: str) -> None:
    """Say once of a path that it is not read, and why."""
    log.warning("'%s' %s", path, why)
