"""What the user declared: sources, sinks and pipelines, and the rules across them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PrivateAttr, SkipValidation

from calve import changes, schema, spark_settings
from calve.catalogs import Catalog
from calve.model import Flaw, Model, Secret, Text, suggestion
from calve.partitioning import refusal
from calve.schema import Decimal, Primitive, Schema
from calve.sink import routes
from calve.sink.declaration import IcebergSink
from calve.sources.source import Source
from calve.transforms.transform import Transform

_DECIDING = {
    *("namespace", "table", "allowed_tables", "branch", "commit_mode", "key_fields", "order_by"),
    *("truncate", "change_columns", "overwrite"),
}
"""The keys of a sink that decide which rows a batch leaves in which table."""


def _master(value: str) -> str:
    if not re.fullmatch(r"yarn|local(\[[^\]]+\])?|local-cluster\[[^\]]+\]|(spark|k8s)://.+", value):
        raise ValueError(
            "not a master of Spark; such as local[*], spark://host:7077, k8s://https://host or yarn"
        )
    return value


def _memory(value: str) -> str:
    if not re.fullmatch(r"[1-9]\d*[kmgt]b?", value, re.IGNORECASE):
        raise ValueError("not an amount of memory; such as 512m or 4g")
    return value


class Stream(Model):
    """One of several streams of a source."""

    name: str = Field(min_length=1)
    """The name of the stream, such as a table."""

    namespace: str | None = Field(default=None, min_length=1)
    """The namespace of the stream, such as the schema of a table."""

    sync_mode: Literal["incremental", "full_refresh"] = "incremental"
    """Whether changes are read, or everything anew."""


class SourceDeclaration(Model):
    """A source by its name."""

    connector: str
    """What kind of source it is."""

    config: SkipValidation[Source]
    """The keys of the connector."""

    streams: list[Stream] = Field(default_factory=list)
    """The streams to read, where a source has several."""


class SinkDeclaration(Model):
    """A sink by its name."""

    connector: str
    """What kind of sink it is."""

    config: SkipValidation[IcebergSink]
    """The keys of the connector."""


class Pipeline(Model):
    """A way for rows: from a source, through transforms, to a sink."""

    source: str
    """The name of the source."""

    sink: str
    """The name of the sink."""

    transforms: SkipValidation[list[Transform]] = Field(default_factory=list)
    """What is done to the rows on the way, in this order."""

    enabled: bool = True
    """Whether `calve run` runs it when no pipeline is named."""


class SparkSettings(Model):
    """How Spark is run."""

    master: Annotated[str, AfterValidator(_master)] = "local[*]"
    """Where Spark works: `local[*]` in this process on all cores, or the address of a cluster."""

    driver_memory: Annotated[str, AfterValidator(_memory)] = "4g"
    """How much memory the driver may take."""

    config: dict[str, Text] = Field(default_factory=dict)
    """Further settings of Spark, passed on as they are: those that run no code and let nobody in."""

    allow_unsafe_config: bool = False
    """Whether `config` may hold any other setting, by which Spark may run programs and load classes, or be
    reached from other machines."""

    @property
    def is_local(self) -> bool:
        """Whether Spark works in one JVM of this machine."""
        return self.master == "local" or self.master.startswith("local[")

    def flaws(self) -> list[Flaw]:
        return [
            Flaw(("config", key), message)
            for key, value in self.config.items()
            if (message := self._refusal(key, value))
        ]

    def _refusal(self, key: str, value: str) -> str | None:
        unsafe = self.allow_unsafe_config
        return spark_settings.refusal(key, value, is_local=self.is_local, allow_unsafe=unsafe)


@dataclass(frozen=True)
class ResolvedPipeline:
    """A pipeline with what it names put in its place."""

    name: str
    source: Source
    sink: IcebergSink
    transforms: tuple[Transform, ...]
    sink_id: str
    enabled: bool

    @property
    def catalogs(self) -> list[Catalog]:
        """The catalogs that the SparkSession has to know."""
        return [*self.source.catalogs, self.sink.catalog]

    def fingerprint(self) -> str:
        """What tells whether the same batch still gives the same rows in the same tables; no secret is in it.

        Keys of the sink that say when and how files are written may change in mid-batch.
        """
        parts = [self.source, *self.transforms]
        told = [one.model_dump(mode="json", by_alias=True, exclude_defaults=True) for one in parts]
        sink = self.sink.model_dump(mode="json", include=_DECIDING)
        return routes.fingerprint([type(self.source).connector, *told, sink])


class Project(Model):
    """Everything that one file declares."""

    version: Literal["1.0"]
    """The version of this way to declare."""

    sources: SkipValidation[dict[str, SourceDeclaration]] = Field(default_factory=dict)
    """The sources by name."""

    sinks: SkipValidation[dict[str, SinkDeclaration]] = Field(default_factory=dict)
    """The sinks by name."""

    pipelines: SkipValidation[dict[str, Pipeline]]
    """The pipelines by name."""

    spark: SkipValidation[SparkSettings] = Field(default_factory=SparkSettings)
    """How Spark is run."""

    allow_python: bool = False
    """Whether transforms may run Python code that the declaration names."""

    _file: Path = PrivateAttr(default=Path("calve.yaml"))

    @property
    def file(self) -> Path:
        """The file that the project was declared in."""
        return self._file

    @property
    def directory(self) -> Path:
        """The directory that relative paths begin at."""
        return self._file.parent

    def placed(self, file: Path) -> Project:
        """The same project, declared in `file`."""
        copy = self.model_copy()
        copy._file = file
        return copy

    def pipeline(self, name: str) -> ResolvedPipeline:
        """The pipeline called `name`, resolved; raises KeyError if there is none."""
        declared = self.pipelines[name]
        sink = self.sinks[declared.sink].config
        # A source keeps what it knows of its system to itself; two pipelines must not share that.
        source = self.sources[declared.source].config.model_copy()
        transforms = tuple(declared.transforms)
        return ResolvedPipeline(name, source, sink, transforms, sink.sink_id_of(name), declared.enabled)


@dataclass(frozen=True)
class Parts:
    """What a declaration holds, part by part; None stands for a part that has flaws of its own."""

    sources: Mapping[str, SourceDeclaration | None] = field(default_factory=dict)
    sinks: Mapping[str, SinkDeclaration | None] = field(default_factory=dict)
    pipelines: Mapping[str, Pipeline | None] = field(default_factory=dict)
    allow_python: bool = False

    def ends(self, pipeline: Pipeline) -> tuple[SourceDeclaration | None, SinkDeclaration | None]:
        return self.sources.get(pipeline.source), self.sinks.get(pipeline.sink)


def flaws(parts: Parts) -> list[Flaw]:
    """What is wrong across the parts."""
    found = [flaw for name, pipeline in _known(parts) for flaw in _pipeline_flaws(parts, name, pipeline)]
    across = {
        *_same_writer(parts),
        *_letters_of_nothing(parts),
        *_same_checkpoint(parts),
        *_environments(parts),
    }
    return sorted({*found, *across}, key=lambda flaw: [str(key) for key in flaw.path])


def _known(parts: Parts) -> Iterator[tuple[str, Pipeline]]:
    return ((name, pipeline) for name, pipeline in parts.pipelines.items() if pipeline is not None)


def _pipeline_flaws(parts: Parts, name: str, pipeline: Pipeline) -> Iterator[Flaw]:
    yield from _unknown(("pipelines", name, "source"), pipeline.source, parts.sources)
    yield from _unknown(("pipelines", name, "sink"), pipeline.sink, parts.sinks)
    for index, transform in enumerate(pipeline.transforms):
        if "python" in type(transform).model_fields and not parts.allow_python:
            path = ("pipelines", name, "transforms", index, "python")
            yield Flaw(path, "Python code is not allowed; write 'allow_python: true' at the top to allow it")
    source, sink = parts.ends(pipeline)
    if source and sink and source.config.is_streaming:
        yield from (flaw.under("sinks", pipeline.sink, "config") for flaw in _streaming_flaws(sink.config))
    if source and sink:
        yield from (
            flaw.under("sinks", pipeline.sink, "config") for flaw in _stream_flaws(sink.config, source)
        )
    if source and sink and source.config.table_read == _table_written(sink.config):
        yield Flaw(("pipelines", name, "sink"), "writes to the table that the source reads; name another one")
    columns = source.config.columns() if source and not pipeline.transforms else None
    if sink and columns:
        yield from (
            flaw.under("sinks", pipeline.sink, "config") for flaw in _column_flaws(sink.config, columns)
        )
        for line in schema.unsupported(columns, sink.config.format_version):
            yield Flaw(("sources", pipeline.source, "config"), line)
        for line in changes.kept_twice(columns.names) if sink.config.change_columns else ():
            yield Flaw(("sinks", pipeline.sink, "config", "change_columns"), line)
    said = source.config.columns() if source and not source.config.carries_changes else None
    for line in changes.reserved(said.names) if said else ():
        yield Flaw(("sources", pipeline.source, "config"), line)


def _table_written(sink: IcebergSink) -> tuple[str, str, str]:
    return sink.catalog.spark_name(), sink.namespace, sink.table


def _unknown(path: tuple[str, ...], name: str, known: Mapping[str, object]) -> Iterator[Flaw]:
    if name not in known:
        kind = path[-1]
        yield Flaw(path, f"no {kind} is called '{name}'{suggestion(name, known)}")


def _stream_flaws(sink: IcebergSink, source: SourceDeclaration) -> Iterator[Flaw]:
    if sink.template is None or not sink.template.is_by_stream:
        return
    if not source.config.has_streams:
        yield Flaw(("table",), f"'{{stream}}': connector '{source.connector}' has no streams; name a column")


_OF_THE_LOOP = ("batch_size", "max_batch_size", "minimum_size")
"""The keys of a sink that say how much a batch takes, where it is not Spark that says so."""


def _streaming_flaws(sink: IcebergSink) -> Iterator[Flaw]:
    """What a sink cannot do where Structured Streaming brings its rows."""
    if sink.template is not None:
        yield Flaw(("table",), "rows of connector 'spark' go to one table; name it without columns")
    if sink.change_columns:
        yield Flaw(("change_columns",), "rows of connector 'spark' do not tell their changes")
    for key in _OF_THE_LOOP:
        if key in sink.model_fields_set:
            why = "Spark decides what a batch takes; use the source's options, such as maxFilesPerTrigger"
            yield Flaw((key,), f"has no effect with connector 'spark': {why}")


def _same_checkpoint(parts: Parts) -> Iterator[Flaw]:
    """A checkpoint belongs to one stream: two would read what the other has not read."""
    known: dict[str, str] = {}
    for name, pipeline in _known(parts):
        source = parts.sources.get(pipeline.source)
        if source is None or not source.config.is_streaming or not pipeline.enabled:
            continue
        other = known.setdefault(source.config.identity(), name)
        if other != name:
            why = f"shares its checkpoint with pipeline '{other}'; each needs one of its own"
            yield Flaw(("pipelines", name, "source"), why)


def _column_flaws(sink: IcebergSink, columns: Schema) -> Iterator[Flaw]:
    for key, index, name in sink.columns_named():
        column = columns.column(name)
        path = (key,) if key in ("order_by", "table") else (key, index)
        if column is None:
            yield Flaw(path, f"'{name}' is not a column of the source{suggestion(name, columns.names)}")
        elif not isinstance(column.type, (Primitive, Decimal)):
            yield Flaw(path, f"'{name}' is {column.type.ddl()}; only a single value can stand here")
        elif key == "key_fields" and column.type in (Primitive("float"), Primitive("double")):
            yield Flaw(path, f"'{name}' is {column.type.ddl()}, which cannot tell rows apart")
        elif key == "table" and column.type not in routes.ROUTABLE:
            yield Flaw(path, f"'{name}' is {column.type.ddl()}; text or a whole number can name a table")
    yield from _partition_flaws(sink, columns)


def _partition_flaws(sink: IcebergSink, columns: Schema) -> Iterator[Flaw]:
    key = "partition_by" if sink.partition_by else "partition_fields"
    for index, one in enumerate(sink.partition_fields_declared() or ()):
        column = columns.column(one.column)
        single = column is not None and isinstance(column.type, (Primitive, Decimal))
        message = refusal(one, columns) if single else None
        if message:
            yield Flaw((key, index), message)


def _same_writer(parts: Parts) -> Iterator[Flaw]:
    known: dict[tuple[str, ...], list[tuple[str, IcebergSink]]] = {}
    for name, pipeline in _known(parts):
        declaration = parts.sinks.get(pipeline.sink)
        if declaration is None or not pipeline.enabled:
            continue
        sink = declaration.config
        me = (sink.catalog.identity(), sink.namespace, sink.branch, sink.sink_id_of(name))
        others = [other for other, theirs in known.setdefault(me, []) if _may_meet(sink, theirs)]
        known[me].append((name, sink))
        if others:
            table = f"{sink.namespace}.{sink.table}"
            message = f"writes to table '{table}' as '{me[-1]}', as pipeline '{others[0]}' does"
            yield Flaw(("pipelines", name, "sink"), f"{message}; each needs its own 'sink_id'")


def _letters_of_nothing(parts: Parts) -> Iterator[Flaw]:
    """Dead letters are declared, and no source of the sink has records that could become some."""
    for name, sink in parts.sinks.items():
        sources = [parts.sources.get(one.source) for _, one in _known(parts) if one.sink == name]
        known = [source for source in sources if source is not None]
        if sink is None or "dead_letter" not in sink.config.model_fields_set or len(known) < len(sources):
            continue
        if sink.config.dead_letter != "off" and known and not any(one.config.catches for one in known):
            why = f"has no effect: connector '{known[0].connector}' has no records here that could be bad"
            yield Flaw(("sinks", name, "config", "dead_letter"), why)


def _environments(parts: Parts) -> Iterator[Flaw]:
    """What only a whole process can be told, and what two declarations want to be different."""
    seen: dict[str, tuple[str, Secret]] = {}
    for place, told, catalog in _catalogs(parts):
        for variable, value in catalog.environment().items():
            other, before = seen.setdefault(variable, (told, value))
            if before != value:
                message = f"wants another {_WHOSE[variable]} than {other}, and a process can have one"
                yield Flaw(place, f"{message}; declare them in two files")


def _catalogs(parts: Parts) -> Iterator[tuple[tuple[str, ...], str, Catalog]]:
    """Each catalog that is declared, with its place and whose it is."""
    for name, sink in parts.sinks.items():
        if sink is not None:
            yield ("sinks", name, "config"), f"sink '{name}'", sink.config.catalog
    for name, source in parts.sources.items():
        for catalog in source.config.catalogs if source is not None else ():
            yield ("sources", name, "config"), f"source '{name}'", catalog


_WHOSE = {
    "AWS_PROFILE": "AWS profile for Glue",
    "GOOGLE_APPLICATION_CREDENTIALS": "service account of Google",
    "AZURE_TENANT_ID": "tenant of Azure",
    "AZURE_CLIENT_ID": "application of Azure",
    "AZURE_CLIENT_SECRET": "secret of an application of Azure",
}


def _may_meet(one: IcebergSink, other: IcebergSink) -> bool:
    """Whether both may write to one table; who writes to several may write to any."""
    return one.table == other.table or one.template is not None or other.template is not None
