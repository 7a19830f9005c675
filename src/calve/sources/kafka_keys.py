"""What a declaration says of Kafka topics, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from calve.errors import ConfigurationError
from calve.model import Flaw, Model, Text, suggestion
from calve.schema import Column, Decimal, Primitive, Schema, SchemaError
from calve.sources.csv_options import CsvFormat, nested_in_csv
from calve.sources.debezium_options import DebeziumFormat
from calve.sources.inferring import Inferring, OrInferred
from calve.sources.kafka_client import SETTINGS
from calve.sources.kafka_records import METADATA
from calve.sources.kafka_security import KafkaSecurity
from calve.sources.operation import Operation, operation_flaws
from calve.sources.source import clashes
from calve.sources.written_schema import WrittenSchema, registered_columns

if TYPE_CHECKING:
    from calve.decode.schemas import Registered

_Metadata = Literal["topic", "partition", "offset", "timestamp", "key", "headers"]
_WITH_SCHEMA = ("json", "csv", "avro", "debezium")
_WITH_KEYS = ("json", "csv", "avro")
_WITHOUT_OPERATION = ("text", "raw", "debezium")


def _servers(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _server(value: str) -> str:
    if not re.fullmatch(r"(?:\w+://)?(?:\[[0-9A-Fa-f:.]+\]|[^\s:/,]+):\d{1,5}", value):
        raise ValueError("not a server; write host:port")
    return value


def _topic(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", value) or value in (".", ".."):
        raise ValueError("not the name of a topic; it has letters, digits, '.', '_' and '-'")
    return value


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return value


Topic = Annotated[str, AfterValidator(_topic)]


class KafkaStart(Model):
    """Offsets to begin at."""

    position: dict[Topic, dict[int, Annotated[int, Field(ge=0)]]] = Field(min_length=1)
    """Per topic and partition the first offset to read; other partitions begin at their beginning."""


class KafkaKeys(KafkaSecurity, Inferring):
    """The keys of the source, and the columns that they tell; a registry may be asked for them."""

    bootstrap_servers: Annotated[
        list[Annotated[str, AfterValidator(_server)]],
        BeforeValidator(_servers, json_schema_input_type=str | list[str]),
        Field(min_length=1),
    ]
    """Where the cluster is found: `host:port`, several as a list or with commas between."""

    topics: Annotated[list[Topic], Field(min_length=1)] | None = None
    """The topics to read."""

    topic_pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    """Instead of `topics`: a regular expression for whole names; topics that are created later count too."""

    format: Literal["json", "avro", "debezium", "csv", "text", "raw"] = "json"
    """What a record is: a JSON object, an Avro record, a Debezium change, a line of CSV, text or bytes."""

    schema_: OrInferred = Field(default=None, alias="schema")
    """The columns as DDL, or where their schema is. json: left out or `infer`, those that a batch has.
    text and raw need none: they have one column, `value`."""

    operation: Operation | None = None
    """The column that says what a row does to the table; left out: rows are new or take another's place."""

    tombstones: Literal["bad", "delete", "ignore"] = "bad"
    """What a record without a value is, as compacted topics have them: a bad record, a delete of the row that
    its key names, or nothing. Debezium's are nothing."""

    key_fields: Annotated[list[str], Field(min_length=1)] | None = None
    """The columns that records have in their keys, where `tombstones` are deletes."""

    key_format: Literal["json", "text"] = "json"
    """What such a key is: `json`, an object with these columns or, if it is one, its value; `text`, the
    value of the one column as it is."""

    debezium: DebeziumFormat = DebeziumFormat()
    """How changes are written, where `format` is debezium."""

    start_: Literal["earliest", "latest"] | KafkaStart = Field(default="earliest", alias="start")
    """Where a new table begins: `earliest`, `latest` or `{position: {topic: {partition: offset}}}`."""

    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """Whether records of aborted or open transactions are left out (`read_committed`) or read."""

    metadata: list[_Metadata] = Field(default_factory=list)
    """What else becomes a column, as `_topic`, `_partition`, `_offset`, `_timestamp`, `_key`, `_headers`."""

    csv: CsvFormat = CsvFormat()
    """How the lines are written, where `format` is csv."""

    options: dict[str, Text] = Field(default_factory=dict)
    """Settings of the Kafka consumer by the names of Java's, such as `fetch.max.bytes`."""

    _registered: Any = PrivateAttr(default=None)

    def flaws(self) -> list[Flaw]:
        found = [*self.security_flaws(), *self._key_flaws(), *self._schema_flaws(), *self._option_flaws()]
        found += self._tombstone_flaws()
        return [*found, *self._column_flaws(self.declared)]

    def _key_flaws(self) -> list[Flaw]:
        found = []
        if (self.topics is None) == (self.topic_pattern is None):
            why = "give exactly one of topics and topic_pattern"
            found.append(Flaw(("topics",) if self.topics is None else ("topic_pattern",), why))
        for format in ("csv", "debezium"):
            if self.format != format and format in self.model_fields_set:
                found.append(Flaw((format,), f"has no effect with format {self.format}"))
        found += [flaw.under("csv") for flaw in self.csv.flaws()]
        if isinstance(self.start_, KafkaStart) and self.topics is not None:
            unread = sorted(set(self.start_.position) - set(self.topics))
            found += [Flaw(("start", "position", topic), "not one of the topics") for topic in unread]
        return found

    @property
    def declared(self) -> Schema | None:
        """The columns that records have by the declaration."""
        return self.schema_.told() if isinstance(self.schema_, WrittenSchema) else self.schema_

    @property
    def _written(self) -> WrittenSchema | None:
        return self.schema_ if isinstance(self.schema_, WrittenSchema) else None

    def _schema_flaws(self) -> list[Flaw]:
        if self.format not in _WITH_SCHEMA:
            why = f"has no effect with format {self.format}: its one column is 'value'"
            return [Flaw(("schema",), why)] if "schema_" in self.model_fields_set else []
        if self.schema_ is None:
            return [] if self.infers else [Flaw(("schema",), f"needed by format {self.format}")]
        if self._written is not None:
            return [flaw.under("schema") for flaw in self._written_flaws(self._written)]
        if self.format == "avro":
            why = "format avro needs the schema that records are written with: {file: …} or {registry: …}"
            return [Flaw(("schema",), why)]
        return []

    def _written_flaws(self, written: WrittenSchema) -> list[Flaw]:
        found, registry = [*written.flaws(), *written.fits(self.format)], written.registry
        if registry is None:
            return found
        if written.columns is not None:
            useless = [key for key in ("subject", "version") if key in registry.model_fields_set]
            found += [Flaw(("registry", key), "has no effect beside columns") for key in useless]
        elif registry.subject is None and self._topic() is None:
            found.append(Flaw(("registry", "subject"), "needed where there are several topics"))
        return found

    @property
    def _is_headed(self) -> bool:
        """Whether records begin with the id of their schema."""
        return self._written is not None and self._written.registry is not None

    def _topic(self) -> str | None:
        return self.topics[0] if self.topics is not None and len(self.topics) == 1 else None

    def _column_flaws(self, known: Schema | None) -> Iterator[Flaw]:
        """What is wrong with the columns of records, and with the keys that name some of them."""
        taken = {name.lower() for name in known.names} if known and self.format in _WITH_SCHEMA else set()
        for name in (METADATA[name].name for name in self.metadata):
            if name in taken:
                yield Flaw(("metadata",), f"the schema has a column '{name}' already")
        if known is not None and self.format == "csv":
            yield from (Flaw(("schema",), line) for line in nested_in_csv(known))
        if known is not None or self._written is None or self.format in _WITHOUT_OPERATION:
            yield from operation_flaws(self.operation, self.format, known, _WITHOUT_OPERATION)
        if known is not None and self._deletes_by_key:
            yield from self._key_column_flaws(known)
        if known is not None and self.format == "debezium":
            yield from (flaw.under("debezium") for flaw in self.debezium.column_flaws(known))
            yield from (Flaw(("schema",), line) for line in clashes(known))

    @property
    def _deletes_by_key(self) -> bool:
        """Whether a record without a value is a delete of the row that its key names."""
        return self.tombstones == "delete" and self.format in _WITH_KEYS

    def _tombstone_flaws(self) -> list[Flaw]:
        if self.tombstones != "delete":
            given = [key for key in ("key_fields", "key_format") if key in self.model_fields_set]
            found = [Flaw((key,), "has no effect without 'tombstones: delete'") for key in given]
            if self.format == "debezium" and "tombstones" in self.model_fields_set:
                found.append(Flaw(("tombstones",), "has no effect with format debezium"))
            return found
        if self.format not in _WITH_KEYS:
            return [Flaw(("tombstones",), f"there are no deletes by key with format {self.format}")]
        found = [] if self.key_fields else [Flaw(("key_fields",), "needed by 'tombstones: delete'")]
        if self.schema_ is None:
            found.append(Flaw(("schema",), "needed by 'tombstones: delete'"))
        if self.key_format == "text" and len(self.key_fields or ()) > 1:
            found.append(Flaw(("key_format",), "text is the value of one column; key_fields names several"))
        return found

    def _key_column_flaws(self, known: Schema) -> Iterator[Flaw]:
        columns = {column.name: column for column in known.columns}
        for index, name in enumerate(self.key_fields or ()):
            column = columns.get(name)
            if column is None or (self.operation is not None and name == self.operation.field):
                why = f"'{name}' is not a column of the table{suggestion(name, known.names)}"
                yield Flaw(("key_fields", index), why)
            elif not isinstance(column.type, (Primitive, Decimal)):
                why = f"'{name}' is {column.type.ddl()}; only a single value can stand here"
                yield Flaw(("key_fields", index), why)

    def _option_flaws(self) -> list[Flaw]:
        unknown = [name for name in self.options if name not in SETTINGS]
        return [
            Flaw(("options", name), f"cannot be set here{suggestion(name, SETTINGS)}") for name in unknown
        ]

    def columns(self) -> Schema | None:
        return None if self.infers or self._is_unknown() else self._all_columns()

    @property
    def says_columns(self) -> bool:
        return not self.infers

    def _all_columns(self) -> Schema:
        extra = tuple(METADATA[name] for name in dict.fromkeys(self.metadata))
        return Schema((*self._value_columns().columns, *extra))

    def _is_unknown(self) -> bool:
        """Whether only the registry tells the columns, and it was not asked yet."""
        return self._written is not None and self.declared is None and self._registered is None

    def _record_columns(self) -> Schema | None:
        """The columns of records; the registry is asked for them once in a life."""
        written = self._written
        if written is None or written.registry is None or written.columns is not None:
            return self.declared
        if self._registered is None:
            self._registered = self._ask(written)
        columns: Schema = self._registered[1]
        return columns

    def _ask(self, written: WrittenSchema) -> tuple[Registered, Schema]:
        """The schema of the subject, and its columns."""
        assert written.registry is not None
        subject, version = self._subject(written), str(written.registry.version)
        found = written.registry.client().of_subject(subject, version)
        what = f"Cannot use the schema of subject '{subject}'"
        try:
            columns = registered_columns(found, self.format)
        except SchemaError as error:
            why = f"{error}; name the columns to read with schema.columns"
            raise ConfigurationError(f"{what}: {why}") from None
        for flaw in self._column_flaws(columns):
            raise ConfigurationError(f"{what}: {'.'.join(map(str, flaw.path))}: {flaw.message}")
        return found, columns

    def _subject(self, written: WrittenSchema) -> str:
        assert written.registry is not None
        return written.registry.subject or f"{self._topic()}-value"

    @property
    def carries_changes(self) -> bool:
        return self.format == "debezium" or self.operation is not None or self._deletes_by_key

    def _value_columns(self) -> Schema:
        known = self._record_columns()
        if known is not None:
            return known if self.operation is None else self.operation.left(known)
        return Schema((Column("value", Primitive("string" if self.format == "text" else "binary"), False),))
