"""Writes the generated parts of `docs/` from the models, the command line and the errors.

python scripts/docs.py            rewrites what stands between `<!-- generated: … -->` and `<!-- end -->`
python scripts/docs.py --check    changes nothing; ends with 1 and names the pages that are stale
"""

from __future__ import annotations

import datetime
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
import pyarrow as pa
from pydantic.fields import FieldInfo

from calve import clock, diagnosis, errors, pending, registry
from calve.catalogs import Catalog, Glue, Hive, Jdbc, Nessie, Rest, S3Tables
from calve.catalogs.databases import OPTIONS
from calve.cli import reference
from calve.cli.app import UNREAD, VERBS, module_of
from calve.decode import bad, exact
from calve.decode.arrow import schema_of_arrow
from calve.errors import CalveError
from calve.model import Duration, Model, documentation
from calve.project import Pipeline, Project, SinkDeclaration, SourceDeclaration, SparkSettings, Stream
from calve.schema import SchemaError, parse
from calve.sink import dead_letter
from calve.sink.declaration import CODECS, Compression
from calve.sources.kafka_client import SETTINGS
from calve.sources.kafka_records import METADATA
from calve.stores import S3, Azure, Gcs

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))

_PART = re.compile(r"(<!-- generated: ([^>]*?) -->\n).*?(<!-- end -->)", re.DOTALL)

SECTIONS: dict[str, tuple[type[Model], str]] = {
    "project": (Project, ""),
    "source": (SourceDeclaration, "sources.*."),
    "stream": (Stream, ""),
    "sink": (SinkDeclaration, "sinks.*."),
    "pipeline": (Pipeline, ""),
    "spark": (SparkSettings, ""),
    "catalog": (Catalog, "sinks.iceberg.config.catalog."),
    "rest": (Rest, ""),
    "s3tables": (S3Tables, ""),
    "glue": (Glue, ""),
    "hive": (Hive, ""),
    "jdbc": (Jdbc, ""),
    "nessie": (Nessie, ""),
    "s3": (S3, "sinks.iceberg.config.s3."),
    "gcs": (Gcs, ""),
    "azure": (Azure, ""),
}
"""Parts of a declaration that are no connector, and where `pending.KEYS` has their keys."""

_NO_CODEC = {
    ("parquet", "brotli"): "Parquet defines it, but Iceberg's runtime comes without its codec",
    ("avro", "lz4"): "Iceberg's Avro writer has none",
    ("avro", "brotli"): "Iceberg's Avro writer has none",
    ("orc", "brotli"): "Iceberg's ORC writer has none",
}

_LETTERS = {
    "letter_id": "made of the sink, the source and the position: the same record has the same id",
    "position": "where the record is in its source, as JSON",
    "event_time": "when it was written, if the source tells",
    "stage": "where it was refused",
    "reason": "the reason code",
    "message": "the reason in words",
    "key": "its key, as bytes",
    "value": "its value, as bytes",
    "headers": "its headers",
    "schema_id": "the id of the schema that it was written with, where the format has one",
    "pipeline": "the pipeline that met it",
    "source": "the identity of the source",
    "epoch": "the epoch of the writer",
    "batch": "a digest of where the batch begins and ends",
    "recorded_at": "when the letter was written",
    "replayed_at": "when a replay took the record; NULL until then",
}

_BOUNDLESS = 2**31 - 1
"""A bound from here on only keeps numbers apart from the end of their type."""

_OTHER_CODES = {
    0: "done; a stop that was asked for and finished included",
    1: "`verify` has findings",
    2: "only `plan --exit-code`: a run would change something",
}
_UNREAD = "nobody reads the output any more, as behind `| head -1`"
_CUT_OFF = {130: "Ctrl-C", 143: "SIGTERM"}


def main(arguments: Sequence[str]) -> int:
    """Rewrite the pages, or tell which are stale."""
    stale = [page for page in PAGES if rendered(page.read_text()) != page.read_text()]
    for page in stale:
        if "--check" not in arguments:
            page.write_text(rendered(page.read_text()))
    names = ", ".join(str(page.relative_to(ROOT)) for page in stale)
    if "--check" in arguments and stale:
        print(f"Stale: {names}; run 'make docs'", file=sys.stderr)
        return 1
    print(f"Rewrote {names}" if stale else "Every page is up to date")
    return 0


def rendered(text: str) -> str:
    """A page with its generated parts written anew."""
    return _PART.sub(lambda part: f"{part[1]}{_part(part[2])}\n{part[3]}", text)


