"""`calve schema`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import click
from pydantic.json_schema import models_json_schema

from calve import registry
from calve.cli import render
from calve.cli.app import debug_option
from calve.cli.reference import KINDS, sections
from calve.model import Model, documentation
from calve.project import Pipeline, Project, SinkDeclaration, SourceDeclaration, SparkSettings

Json = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
VARIABLE: Json = {"type": "string", "pattern": r"\$\{.+\}"}
"""What may stand where a number, a boolean or one of some words is expected."""


@click.command("schema")
@debug_option
def command(debug: bool) -> None:
    """Print the JSON schema of declarations, for editors that check YAML while it is written."""
    render.show("json", declaration(), ())


def declaration() -> Json:
    """The JSON schema of a whole declaration."""
    definitions = Definitions.of_all_models()
    whole = definitions.of(Project)
    keys = {
        **whole["properties"],
        "sources": _named(definitions.connected(SourceDeclaration, "source")),
        "sinks": _named(definitions.connected(SinkDeclaration, "sink")),
        "pipelines": _named(definitions.pipeline()),
        "spark": definitions.reference(SparkSettings),
    }
    for name, value in keys.items():
        value["description"] = _docs(Project)[name]
    described = {"$schema": DIALECT, **whole, "title": "A declaration of Calve", "properties": keys}
    return {**described, "$defs": dict(sorted(definitions.used(keys).items()))}


@dataclass(frozen=True)
class Definitions:
    """The schemas of all models, by the names that references use."""

    schemas: Mapping[str, Json]
    names: Mapping[type[Model], str]

    @classmethod
    def of_all_models(cls) -> Definitions:
        models = _models()
        references, whole = models_json_schema([(model, "validation") for model in models], by_alias=True)
        names = {model: references[model, "validation"]["$ref"].rpartition("/")[2] for model in models}
        schemas = whole["$defs"]
        for model, name in names.items():
            _describe(schemas[name], model)
        return cls({name: _with_variables(schema) for name, schema in schemas.items()}, names)

    def of(self, model: type[Model]) -> Json:
        return self.schemas[self.names[model]]

    def reference(self, model: type[Model]) -> Json:
        return {"$ref": f"#/$defs/{self.names[model]}"}

    def connected(self, model: type[Model], kind: str) -> Json:
        """Any connector of a kind, told apart by `connector`."""
        return {"oneOf": [self._connector(model, kind, name) for name in registry.names(kind)]}

    def pipeline(self) -> Json:
        whole = self.of(Pipeline)
        transforms = [
            self.reference(registry.find("transform", name)) for name in registry.names("transform")
        ]
        listed = {**whole["properties"]["transforms"], "type": "array", "items": {"oneOf": transforms}}
        return {**whole, "properties": {**whole["properties"], "transforms": listed}}

    def used(self, value: Any) -> dict[str, Json]:
        """The schemas that `value` refers to, and those that they refer to."""
        found: dict[str, Json] = {}
        waiting = list(_references(value))
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = self.schemas[name]
                waiting += _references(found[name])
        return found

    def _connector(self, model: type[Model], kind: str, name: str) -> Json:
        whole, config = self.of(model), registry.find(kind, name)
        is_optional = not self.of(config).get("required")
        keys = {
            **whole["properties"],
            "connector": {**whole["properties"]["connector"], "const": name},
            "config": {**self.reference(config), "description": _docs(model)["config"]},
        }
        return {
            **whole,
            "properties": keys,
            "required": ["connector"] if is_optional else ["connector", "config"],
        }


def _models() -> list[type[Model]]:
    """The models of a declaration, and those of the sections in them."""
    waiting: list[type[Model]] = [Project, SourceDeclaration, SinkDeclaration, Pipeline, SparkSettings]
    waiting += [registry.find(kind, name) for kind in KINDS for name in registry.names(kind)]
    found: list[type[Model]] = []
    while waiting:
        model = waiting.pop()
        if model not in found:
            found.append(model)
            waiting += _inner(model)
    return found


def _inner(model: type[Model]) -> Iterator[type[Model]]:
    hints = get_type_hints(model, include_extras=True)
    for name in model.model_fields:
        yield from (section for _, section in sections(hints[name], name))


def _docs(model: type[Model]) -> dict[str, str]:
    return {name: " ".join(text.split()) for name, text in documentation(model).items()}


def _describe(schema: Json, model: type[Model]) -> None:
    docs = _docs(model)
    for name, field in model.model_fields.items():
        if name in docs:
            schema["properties"][field.alias or name]["description"] = docs[name]


def _named(value: Json) -> Json:
    names = {"pattern": "^[A-Za-z_][A-Za-z0-9_-]*$"}
    return {"type": "object", "propertyNames": names, "additionalProperties": value}


def _with_variables(schema: Any) -> Any:
    """The schema in which a variable may stand for every scalar that is not any text."""
    if isinstance(schema, list):
        return [_with_variables(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in ("integer", "number", "boolean") or "enum" in schema:
        about = {key: value for key, value in schema.items() if key in ("description", "default", "title")}
        bare = {key: value for key, value in schema.items() if key not in about}
        return {**about, "anyOf": [bare, VARIABLE]}
    return {key: value if key == "default" else _with_variables(value) for key, value in schema.items()}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for item in value.values():
            yield from _references(item)
