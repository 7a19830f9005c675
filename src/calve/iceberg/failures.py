"""Iceberg's exceptions as Calve's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from calve import gateway
from calve.errors import (
    CalveError,
    ConfigurationError,
    Conflict,
    Moved,
    NotPermitted,
    StartRefused,
    TableGone,
    Unavailable,
)
from calve.redaction import redacted

_PACKAGE = r"org\.apache\.iceberg\.exceptions\."
_KINDS: tuple[tuple[str, type[CalveError]], ...] = (
    ("CommitFailedException", Conflict),
    # A catalog that compares no format version took the upgrade of the table before our commit.
    (r"\w+(?=: (?:Malformed request: )?Cannot add a snapshot: first-row-id is null)", Conflict),
    (r"ValidationException(?=: (?:Cannot commit, missing data files|Found |Missing required files))", Moved),
    ("CommitStateUnknownException", Unavailable),
    ("ServiceUnavailableException|ServiceFailureException|RuntimeIOException|RESTException", Unavailable),
    ("NotAuthorizedException|ForbiddenException", NotPermitted),
    ("NoSuchTableException|NoSuchNamespaceException|NoSuchIcebergTableException", ConfigurationError),
    ("NotFoundException|ValidationException|BadRequestException", ConfigurationError),
)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what Iceberg raises inside, or a disk, into our own errors; `what` completes "Cannot …"."""
    with gateway.translated(what, _translate):
        try:
            yield
        except ConnectionError:
            raise
        except OSError as error:
            raise of_store(error, what) from error


_DENIED = re.compile(r"ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT|HTTP status 403")


def of_store(error: OSError, what: str) -> CalveError:
    """Our own error for one that Python or Arrow met at a disk or a store."""
    is_denied = isinstance(error, PermissionError) or _DENIED.search(str(error))
    return (NotPermitted if is_denied else Unavailable)(f"Cannot {what}: {error}")


_NO_STORE = re.compile(
    r"Cannot (?:initialize|find constructor|load).*FileIO"
    r"|NoClassDefFoundError: (?:software/amazon|com/(?:google/cloud|azure))"
)


_BEING_MADE = re.compile(r"duplicate column name: iceberg_type|table iceberg_\w+ already exists")
"""What a second process meets while a first one makes the tables of a SQLite catalog."""


_UNSORTED = re.compile(
    r"Expected sorted (?:snapshot|previous metadata) log entries|Invalid update timestamp \d+: before"
)
"""What Iceberg says of a commit that is more than a minute older than the one before it."""


_VAGUE = re.compile(rf"{_PACKAGE}RESTException: Error occurred while processing")
"""What Iceberg's client says of everything that happens on the way to a server; the cause says more."""


_REDIRECT = re.compile(rf"{_PACKAGE}RESTException: Unable to process \(code: (3\d\d)")
_OTHER_CODE = re.compile(
    r"Cannot initialize FileIO(?: implementation |, )((?!org\.apache\.iceberg\.)[\w.$]+)"
)


_EXPIRED = re.compile(
    r"(?:IllegalArgument|Validation)Exception: "
    r"((?:Snapshot \S+ is not an ancestor of|Cannot determine history between|Cannot find (?:a )?snapshot).*)"
)
"""What Iceberg says where a snapshot that we looked at has been expired."""


_OTHER_UUID = re.compile(r"Table UUID does not match")
_NO_TABLE = re.compile(rf"{_PACKAGE}(?:NoSuchTableException|NoSuchIcebergTableException)\b")
_NO_FILE = re.compile(rf"(?:{_PACKAGE}NotFoundException|java\.io\.FileNotFoundException)\b:?[ \t]*(.*)")
_GOES_ON = "go on with table "
"""What is being done where a table has been there before."""

RECREATED = "it was dropped and created again since the run began"
GONE = (
    "it is no longer there, as after a drop or a rename; give it its name back, or start again, which "
    "creates it anew"
)


@contextmanager
def reading_files(what: str, within: str = "") -> Iterator[None]:
    """The same for what reads files of a table that was loaded before: one that is not there has expired.

    Where others are read as well, the table's are those `within` its place.
    """

    def translate(text: str, what: str) -> CalveError:
        missing = (match[1] for match in _NO_FILE.finditer(text) if within in match[1])
        if (said := next(missing, None)) is not None:
            return Moved(_missing(what, said))
        return _translate(text, what)

    with gateway.translated(what, translate):
        try:
            yield
        except FileNotFoundError as error:
            raise Moved(_missing(what, str(error))) from error
        except ConnectionError:
            raise
        except OSError as error:
            raise of_store(error, what) from error


def _missing(what: str, said: str) -> str:
    return f"Cannot {what}: {' '.join(redacted(said).split())[:600]}; another process deleted it"


def _translate(text: str, what: str) -> CalveError:
    if _OTHER_UUID.search(text):
        return StartRefused(f"Cannot {what}: {RECREATED}")
    if what.startswith(_GOES_ON) and _NO_TABLE.search(text):
        return TableGone(f"Cannot {what}: {GONE}")
    if expired := _EXPIRED.search(text):
        return Moved(f"Cannot {what}: {' '.join(redacted(expired[1]).split())[:600]}")
    if redirect := _REDIRECT.search(text):
        return ConfigurationError(
            f"Cannot {what}: the catalog sends us elsewhere ({redirect[1]}), which is not followed; declare "
            "that address"
        )
    if other := _OTHER_CODE.search(text):
        return ConfigurationError(
            f"Cannot {what}: the catalog wants 'io-impl' to be '{other[1]}', and we load no code at its word"
        )
    if _NO_STORE.search(text):
        return ConfigurationError(
            f"Cannot {what}: it is in an object store; tell the sink which one, with 's3', 'gcs' or 'azure'"
        )
    if _BEING_MADE.search(text):
        return Unavailable(f"Cannot {what}: another process is making its tables")
    if _UNSORTED.search(text):
        return Unavailable(
            f"Cannot {what}: its last commit is ahead of this machine's clock; correct the clocks"
        )
    if _VAGUE.search(text):
        return gateway.classify(text, what)
    for names, kind in _KINDS:
        match = re.search(rf"{_PACKAGE}(?:{names})\b:?[ \t]*(.*)", text)
        if match:
            return kind(f"Cannot {what}: {' '.join(redacted(match[1]).split())[:600]}")
    return gateway.classify(text, what)
