import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import scripts.docs as generator
from calve import crash, declare, position, registry
from calve.cli import init
from calve.cli.app import VERBS
from calve.model import Model
from calve.project import Project
from calve.sink.declaration import CODECS

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "examples" / "README.md",
    *DOCS,
]
ENVIRONMENT = {
    "AZURE_SECRET": "secret",
    "CATALOG_CREDENTIAL": "client:secret",
    "DATABASE_PASSWORD": "secret",
    "KAFKA_PASSWORD": "secret",
    "KAFKA_USER": "calve",
    "NESSIE_TOKEN": "secret",
    "REGISTRY_PASSWORD": "secret",
    "S3_KEY": "key",
    "S3_SECRET": "secret",
}

COLUMNS = (
    "id BIGINT, customer STRING, status STRING, amount DECIMAL(12,2), region STRING, order_date TIMESTAMP"
)
SOURCE = {"connector": "files", "config": {"path": "in", "schema": COLUMNS}}
SINK = {
    "connector": "iceberg",
    "config": {"namespace": "shop", "table": "orders", "partitioning": "table_default"},
}
PIPELINE = {"source": "one", "sink": "one"}
WHERE = {
    "source": lambda found: {"source": found},
    "sink": lambda found: {"sink": {"connector": "iceberg", "config": found}},
    "pipeline": lambda found: {"pipeline": {**PIPELINE, **found}},
}
"""What stands behind `yaml` at a block that is part of a declaration, and where that part belongs."""

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_MAKE = re.compile(r"`make ([a-z-]+)[^`]*`|^ *make ([a-z-]+)", re.MULTILINE)


def text(page):
    return (ROOT / "docs" / f"{page}.md").read_text()


def blocks(*pages):
    return [
        pytest.param(
            info.split(), body, id=f"{page.name}:{page.read_text()[: found.start()].count(chr(10)) + 1}"
        )
        for page in pages
        for found in _FENCE.finditer(page.read_text())
        for info, body in [found.groups()]
    ]


def of(language, *kinds):
    found = [one for one in blocks(*PAGES) if one.values[0][:1] == [language]]
    return [one for one in found if not kinds or " ".join(one.values[0][1:]) in kinds]


def anchors(page):
    lines = _FENCE.sub("", page.read_text()).splitlines()
    return {generator._slug(line.lstrip("#").strip()) for line in lines if line.startswith("#")}


def models(root=Model):
    for child in root.__subclasses__():
        if child.__module__.startswith("calve."):
            yield child
            yield from models(child)


def load(tmp_path, declaration):
    file = tmp_path / "calve.yaml"
    file.write_text(declaration)
    return declare.load(file, ENVIRONMENT)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_generated_parts_are_fresh(page):
    assert generator.rendered(page.read_text()) == page.read_text(), "stale: run 'make docs'"


def test_a_stale_part_is_noticed():
    stale = "before\n<!-- generated: codecs -->\nold\n<!-- end -->\nafter\n"
    fresh = generator.rendered(stale)
    assert fresh.startswith("before\n")
    assert fresh.endswith("<!-- end -->\nafter\n")
    assert "old" not in fresh
    assert generator.rendered(fresh) == fresh


@pytest.mark.parametrize(("info", "body"), of("yaml", ""))
def test_a_whole_declaration_loads(tmp_path, info, body):
    assert isinstance(load(tmp_path, body), Project)


@pytest.mark.parametrize(("info", "body"), of("yaml", *WHERE))
def test_a_part_of_a_declaration_loads_in_its_place(tmp_path, info, body):
    part = WHERE[info[1]](YAML(typ="safe").load(body))
    whole = {
        "version": "1.0",
        "sources": {"one": part.get("source", SOURCE)},
        "sinks": {"one": part.get("sink", SINK)},
        "pipelines": {"one": part.get("pipeline", PIPELINE)},
    }
    if "sink" in part:
        whole["pipelines"]["one"] = {**PIPELINE, "transforms": [{"sql": "SELECT * FROM input"}]}
    assert isinstance(load(tmp_path, json.dumps(whole, default=str)), Project)


@pytest.mark.parametrize(("info", "body"), of("yaml"))
def test_a_block_that_is_not_loaded_says_that_it_is_a_fragment(info, body):
    assert " ".join(info[1:]) in ("", "fragment", *WHERE)
    assert YAML(typ="safe").load(body)


@pytest.mark.parametrize(("info", "body"), of("python"))
def test_python_can_be_compiled(info, body):
    compile(body, "block", "exec")


def test_the_example_of_a_mark_is_one():
    page = text("exactly-once")
    found = {info: json.loads(body) for info, body in _FENCE.findall(page) if info.startswith("json")}
    mark = position.parse(json.dumps(found["json mark"]))
    assert mark.summary("orders") == found["json summary"]


def test_every_key_of_every_model_is_in_the_reference():
    for kind in ("source", "sink", "transform"):
        for name in registry.names(kind):
            registry.find(kind, name)
    page = text("configuration")
    found = {
        (model.__name__, field.alias or name)
        for model in models()
        for name, field in model.model_fields.items()
    }
    assert len(found) > 100
    assert not [(model, key) for model, key in sorted(found) if f"| `{key}` |" not in page]


def test_every_key_has_a_meaning_in_the_reference():
    page = text("configuration")
    assert re.findall(r"^\| `(\w+)` \| .* \| +\|$", page, re.MULTILINE) == []


@pytest.mark.parametrize("kind", ["source", "sink", "transform"])
def test_every_connector_has_a_heading(kind):
    assert set(registry.names(kind)) <= anchors(ROOT / "docs" / "configuration.md")


def test_every_codec_that_is_missing_has_a_reason():
    assert generator.codecs().count("no: ") == 18 - sum(map(len, CODECS.values()))


def test_every_verb_is_documented_with_an_example():
    for verb in VERBS:
        assert f"\n## {verb}\n" in text("cli")
        assert re.search(rf"^calve {verb}\b", text("cli"), re.MULTILINE)


def test_every_error_is_explained_with_its_code():
    for error in generator.classes():
        row = re.search(rf"^\| `{error.__name__}` \| ([\d, ]+) \| ", text("errors"), re.MULTILINE)
        assert row, error.__name__
        assert int(row[1]) == error.exit_code


def test_every_error_is_in_the_tree_with_its_code():
    for error in generator.classes():
        assert re.search(rf"\b{error.__name__} +{error.exit_code}  ", text("errors")), error.__name__


def test_crash_points_are_listed_in_their_order():
    listed = re.findall(r"^\| `(\w+\.\w+)` \| `([\w/.]+)` \|", text("architecture"), re.MULTILINE)
    assert [name for name, _ in listed] == [*crash.POINTS, *crash.SCHEMA_POINTS]
    assert all((ROOT / "src" / "calve" / file).is_file() for _, file in listed)


def test_modules_in_the_picture_exist():
    picture = _FENCE.search(text("architecture"))[2]
    for file in re.findall(r"\b[a-z]+/(?:\w+\.py)?", picture):
        assert (ROOT / "src" / "calve" / file).exists(), file


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_anchors_resolve(page):
    for target in _LINK.findall(_FENCE.sub("", page.read_text())):
        if re.match(r"https?:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    for target in {one or other for one, other in _MAKE.findall(page.read_text())}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_project_of_init_is_the_one_of_the_quickstart(tmp_path):
    init.write(tmp_path)
    project = declare.load(tmp_path, {})
    sink = project.pipeline("orders").sink
    assert (sink.namespace, sink.table) == ("shop", "orders")
    assert f"{project.pipeline('orders').source.rows:,} rows" in text("quickstart")
