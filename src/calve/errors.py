"""Every exception Calve raises.

CalveError                 70  a bug, unless a subclass says otherwise
├── UsageError             64  the command line asks for something that does not exist
├── DeclarationError       78  the declaration has problems; `problems` lists them all
├── ConfigurationError     78  the declaration is sound but does not fit what it meets
│   ├── TableMismatch      78  the table that exists differs from the declared one
│   └── TableGone          78  the table was dropped or renamed while it was written to
├── DataRefused            65  the data cannot be taken as it is
│   ├── BadRecord          65  one record cannot be decoded; `place` says where it is
│   ├── Unfit              65  a record has other columns than the table; the batch is looked at again
│   └── StartRefused       65  the table and the source do not agree; `command` decides
├── Unavailable            69  a service does not answer (retryable)
│   ├── Conflict           75  another writer's commit came first (retryable)
│   │   └── Moved          75  and it changed what this one was made for (retryable)
│   │       └── Outdated   75  so that its files are to be written again (retryable)
│   └── TryAgain           75  it was waited for as long as `retry_for` allows, or Spark's JVM is gone
├── NotPermitted           77  a service refused the credentials or the action
└── Fenced                 80  a newer epoch of the same sink writes now
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from calve.model import Problem


class CalveError(Exception):
    """The root of all errors of Calve; by itself, a bug."""

    exit_code: ClassVar[int] = 70
    retryable: ClassVar[bool] = False


class UsageError(CalveError):
    """The command line asks for something that does not exist."""

    exit_code = 64


class DeclarationError(CalveError):
    """The declaration has problems."""

    exit_code = 78

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ConfigurationError(CalveError):
    """The declaration is sound but does not fit what it meets."""

    exit_code = 78


class TableMismatch(ConfigurationError):
    """The table that exists differs from the declared one."""

    def __init__(self, message: str, *, table: str) -> None:
        self.table = table
        super().__init__(message)


class TableGone(ConfigurationError):
    """The table was dropped or renamed while it was written to."""

    def __init__(self, message: str, *, table: str = "") -> None:
        self.table = table
        super().__init__(message)


class DataRefused(CalveError):
    """The data cannot be taken as it is."""

    exit_code = 65


class BadRecord(DataRefused):
    """One record cannot be decoded."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"Cannot decode {place}: {reason}")

    def __reduce__(self) -> tuple[type[BadRecord], tuple[str, str]]:
        return BadRecord, (self.place, self.reason)


class Unfit(DataRefused):
    """A record has other columns than the table."""


class StartRefused(DataRefused):
    """The table and the source do not agree on where to begin."""

    def __init__(self, message: str, *, decision: str = "--restart-from earliest") -> None:
        self.decision = decision
        self.pipeline: str | None = None
        self.call: str | None = None
        """What decides in a program, where there is no declaration that a command could read."""
        super().__init__(message)

    @property
    def command(self) -> str:
        """The command that shows what the decision would do and, with --yes, takes it."""
        if self.call is not None:
            return self.call
        name = f"--pipeline {self.pipeline} " if self.pipeline else ""
        return f"calve repair {name}{self.decision}"

    def __str__(self) -> str:
        return f"{self.args[0]}; decide with: {self.command}"


class Unavailable(CalveError):
    """A service does not answer."""

    exit_code = 69
    retryable = True


class Conflict(Unavailable):
    """Another writer's commit came first."""

    exit_code = 75


class Moved(Conflict):
    """Another writer's commit changed what this one was made for."""

    exit_code = 75


class Outdated(Moved):
    """Files were written for another schema, partition spec or format version than the table has."""


class TryAgain(Unavailable):
    """A service was waited for as long as `retry_for` allows, or Spark's JVM is gone."""

    exit_code = 75
    retryable = False


class NotPermitted(CalveError):
    """A service refused the credentials or the action."""

    exit_code = 77


class Fenced(CalveError):
    """A newer epoch of the same sink writes now."""

    exit_code = 80

    def __init__(self, message: str, *, table: str, sink_id: str) -> None:
        self.table = table
        self.sink_id = sink_id
        super().__init__(message)


_OF_THE_SYSTEM = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
}


def of_system(error: BaseException) -> CalveError | None:
    """Our own error for one of the operating system: a lack of room, memory, files or permission."""
    if isinstance(error, MemoryError):
        return TryAgain("Cannot go on: there is too little memory")
    if isinstance(error, PermissionError):
        return NotPermitted(f"Cannot go on: {error}")
    if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
        return TryAgain(f"Cannot go on: {error}")
    return None


def exit_code(error: BaseException) -> int:
    """The exit code that `error` ends the process with."""
    return error.exit_code if isinstance(error, CalveError) else CalveError.exit_code
