"""Plain values become the models of a project; what is wrong is collected, not raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from calve import pending, project, registry
from calve.declare import words
from calve.model import Flaw, Model, Path, name, suggestion
from calve.project import Parts, Pipeline, Project, SinkDeclaration, SourceDeclaration, SparkSettings

M = TypeVar("M", bound=BaseModel)


@dataclass
class Building:
    """The flaws found on the way from plain values to a project, and the directory that paths begin at."""

    directory: str
    flaws: list[Flaw] = field(default_factory=list)

    def project(self, raw: Any) -> Project | None:
        """The project that `raw` declares; None if it has flaws."""
        if not isinstance(raw, dict):
            self.flaws.append(Flaw((), "expected keys and values"))
            return None
        sections: dict[str, Any] = {
            "sources": self._entries(raw, "sources", self._source),
            "sinks": self._entries(raw, "sinks", self._sink),
            "pipelines": self._entries(raw, "pipelines", self._pipeline),
            "spark": self._model(SparkSettings, raw.get("spark", {}), ("spark",)),
        }
        whole = self._model(Project, {**raw, **{key: sections[key] for key in sections if key in raw}}, ())
        allow_python = whole.allow_python if whole else bool(raw.get("allow_python"))
        del sections["spark"]
        self.flaws += project.flaws(Parts(**sections, allow_python=allow_python))
        if raw.get("pipelines") == {}:
            self.flaws.append(Flaw(("pipelines",), "declares no pipeline"))
        return None if self.flaws else whole

    def _entries(
        self, raw: Mapping[str, Any], key: str, build: Callable[[Any, Path], M | None]
    ) -> dict[str, M | None]:
        entries = raw.get(key, {})
        if not isinstance(entries, dict):
            self.flaws.append(Flaw((key,), "expected names with what they stand for"))
            return {}
        for one in entries:
            self._check_name(one, (key, one))
        return {one: build(entry, (key, one)) for one, entry in entries.items()}

    def _check_name(self, text: str, path: Path) -> None:
        try:
            name(text)
        except ValueError as error:
            self.flaws.append(Flaw(path, str(error)))

    def _source(self, raw: Any, path: Path) -> SourceDeclaration | None:
        return self._connected(SourceDeclaration, "source", raw, path)

    def _sink(self, raw: Any, path: Path) -> SinkDeclaration | None:
        return self._connected(SinkDeclaration, "sink", raw, path)

    def _connected(self, model: type[M], kind: str, raw: Any, path: Path) -> M | None:
        if not isinstance(raw, dict):
            self.flaws.append(Flaw(path, "expected keys and values"))
            return None
        connector = self._connector(kind, raw.get("connector"), (*path, "connector"))
        before = len(self.flaws)
        config = self._model(connector, raw.get("config", {}), (*path, "config")) if connector else None
        self.flaws[before:] = [_with_place(flaw, kind, path) for flaw in self.flaws[before:]]
        whole = self._model(model, {**raw, "config": config}, path)
        return whole if config is not None else None

    def _connector(self, kind: str, wanted: Any, path: Path) -> type[BaseModel] | None:
        if not isinstance(wanted, str) or wanted in pending.CONNECTORS[kind]:
            return None
        try:
            found: type[BaseModel] = registry.find(kind, wanted)
        except KeyError:
            known = [*registry.names(kind), *pending.CONNECTORS[kind]]
            options = f"; one of {', '.join(registry.names(kind))}"
            self.flaws.append(
                Flaw(path, f"no connector is called '{wanted}'{suggestion(wanted, known) or options}")
            )
            return None
        except ImportError as error:
            self.flaws.append(Flaw(path, f"connector '{wanted}' cannot be loaded: {error}"))
            return None
        return found

    def _pipeline(self, raw: Any, path: Path) -> Pipeline | None:
        if not isinstance(raw, dict):
            self.flaws.append(Flaw(path, "expected keys and values"))
            return None
        if "transforms" not in raw:
            return self._model(Pipeline, raw, path)
        transforms = self._transforms(raw["transforms"], (*path, "transforms"))
        whole = self._model(Pipeline, {**raw, "transforms": transforms}, path)
        return whole if None not in transforms else None

    def _transforms(self, raw: Any, path: Path) -> list[BaseModel | None]:
        if isinstance(raw, list):
            return [self._transform(one, (*path, index)) for index, one in enumerate(raw)]
        self.flaws.append(Flaw(path, "expected a list"))
        return [None]

    def _transform(self, raw: Any, path: Path) -> BaseModel | None:
        known = registry.names("transform")
        if not isinstance(raw, dict) or not raw:
            self.flaws.append(Flaw(path, f"expected a transform, one of {', '.join(known)}"))
            return None
        kind = next((key for key in raw if key in known), None)
        if kind is None:
            wanted = next(iter(raw))
            options = suggestion(wanted, known) or f"; one of {', '.join(known)}"
            self.flaws.append(Flaw((*path, wanted), f"no transform is called '{wanted}'{options}"))
            return None
        return self._model(registry.find("transform", kind), raw, path)

    def _model(self, model: type[M], raw: Any, path: Path) -> M | None:
        try:
            built = model.model_validate(raw, context={"directory": self.directory})
        except ValidationError as error:
            self.flaws += [flaw.under(*path) for flaw in words.flaws(error, raw, model)]
            return None
        if isinstance(built, Model):
            self.flaws += [flaw.under(*path) for flaw in built.flaws()]
        return built


def _with_place(flaw: Flaw, kind: str, path: Path) -> Flaw:
    """`flaw`; of an unknown key it tells where that belongs, if the other side of pipelines has it."""
    is_unknown = flaw.message == "unknown key" and flaw.path[:-1] == (*path, "config")
    other = "sink" if kind == "source" else "source"
    owners = _connectors_with(other, str(flaw.path[-1])) if is_unknown else []
    if not owners:
        return flaw
    return Flaw(flaw.path, f"unknown key; it belongs to a {other} of connector {' or '.join(owners)}")


def _connectors_with(kind: str, key: str) -> list[str]:
    found = []
    for connector in registry.names(kind):
        with suppress(ImportError):
            if key in words.keys_at(registry.find(kind, connector), ()):
                found.append(connector)
    return found
