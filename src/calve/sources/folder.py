"""The files of a local folder, as they are now."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from calve.errors import ConfigurationError, DataRefused, Unavailable
from calve.sources.files_position import File


@dataclass(frozen=True)
class Folder:
    """What a path names: a file, a directory with all below it, or what a pattern matches."""

    path: str
    ignored: tuple[str, ...]
    min_file_age: float

    @property
    def base(self) -> str:
        """The folder that the paths of files begin at."""
        base = self.path
        while glob.has_magic(base):
            base = os.path.dirname(base)
        return base if os.path.isdir(base) else os.path.dirname(base)

    def require(self) -> None:
        """Raise ConfigurationError where there is nothing at the path."""
        if not os.path.exists(self.base if glob.has_magic(self.path) else self.path):
            raise ConfigurationError(f"Cannot read '{self.path}': it does not exist")

    def files(self) -> Iterator[File]:
        """The files that are there and written to the end."""
        base = self.base
        if not os.path.isdir(base):
            raise Unavailable(f"Cannot list '{base}': it does not exist")
        newest = time.time_ns() - round(self.min_file_age * 1e9)
        for path in self._paths():
            try:
                state = os.stat(path)
            except FileNotFoundError:
                continue
            if not self.min_file_age or state.st_mtime_ns <= newest:
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
        if (state.st_mtime_ns, state.st_size) != (file.mtime, file.size):
            raise DataRefused(f"Cannot read file '{path}': it was changed after the batch was planned")
        return File(file.mtime, path, file.size)
