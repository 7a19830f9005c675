"""What PyIceberg and its stores raise, as Calve's own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from calve.errors import CalveError, ConfigurationError, NotPermitted, Unavailable

_LONGEST = 600
_ABSENT = ("ModuleNotFoundError", "NotInstalledError")
_KINDS: tuple[tuple[tuple[str, ...], type[CalveError]], ...] = (
    (
        ("UnauthorizedError", "ForbiddenError", "OAuthError", "AuthorizationExpiredError", "PermissionError"),
        NotPermitted,
    ),
    (("BadRequestError", "FileNotFoundError"), ConfigurationError),
    (("RESTError", "OSError", "OperationalError"), Unavailable),
)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what is raised inside into our own errors; `what` completes "Cannot …"."""
    try:
        yield
    except CalveError:
        raise
    except Exception as error:
        raise translate(error, what) from error


def translate(error: Exception, what: str) -> CalveError:
    """Our own error for one of PyIceberg, in one line; a bug where it is none that is known."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & set(_ABSENT):
        advice = "run in Calve's clone: pip install '.[verify]'"
        return ConfigurationError(f"Cannot {what}: {_absent(error)}; {advice}")
    kind = next((kind for known, kind in _KINDS if names & set(known)), CalveError)
    return kind(f"Cannot {what}: {_said(error)}")


def _absent(error: Exception) -> str:
    package = (getattr(error, "name", None) or "").partition(".")[0]
    return f"package '{package}' is missing" if package else _said(error)


def _said(error: Exception) -> str:
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
