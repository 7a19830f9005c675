"""Files on local disks, flushed before a commit points to them: what is not flushed a power loss may empty.

Knows no Java, so that Python workers flush what they write. Locations in object stores are passed over: a
store that has acknowledged a file keeps it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from calve.addresses import local_path

_THREADS = 8
"""Side by side, as a journaling file system makes several new files durable with one write of its journal."""
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.EROFS)

_known: dict[str, int] = {}
"""Directories whose entries in the directories above are flushed, and their inodes."""


def flush(locations: Iterable[str]) -> None:
    """Return when the files at `locations` and their names are on disk; those in stores are passed over."""
    paths = [path for location in locations if (path := local_path(location)) is not None]
    if not paths:
        return
    # Hadoop's local file system keeps a checksum beside each file, and refuses a file that does not fit it.
    checksums = [path for path in map(_checksum_path, paths) if os.path.exists(path)]
    folders = {os.path.dirname(path) for path in paths}
    found = _new(folders)
    _each(_flush_file, [*paths, *checksums])
    _each(_flush_directory, sorted({*folders, *map(os.path.dirname, found)}))
    _known.update(found)


def _each(work: Callable[[str], None], paths: list[str]) -> None:
    if len(paths) == 1:
        work(paths[0])
        return
    with ThreadPoolExecutor(min(_THREADS, max(1, len(paths)))) as pool:
        for _ in pool.map(work, paths):
            pass


def _checksum_path(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def _flush_file(path: str) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _flush_directory(path: str) -> None:
    try:
        _flush_file(path)
    except PermissionError:
        # A directory above the warehouse that we may not list; it is older than anything of ours.
        return
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _new(folders: Iterable[str]) -> dict[str, int]:
    """Those of `folders` and of the directories above them whose own entries may not be flushed yet.

    A directory that was made anew under the same name has another inode.
    """
    found: dict[str, int] = {}
    for folder in folders:
        while folder not in found and os.path.dirname(folder) != folder:
            inode = os.stat(folder).st_ino
            if _known.get(folder) == inode:
                break
            found[folder] = inode
            folder = os.path.dirname(folder)
    return found
