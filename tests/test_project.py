"""Projects: the rules across components."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from calve import pending, registry
from calve.declare.build import Building
from calve.model import Flaw, documentation
from calve.position import Position
from calve.project import (
    Parts,
    Pipeline,
    Project,
    SinkDeclaration,
    SourceDeclaration,
    SparkSettings,
    Stream,
    flaws,
)
from calve.schema import Schema, parse
from calve.sink.declaration import IcebergSink
from calve.sources.source import Limits, Source, Waiting


class Shelf(Source):
    """A source whose columns are declared, or not."""

    connector: ClassVar[str] = "shelf"

    ddl: str | None = "id bigint, at timestamp, region string, address struct<zip: string>"
    """The columns."""

    def columns(self) -> Schema | None:
        return parse(self.ddl) if self.ddl else None

    def identity(self) -> str:
        return "shelf"

    def start(self) -> Position:
        return {}

    def latest(self, after: Position, limits: Limits) -> Waiting:
        return Waiting(after, 0)

    def read(self, spark: Any, after: Position, to: Position) -> Any:
        raise NotImplementedError

    def check(self) -> list[str]:
        return []


class Code:
    """Stands for a transform that runs Python."""

    model_fields: ClassVar[dict[str, str]] = {"python": ""}


class Query:
    """Stands for a transform that runs SQL."""

    model_fields: ClassVar[dict[str, str]] = {"sql": ""}


SUPPORTED = "id bigint, at timestamp, region string, address struct<zip: string>"


def parts(ddl: str | None = SUPPORTED, transforms: list[Any] | None = None, **keys: Any) -> Parts:
    sink = IcebergSink.model_validate({"namespace": "shop", "table": "orders", **keys})
    return Parts(
        sources={"shelf": SourceDeclaration(connector="shelf", config=Shelf(ddl=ddl))},
        sinks={"lake": SinkDeclaration(connector="iceberg", config=sink)},
        pipelines={"orders": Pipeline(source="shelf", sink="lake", transforms=transforms or [])},
    )


def test_a_sound_project_has_no_flaws() -> None:
    assert flaws(parts(partition_by=["day(at)", "address.zip"], sort_by=["id"])) == []


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        (
            {"partition_by": ["day(att)"]},
            ("partition_by", 0),
            "'att' is not a column of the source; did you mean 'at'?",
        ),
        ({"sort_by": ["id", "Region"]}, ("sort_by", 1), "did you mean 'region'?"),
        ({"key_fields": ["nobody"]}, ("key_fields", 0), "'nobody' is not a column of the source"),
        ({"partition_by": ["address"]}, ("partition_by", 0), "only a single value can stand here"),
        ({"partition_by": ["hour(region)"]}, ("partition_by", 0), "'region' is STRING"),
        (
            {"partitioning": "time", "partition_fields": ["id"]},
            ("partition_fields", 0),
            "cannot partition by 'day(id)': 'id' is BIGINT",
        ),
    ],
)
def test_keys_name_columns_that_fit(keys: dict[str, Any], path: tuple[Any, ...], message: str) -> None:
    (found,) = flaws(parts(**keys))
    assert found.path == ("sinks", "lake", "config", *path)
    assert message in found.message


def test_columns_are_not_judged_when_a_transform_may_make_them() -> None:
    assert flaws(parts(transforms=[Query()], partition_by=["nobody"])) == []


def test_columns_are_not_judged_when_the_declaration_does_not_tell_them() -> None:
    assert flaws(parts(ddl=None, partition_by=["nobody"])) == []


def test_columns_that_iceberg_cannot_hold_are_a_flaw_of_the_source() -> None:
    (found,) = flaws(parts(ddl="id bigint, v variant"))
    assert found == Flaw(
        ("sources", "shelf", "config"), "column 'v' is VARIANT: Iceberg holds it from format_version 3 on"
    )
    assert flaws(parts(ddl="id bigint, v variant", format_version=3)) == []


def test_python_needs_permission() -> None:
    declared = parts(transforms=[Code()])
    (found,) = flaws(declared)
    assert found.path == ("pipelines", "orders", "transforms", 0, "python")
    assert flaws(Parts(declared.sources, declared.sinks, declared.pipelines, allow_python=True)) == []


def test_a_part_with_flaws_of_its_own_is_still_known_by_name() -> None:
    pipelines = {"orders": Pipeline(source="shelf", sink="lake"), "broken": None}
    assert flaws(Parts({"shelf": None}, {"lake": None}, pipelines)) == []


def writers(*sinks: dict[str, Any], enabled: bool = True) -> list[Flaw]:
    declared = {
        f"lake{n}": SinkDeclaration(
            connector="iceberg",
            config=IcebergSink.model_validate({"namespace": "shop", "table": "orders", **keys}),
        )
        for n, keys in enumerate(sinks)
    }
    sources = {"shelf": SourceDeclaration(connector="shelf", config=Shelf(ddl=None))}
    pipelines = {
        f"p{n}": Pipeline(source="shelf", sink=f"lake{n}", enabled=enabled) for n in range(len(sinks))
    }
    return flaws(Parts(sources, declared, pipelines))


def test_two_pipelines_cannot_write_to_one_table_as_the_same() -> None:
    (found,) = writers({"sink_id": "me"}, {"sink_id": "me"})
    assert found.path == ("pipelines", "p1", "sink")
    assert found.message.startswith("writes to table 'shop.orders' as 'me', as pipeline 'p0' does")


def test_a_default_sink_id_may_collide_with_a_given_one() -> None:
    assert len(writers({}, {"sink_id": "p0"})) == 1


@pytest.mark.parametrize(
    "other",
    [{}, {"sink_id": "you"}, {"sink_id": "me", "table": "bills"}, {"sink_id": "me", "branch": "audit"}],
)
def test_two_pipelines_that_differ_in_any_of_it_are_fine(other: dict[str, Any]) -> None:
    assert writers({"sink_id": "me"}, other) == []


def test_the_same_table_of_another_catalog_is_another_table() -> None:
    elsewhere = {"catalog": {"type": "hadoop", "warehouse": "/w"}}
    assert writers({"sink_id": "me"}, {"sink_id": "me", **elsewhere}) == []


def test_pipelines_that_are_not_enabled_do_not_collide() -> None:
    assert writers({"sink_id": "me"}, {"sink_id": "me"}, enabled=False) == []


def test_a_pipeline_is_resolved() -> None:
    declared = parts()
    project = Project(
        version="1.0",
        sources=dict(declared.sources),
        sinks=dict(declared.sinks),
        pipelines=dict(declared.pipelines),
    ).placed(Path("/project/calve.yaml"))
    resolved = project.pipeline("orders")
    assert isinstance(resolved.source, Shelf)
    assert (resolved.sink.table, resolved.sink_id, resolved.transforms) == ("orders", "orders", ())
    assert project.directory == Path("/project")
    with pytest.raises(KeyError):
        project.pipeline("nobody")


def test_defaults_of_the_project_are_those_of_the_reference() -> None:
    assert (SparkSettings().master, SparkSettings().driver_memory, SparkSettings().config) == (
        "local[*]",
        "4g",
        {},
    )
    assert Pipeline(source="a", sink="b").enabled is True
    assert Stream(name="a").sync_mode == "incremental"
    assert Project.model_fields["allow_python"].default is False


@pytest.mark.parametrize(
    "model", [Project, Pipeline, SourceDeclaration, SinkDeclaration, SparkSettings, Stream]
)
def test_every_key_is_documented(model: Any) -> None:
    assert {key for key in documentation(model) if not key.startswith("_")} == set(model.model_fields)


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[2,1,512]", "spark://h:7077", "yarn"])
def test_masters_of_spark_are_taken(master: str) -> None:
    assert SparkSettings(master=master).master == master


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(registry.SOURCES, "shelf", f"{__name__}:Shelf")

    def build(**sink: Any) -> list[tuple[Any, ...]]:
        building = Building("/project")
        config = {"namespace": "shop", "table": "orders", **sink}
        building.project(
            {
                "version": "1.0",
                "sources": {"s": {"connector": "shelf"}},
                "sinks": {"k": {"connector": "iceberg", "config": config}},
                "pipelines": {"p": {"source": "s", "sink": "k"}},
            }
        )
        return [flaw.path for flaw in building.flaws]

    return build


def test_a_choice_between_shapes_is_told_apart(built: Any) -> None:
    prefix = ("sinks", "k", "config")
    assert built(commit_mode="overwrite", overwrite=[5]) == [(*prefix, "overwrite", 0)]
    assert built(dead_letter={"tabel": "x"}) == [(*prefix, "dead_letter", "tabel")]


def test_a_connector_that_cannot_be_loaded_is_a_flaw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.SOURCES, "shelf", "calve.nowhere:Shelf")
    message = "connector 'shelf' cannot be loaded: No module named 'calve.nowhere'"
    building = Building("/project")
    building.project({"version": "1.0", "sources": {"s": {"connector": "shelf"}}, "pipelines": {"p": 5}})
    assert Flaw(("sources", "s", "connector"), message) in building.flaws


def test_a_source_that_is_no_mapping_is_a_flaw() -> None:
    building = Building("/project")
    building.project(
        {"version": "1.0", "sources": {"s": 5}, "pipelines": {"p": {"source": "s", "sink": "k"}}}
    )
    assert building.flaws == [
        Flaw(("sources", "s"), "expected keys and values"),
        Flaw(("pipelines", "p", "sink"), "no sink is called 'k'"),
    ]


def entry(place: str, value: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    group, connector, *keys = place.split(".")
    for key in reversed(keys):
        value = {key: value}
    connector = "files" if connector == "*" else connector
    return {group: {"x": {"connector": connector, **value}}}, (group, "x", *keys)


@pytest.mark.parametrize("place", pending.KEYS)
def test_what_is_pending_is_refused_at_its_key(place: str) -> None:
    for value in pending.KEYS[place]:
        declared, path = entry(place, {} if isinstance(value, type) else value)
        (found,) = pending.flaws(declared)
        assert found.path == path
        assert found.message.endswith("not available yet")


def test_other_values_of_a_pending_key_are_fine() -> None:
    declared, _ = entry("sinks.iceberg.config.catalog.type", "rest")
    assert pending.flaws(declared) == []
    declared, _ = entry("sources.files.config.format", "avro")
    assert pending.flaws(declared) == []


@pytest.mark.parametrize(
    "declared", [None, 5, [], {"sources": 5}, {"sinks": {"x": 5}}, {"sources": {"x": {"config": 1}}}]
)
def test_what_has_another_shape_is_not_judged(declared: Any) -> None:
    assert pending.flaws(declared) == []
