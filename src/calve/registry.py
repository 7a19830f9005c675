"""Connectors by name: `connector: kafka` is looked up here and imported when it is named."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

SOURCES = {
    "datagen": "calve.sources.datagen:DatagenSource",
    "files": "calve.sources.files:FilesSource",
    "iceberg": "calve.sources.iceberg:IcebergSource",
    "kafka": "calve.sources.kafka:KafkaSource",
    "spark": "calve.sources.spark:SparkSource",
}
SINKS = {
    "iceberg": "calve.sink.declaration:IcebergSink",
}
TRANSFORMS = {
    "python": "calve.transforms.python:PythonTransform",
    "sql": "calve.transforms.sql:SqlTransform",
}
_KINDS = {"source": SOURCES, "sink": SINKS, "transform": TRANSFORMS}


def names(kind: str) -> list[str]:
    """The names of all connectors of `kind` (source, sink or transform), plug-ins included."""
    return sorted({*_KINDS[kind], *(entry.name for entry in _plugins(kind))})


def find(kind: str, name: str) -> Any:
    """The class registered as `name`; raises KeyError if there is none."""
    if name in _KINDS[kind]:
        module, _, attribute = _KINDS[kind][name].partition(":")
        return getattr(import_module(module), attribute)
    for entry in _plugins(kind):
        if entry.name == name:
            return entry.load()
    raise KeyError(name)


def _plugins(kind: str) -> Any:
    return entry_points(group=f"calve.{kind}s")