def _part(name: str) -> str:
    kind, *words = name.split()
    return PARTS[kind](*words).strip("\n")


def section(name: str) -> str:
    """The keys of a part of a declaration, without those of the sections in it."""
    model, place = SECTIONS[name]
    return _table(model, [place], {})


def connector(kind: str, name: str) -> str:
    """The keys of a connector, and those of each section in it under a heading of its own.

    A section that a sink of the same name has as well is described there.
    """
    model = registry.find(kind, name)
    places = [f"{kind}s.{one}.config." for one in ("*", name)] if kind != "transform" else []
    is_shared = kind == "source" and name in registry.names("sink")
    elsewhere = list(_sections(registry.find("sink", name), "")) if is_shared else []
    return "\n".join(_connector(model, name, places, elsewhere))


def _connector(
    model: type[Model], name: str, places: list[str], elsewhere: Sequence[tuple[str, type[Model]]]
) -> Iterator[str]:
    yield _sentence(model)
    yield ""
    inner = list(_sections(model, ""))
    links = {path: _slug(_heading(name, path)) for path, _ in inner}
    yield _table(model, places, links)
    for path, found in [one for one in inner if one not in elsewhere]:
        yield f"\n#### {_heading(name, path)}\n"
        yield " ".join([_sentence(found), *(["Not available yet."] if _is_pending(path, places) else [])])
        if found.model_fields:
            yield ""
            yield _table(found, [f"{place}{path}." for place in places], links, f"{path}.")


def _sections(model: type[Model], prefix: str) -> Iterator[tuple[str, type[Model]]]:
    for field_name, hint in _hints(model).items():
        field = model.model_fields[field_name]
        for path, found in reference.sections(hint, f"{prefix}{field.alias or field_name}"):
            yield path, found
            yield from _sections(found, f"{path}.")


def _heading(connector: str, path: str) -> str:
    key, _, tag = path.partition("(")
    return f"{connector}: `{key}`" + (f" of type `{tag[:-1]}`" if tag else "")


def _table(model: type[Model], places: list[str], links: dict[str, str], prefix: str = "") -> str:
    docs = documentation(model)
    rows = []
    for name, hint in _hints(model).items():
        field = model.model_fields[name]
        key = field.alias or name
        meaning = " ".join([*docs.get(name, "").split(), *_pending(key, places)])
        rows.append((f"`{key}`", _type(hint, field, links, f"{prefix}{key}"), _default(hint, field), meaning))
    return table(("key", "type", "default", "meaning"), rows)


def _hints(model: type[Model]) -> dict[str, Any]:
    """The types of the keys, a model's own before those of the models it extends."""
    hints = get_type_hints(model, include_extras=True)
    own = [vars(kind).get("__annotations__", {}) for kind in model.__mro__]
    nearest = lambda name: next(at for at, names in enumerate(own) if name in names)  # noqa: E731
    return {name: hints[name] for name in sorted(model.model_fields, key=nearest)}


def _type(hint: Any, field: FieldInfo, links: dict[str, str], path: str) -> str:
    words = ", ".join([reference.words(hint), *_bounds(field)])
    inner = [links[place] for place, _ in reference.sections(hint, path) if place in links]
    return words.replace("section", f"[section](#{inner[0]})") if len(inner) == 1 else words


def _bounds(field: FieldInfo) -> Iterator[str]:
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    for bound in field.metadata:
        for name in words:
            value = getattr(bound, name, None)
            if value is not None and abs(value) < _BOUNDLESS:
                yield f"{words[name]} {value:g}" if isinstance(value, float) else f"{words[name]} {value}"


def _default(hint: Any, field: FieldInfo) -> str:
    if field.is_required():
        return reference.REQUIRED
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or isinstance(value, (Model, dict)) or value == []:
        return "–"
    if isinstance(value, list):
        return " ".join(f"`{one}`" for one in value)
    if value == "":
        return "empty text"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, (datetime.datetime, datetime.date)):
        return f"`{value.isoformat().replace('+00:00', 'Z')}`"
    return f"`{_duration(value) if hint == Duration else value}`"


def _duration(seconds: float) -> str:
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    whole = (f"{seconds / size:g}{unit}" for size, unit in units if seconds and seconds % size == 0)
    return next(whole, f"{seconds:g}s")


