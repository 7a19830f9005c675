"""A folder that only this user can open, for what a process needs while it lives.

Spark spills and caches rows on disk, native libraries are unpacked, and a key may have to be a file. All of
it lies in one folder, which is removed at the end. A process that was killed cannot do that: its folder is
removed by the next one that starts, which knows by the lock that nobody uses it any more.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from calve.errors import ConfigurationError

_NAME = re.compile(r"calve-scratch-\w{8}")
_LOCK = ".lock"


@cache
def folder(base: str | None = None) -> Path:
    """The folder of this process below `base`, or below the folder for temporary files."""
    below = Path(base or tempfile.gettempdir())
    try:
        below.mkdir(parents=True, exist_ok=True)
        sweep(below)
        return _create(below)
    except OSError as error:
        why = f"{error.strerror}; name another folder with TMPDIR, or with spark.local.dir"
        raise ConfigurationError(f"Cannot keep temporary files in '{below}': {why}") from error


def _create(below: Path) -> Path:
    new = Path(tempfile.mkdtemp(prefix=".calve-", dir=below))
    lock = os.open(new / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # It gets the name that is swept only when it is locked.
    own = below / f"calve-scratch-{new.name[-8:]}"
    new.rename(own)
    atexit.register(_leave, own, os.getpid())
    return own


def sweep(below: Path) -> None:
    """Remove the folders below `below` that processes of this user have left."""
    for one in below.glob("calve-scratch-*"):
        with suppress(OSError):
            if _NAME.fullmatch(one.name) and _is_ours(one) and _is_left(one):
                _remove(one)


def _is_ours(path: Path) -> bool:
    state = path.lstat()
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid()


def _is_left(path: Path) -> bool:
    lock = os.open(path / _LOCK, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _leave(path: Path, pid: int) -> None:
    if os.getpid() == pid:
        _remove(path)


def _remove(path: Path) -> None:
    """Remove a folder; its lock is the last in it, so that what cannot be removed now is swept later."""
    for inner in path.iterdir():
        if inner.name != _LOCK:
            shutil.rmtree(inner, ignore_errors=True) if inner.is_dir() else inner.unlink(missing_ok=True)
    if [inner.name for inner in path.iterdir()] == [_LOCK]:
        (path / _LOCK).unlink()
        path.rmdir()


def write_private(text: str, name: str) -> Path:
    """A file in the folder of this process that only this user can read."""
    file = folder() / name
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as opened:
        opened.write(text)
    return file


def make_private(path: Path) -> None:
    """Create a folder that nobody else can open; one that is there is closed to others."""
    path.mkdir(parents=True, exist_ok=True)
    state = path.stat()
    if state.st_uid == os.getuid() and stat.S_IMODE(state.st_mode) & 0o077:
        # Not every file system knows of modes.
        with suppress(OSError):
            path.chmod(0o700)


def is_only_ours(path: Path) -> bool:
    """Whether nobody but this user and root can have written `path`, or put another in its place."""
    real = path.resolve()
    return all(_is_closed(one) for one in (real, real.parent))


def _is_closed(path: Path) -> bool:
    state = path.lstat()
    if state.st_uid not in (0, os.getuid()) or state.st_mode & stat.S_IWOTH:
        return False
    return not state.st_mode & stat.S_IWGRP or _is_private_group(state.st_gid)


def _is_private_group(number: int) -> bool:
    """Whether a group has this user alone, as many systems make one for each user."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return user.pw_gid == number and group.gr_name == user.pw_name and not group.gr_mem
