"""Where the schema of records is kept: a file or a schema registry. Pure but for reading the file."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PrivateAttr

from calve.addresses import HttpAddress, host, is_metadata, is_open
from calve.model import Flaw, Location, Model, Secret, is_uri
from calve.schema import Schema, SchemaError, avro, json_schema, parse
from calve.sources.declared import Declared, undecodable

if TYPE_CHECKING:
    from calve.decode.schemas import Registered, SchemaRegistry

AVRO = ".avsc"
_READERS: dict[str, Callable[[str], Schema]] = {
    AVRO: lambda text: avro.columns(avro.load(text)),
    ".sql": parse,
    ".json": json_schema.columns,
}
_FORMATS = {"AVRO": ("avro", "debezium"), "JSON": ("json",)}
"""The types of registered schemas, and the formats of records that they describe."""


def _address(value: str) -> str:
    if "@" in urlsplit(value).netloc:
        raise ValueError("credentials do not belong here; use username and password, or token")
    return value


class RegistryPlace(Model):
    """A schema registry that speaks Confluent's protocol."""

    url: Annotated[HttpAddress, AfterValidator(_address)]
    """The address of the registry, such as `http://localhost:8081`."""

    subject: str | None = Field(default=None, min_length=1)
    """The subject whose schema gives the columns. Left out: `<topic>-value`."""

    version: Annotated[int, Field(ge=1)] | Literal["latest"] = "latest"
    """The version of the subject; `latest` is looked up at each start."""

    username: str | None = Field(default=None, min_length=1)
    """The user name, where the registry asks for one."""

    password: Secret | None = None
    """The password of the user."""

    token: Secret | None = None
    """A bearer token, instead of a user name."""

    allow_insecure: bool = False
    """Whether credentials may go to a plain `http` address of another machine, where others can read them."""

    def flaws(self) -> list[Flaw]:
        found = self._address_flaws()
        if (self.username is None) != (self.password is None):
            missing = "username" if self.username is None else "password"
            found.append(Flaw((missing,), "username and password belong together"))
        if self.token is not None and self.username is not None:
            found.append(Flaw(("token",), "give a token or a user name, not both"))
        return found

    def _address_flaws(self) -> list[Flaw]:
        if is_metadata(host(self.url)):
            return [Flaw(("url",), "is where a cloud tells its machines their credentials")]
        if self._authorization() is None or self.allow_insecure or not is_open(self.url):
            return []
        why = f"credentials would go to '{host(self.url)}' by plain http, where others can read them"
        return [Flaw(("url",), f"{why}; use https, or write 'allow_insecure: true'")]

    def client(self) -> SchemaRegistry:
        """What asks the registry."""
        from calve.decode.schemas import SchemaRegistry

        return SchemaRegistry(self.url, self._authorization())

    def _authorization(self) -> str | None:
        if self.token is not None:
            return f"Bearer {self.token.reveal()}"
        if self.username is None or self.password is None:
            return None
        pair = f"{self.username}:{self.password.reveal()}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"


class WrittenSchema(Model):
    """Where the schema is that records are written with."""

    file: Location | None = None
    """A file: Avro's (`.avsc`), JSON Schema (`.json`) or DDL (`.sql`)."""

    registry: RegistryPlace | None = None
    """A schema registry; records begin with the id of their schema in it."""

    columns: Declared | None = None
    """The columns to read, as DDL. Left out: all that the schema has."""

    _text: str | None = PrivateAttr(default=None)

    def text(self) -> str:
        """What the file holds; raises OSError or SchemaError."""
        if self._text is None:
            assert self.file is not None
            try:
                self._text = Path(self.file.removeprefix("file:")).read_text("utf-8")
            except UnicodeDecodeError:
                raise SchemaError("not a text in UTF-8") from None
        return self._text

    def told(self) -> Schema | None:
        """The columns, if the declaration and its file tell them."""
        if self.columns is not None or self.file is None:
            return self.columns
        return None if self._file_flaws() else self._of_file()

    def _of_file(self) -> Schema:
        found = _READERS[self._suffix()](self.text())
        for line in undecodable(found):
            raise SchemaError(line)
        return found

    def _suffix(self) -> str:
        return Path(self.file or "").suffix.lower()

    def flaws(self) -> list[Flaw]:
        if (self.file is None) == (self.registry is None):
            return [Flaw((), "give exactly one of file and registry")]
        if self.registry is not None:
            return [flaw.under("registry") for flaw in self.registry.flaws()]
        return [Flaw(("file",), why) for why in self._file_flaws()]

    def _file_flaws(self) -> list[str]:
        assert self.file is not None
        if is_uri(self.file) and not self.file.startswith("file:"):
            return ["schemas are read from local files only"]
        if self._suffix() not in _READERS:
            return [f"its name must end in one of {', '.join(sorted(_READERS))}"]
        try:
            self._of_file()
        except OSError as error:
            return [f"cannot be read: {(error.strerror or 'unknown').lower()}"]
        except SchemaError as error:
            # With columns of its own, a schema may have fields that can be none.
            return [] if self.columns is not None and self._suffix() == AVRO else [str(error)]
        return []

    def fits(self, format: str) -> list[Flaw]:
        """What is wrong with it where records are of `format`."""
        if self.file is not None and format == "avro" and self._suffix() != AVRO:
            return [
                Flaw(("file",), "format avro needs the Avro schema (.avsc) that records are written with")
            ]
        if self.file is not None and self.columns is not None and format != "avro":
            return [Flaw(("columns",), f"has no effect with format {format}: the file gives the columns")]
        if self.registry is not None and format not in ("avro", "json", "debezium"):
            return [Flaw(("registry",), f"records of format {format} do not tell the id of a schema")]
        return []

    @property
    def is_avro(self) -> bool:
        """Whether it is a file with an Avro schema."""
        return self.file is not None and self._suffix() == AVRO

    def avro_text(self) -> str | None:
        """The Avro schema of the file."""
        return self.text() if self.file is not None else None


def registered_columns(registered: Registered, format: str) -> Schema:
    """The columns of records of `format` that a registered schema describes; raises SchemaError."""
    if format not in _FORMATS.get(registered.kind, ()):
        raise SchemaError(f"it is one of {registered.kind}, which does not describe format {format}")
    if registered.kind == "JSON":
        found = json_schema.columns(registered.text, dict(registered.references))
    else:
        schema = avro.load(registered.text, [text for _, text in registered.references])
        found = avro.envelope_columns(schema) if format == "debezium" else avro.columns(schema)
    for line in undecodable(found):
        raise SchemaError(line)
    return found