def _pending(key: str, places: list[str]) -> Iterator[str]:
    for place in places:
        values = pending.KEYS.get(f"{place}{key}", ())
        if values == pending.ANY:
            yield "Not available yet."
        elif values:
            yield f"Not available yet: {', '.join(map(_value, values))}."


def _value(value: Any) -> str:
    return "keys and values" if value is dict else f"`{value}`"


def _is_pending(path: str, places: list[str]) -> bool:
    """Whether the key of a section, or one that it is inside of, cannot be used yet."""
    head, _, last = path.rpartition(".")
    keys = path.split(".")
    for place in places:
        above = [pending.KEYS.get(f"{place}{'.'.join(keys[:depth])}") for depth in range(1, len(keys) + 1)]
        if pending.ANY in above or last in pending.KEYS.get(f"{place}{head}.type", ()):
            return True
    return False


def _sentence(model: type) -> str:
    return " ".join((inspect.getdoc(model) or "").split())


def unavailable() -> str:
    """Everything that can be declared and is refused as not available yet."""
    lines = [
        f"- `connector: {name}` of a {kind}" for kind, names in pending.CONNECTORS.items() for name in names
    ]
    for place, values in pending.KEYS.items():
        group, wanted, *keys = place.split(".")
        key = ".".join(keys).removeprefix("config.")
        whose = f"any {group[:-1]}" if wanted == "*" else f"a {group[:-1]} of `connector: {wanted}`"
        which = "" if values == pending.ANY else f": {', '.join(map(_value, values))}"
        lines.append(f"- `{key}` of {whose}{which}")
    return "\n".join(lines)


def codecs() -> str:
    """Which format has which codec."""
    rows = [
        (
            f"`{codec}`",
            *("yes" if codec in CODECS[name] else f"no: {_NO_CODEC[name, codec]}" for name in CODECS),
        )
        for codec in get_args(Compression)
    ]
    return table(("`compression`", *(f"`format: {name}`" for name in CODECS)), rows)


def kafka(what: str) -> str:
    """What a Kafka source knows: the columns of `metadata`, or the names that `options` may hold."""
    if what == "options":
        return ", ".join(f"`{name}`" for name in SETTINGS)
    rows = [
        (f"`{name}`", f"`{column.name}`", f"`{column.type.ddl()}`{'' if column.nullable else ' NOT NULL'}")
        for name, column in METADATA.items()
    ]
    return table(("in `metadata`", "column", "type"), rows)


def verb(name: str) -> str:
    """How a verb is called, what it does, and its options."""
    command: click.Command = import_module(module_of(name)).command
    usage = command.get_usage(click.Context(command, info_name=f"calve {name}")).removeprefix("Usage: ")
    options = [one for one in command.params if isinstance(one, click.Option)]
    rows = [(_spelling(one), _option_default(one), one.help or "") for one in options]
    help_text = " ".join(inspect.cleandoc(command.help or "").split())
    return "\n".join(
        [
            "```",
            " ".join(usage.split()),
            "```",
            "",
            help_text,
            "",
            table(("option", "default", "meaning"), rows),
        ]
    )


