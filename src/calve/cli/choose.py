"""Pipelines, sources, sinks and tables by the names that the command line gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from calve.catalogs import Catalog
from calve.errors import UsageError
from calve.iceberg.name import TableName
from calve.model import suggestion
from calve.project import Project, ResolvedPipeline
from calve.sink import dead_letter
from calve.sink.declaration import IcebergSink
from calve.sink.prepare import table_name
from calve.sink.routes import lead
from calve.sources.source import Source


@dataclass(frozen=True)
class ChosenTable:
    """A table, the catalog it is in, and the branch that the project writes to."""

    catalog: Catalog
    name: TableName
    branch: str = "main"
    lists: bool = False
    """Whether it lists the tables that rows are routed to."""
    letters: TableName | None = None
    """The table for records that could not be taken."""


def unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is none, with the one that was meant."""
    names = sorted(known)
    listed = f"there is {', '.join(names)}" if names else "there is none"
    return UsageError(f"Cannot find {what} '{name}': {listed}{suggestion(name, names)}")


def pipelines(project: Project, names: Iterable[str]) -> list[ResolvedPipeline]:
    """The enabled pipelines, or those that were named."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in project.pipelines:
            raise unknown("pipeline", name, project.pipelines)
    wanted = wanted or [name for name, pipeline in project.pipelines.items() if pipeline.enabled]
    if not wanted:
        raise UsageError("Cannot find a pipeline: every one has 'enabled: false'; name one with --pipeline")
    return [project.pipeline(name) for name in wanted]


def pipeline(project: Project, name: str) -> ResolvedPipeline:
    """The pipeline whose name or, where no pipeline has that name, whose sink_id is `name`."""
    if name in project.pipelines:
        return project.pipeline(name)
    found = [one for one in map(project.pipeline, project.pipelines) if one.sink_id == name]
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        message = f"Cannot tell which pipeline '{name}' is: {names} have this sink_id"
        raise UsageError(f"{message}; give the name of the pipeline")
    if not found:
        raise unknown("pipeline", name, project.pipelines)
    return found[0]


def source(project: Project, name: str) -> Source:
    """The source called `name`."""
    if name not in project.sources:
        raise unknown("source", name, project.sources)
    return project.sources[name].config


def sink(project: Project, name: str) -> IcebergSink:
    """The sink called `name`."""
    if name not in project.sinks:
        raise unknown("sink", name, project.sinks)
    return project.sinks[name].config


def table(project: Project, text: str, sink_name: str | None = None) -> ChosenTable:
    """The table that `text` names: `namespace.table`, or `table` alone where only one sink's is called so."""
    sinks = {name: sink(project, name) for name in ([sink_name] if sink_name else project.sinks)}
    named = [pair for name, one in sinks.items() for pair in _tables_of(project, name, one, text)]
    declared = {one.name: one for _, one in named}
    found = list({one.name: one for names, one in named if text in names}.values())
    if len(found) > 1:
        names = sorted({str(one.name) for one in found})
        is_told = len(names) == len(found)
        how = "name it with its namespace" if is_told else "name its sink with --sink"
        raise UsageError(f"Cannot tell which table '{text}' is: {', '.join(names)}; {how}")
    return found[0] if found else _undeclared(list(declared.values()), text)


def _tables_of(
    project: Project, name: str, declared: IcebergSink, text: str
) -> Iterator[tuple[tuple[str, ...], ChosenTable]]:
    """The table of a sink, or where there are several the list of them and the one that `text` may be."""
    whole = table_name(declared)
    template = declared.template
    letters = dead_letter.table_name(declared)
    if letters is not None and text in (str(letters), letters.table):
        yield (str(letters), letters.table), ChosenTable(declared.catalog, letters)
    if template is None:
        one = ChosenTable(declared.catalog, whole, declared.branch, letters=letters)
        yield (str(whole), whole.table), one
        return
    writers = [declared.sink_id_of(one) for one, its in project.pipelines.items() if its.sink == name]
    leads = [replace(whole, table=lead(writer)) for writer in dict.fromkeys(writers)]
    for listing in leads:
        names = (str(whole), whole.table, str(listing), listing.table)
        yield names, ChosenTable(declared.catalog, listing, declared.branch, True, letters)
    routed = replace(whole, table=text.removeprefix(f"{declared.namespace}."))
    if template.has(routed.table) and routed not in (*leads, letters):
        yield (str(routed), routed.table), ChosenTable(declared.catalog, routed, declared.branch)


def _undeclared(declared: list[ChosenTable], text: str) -> ChosenTable:
    """A table that no sink writes to; it may be in the project's catalog all the same."""
    catalogs = {one.name.catalog: one.catalog for one in declared}
    *namespace, name = text.split(".")
    are_names = all(re.fullmatch(r"[\w-]+", part) for part in (name, *namespace))
    if not namespace or len(catalogs) != 1 or not are_names:
        raise unknown("table", text, (str(one.name) for one in declared))
    [(spark_name, catalog)] = catalogs.items()
    return ChosenTable(catalog, TableName(spark_name, tuple(namespace), name))