def _spelling(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if option.is_flag:
        return names
    choices = getattr(option.type, "choices", ())
    return f"{names} {' or '.join(choices) if choices else option.type.name.split()[0].upper()}"


def _option_default(option: click.Option) -> str:
    return f"`{option.default}`" if option.show_default else "–"


def verbs() -> str:
    """Every verb in a line."""
    return table(
        ("verb", "what it is for"), [(f"[`{name}`](#{name})", text) for name, text in sorted(VERBS.items())]
    )


def classes(root: type[CalveError] = CalveError) -> list[type[CalveError]]:
    """All errors, each before the ones that extend it."""
    return [root, *(inner for child in root.__subclasses__() for inner in classes(child))]


def codes() -> str:
    """Exit codes and what they mean."""
    meanings: dict[int, list[str]] = {code: [text] for code, text in _OTHER_CODES.items()}
    for error in classes():
        text = (error.__doc__ or "").rstrip(".")
        meanings.setdefault(error.exit_code, []).append(f"`{error.__name__}`: {text[0].lower()}{text[1:]}")
    for code, name in _CUT_OFF.items():
        text = f"the batch in flight was cut off: a second signal came, or {name} was not done after 30 s"
        meanings[code] = [text]
    meanings[UNREAD] = [_UNREAD]
    return table(
        ("code", "meaning"), [(str(code), "; ".join(texts)) for code, texts in sorted(meanings.items())]
    )


def tree() -> str:
    """The exceptions as the module draws them."""
    drawn = (errors.__doc__ or "").partition("\n\n")[2].rstrip()
    return f"```\n{drawn}\n```"


def reasons() -> str:
    """The reason codes of dead letters."""
    return table(
        ("stage", "reason", "meaning"),
        [(f"`{stage}`", f"`{code}`", text) for code, (stage, text) in bad.REASONS.items()],
    )


_ARROW = (
    pa.bool_(), pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
    pa.decimal128(38, 10), pa.decimal256(50, 2), pa.string(), pa.large_string(), pa.binary(), pa.binary(16),
    pa.date32(), pa.date64(), pa.timestamp("ns"), pa.timestamp("us", "UTC"),
    pa.time64("us"), pa.duration("us"),
)  # fmt: skip
_DECLARED = (
    "BOOLEAN", "TINYINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(18,2)", "STRING", "BINARY", "DATE",
    "TIMESTAMP", "TIMESTAMP_NTZ",
)  # fmt: skip


def arrow_types() -> str:
    """The types that take values of Parquet and Arrow, declared and not."""
    rows = []
    for given in _ARROW:
        taken = [name for name in _DECLARED if exact.takes(given, parse(f"v {name}").columns[0].type)]
        try:
            own = f"`{schema_of_arrow(pa.schema([('v', given)])).columns[0].type.ddl()}`"
        except SchemaError:
            own = "refused"
        rows.append((f"`{given}`", own, ", ".join(f"`{name}`" for name in taken) or "–"))
    return table(("Parquet and Arrow", "nothing declared", "may be declared as"), rows)


def letters() -> str:
    """The columns of a table of dead letters."""
    kept = dead_letter.columns().columns
    assert [one.name for one in kept] == list(_LETTERS), "a column has no meaning"
    return table(
        ("column", "type", "meaning"),
        [(f"`{one.name}`", f"`{one.type.ddl()}`", _LETTERS[one.name]) for one in kept],
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [headings, ["---"] * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def drivers() -> str:
    """The options that the drivers of databases are given."""
    return "\n".join(f"- {name}: {', '.join(f'`{one}`' for one in known)}" for name, known in OPTIONS.items())


def known_failures() -> str:
    """What `calve check` recognises."""
    rows = [(one.name, one.cause, one.advice, str(one.exit_code)) for one in diagnosis.TABLE]
    return table(("", "likely cause", "what to do", "code"), rows)


def steps() -> str:
    """The steps of a profile."""
    return table(("step", "what is in it"), [(f"`{name}`", text) for name, text in clock.STEPS.items()])


def performance() -> str:
    """What `make bench-peers PUBLISH=1` has left: nothing else is a number here."""
    from bench import report

    docs = ROOT / "docs"
    return report.markdown(report.read(docs / "performance.json"), docs / "performance", "performance/")


def workloads() -> str:
    """The workloads, and who is asked."""
    from bench.workloads import WORKLOADS

    told = {name: (kind.title, ", ".join(kind.only) or "all") for name, kind in WORKLOADS.items()}
    told["W9"] = ("A full scan, by DuckDB and by Spark, of the tables that W1 and W2 left", "all")
    told["W10-catalog"] = ("A REST catalog: answers, table creation, requests a second, and a query", "–")
    return table(("workload", "what is done", "peers"), [(f"`{name}`", *one) for name, one in told.items()])


def peers() -> str:
    """The peers, and what a reader of their numbers must know."""
    from bench.peers import PEERS, find

    rows = []
    for name in PEERS:
        peer = find(name)
        cannot = [f"not {one}: {why}" for one, why in peer.cannot.items()]
        rows.append(
            (f"`{name}`", _sentence(type(peer)), "; ".join([*([peer.note] if peer.note else []), *cannot]))
        )
    return table(("peer", "how it is run", "to know"), rows)


PARTS: dict[str, Callable[..., str]] = {
    "section": section,
    "connector": connector,
    "pending": unavailable,
    "codecs": codecs,
    "kafka": kafka,
    "verbs": verbs,
    "verb": verb,
    "codes": codes,
    "tree": tree,
    "reasons": reasons,
    "arrow_types": arrow_types,
    "letters": letters,
    "drivers": drivers,
    "diagnosis": known_failures,
    "steps": steps,
    "performance": performance,
    "workloads": workloads,
    "peers": peers,
}

if __name__ == "__main__":
    # The bench is no package that is installed.
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
