import os
import re

import pytest

from calve import declare
from calve.cli import init


def test_the_project_loads_and_its_rows_end(calve, tmp_path):
    ended = calve("init", "demo")
    assert ended.code == 0
    project = declare.load(tmp_path / "demo")
    pipeline = project.pipeline("orders")
    assert pipeline.source.rows / pipeline.source.rows_per_second == 10
    assert pipeline.source.rows / pipeline.sink.max_batch_size >= 3
    assert (pipeline.sink.namespace, pipeline.sink.table) == ("shop", "orders")


def test_the_commented_out_kafka_source_loads_too(calve, tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA", raising=False)
    sources, _, rest = init.DECLARATION.partition("sinks:")
    sources = re.sub(r"^  # (?=orders_topic|  )", "  ", sources, flags=re.M)
    rest = rest.replace("source: orders\n", "source: orders_topic\n")
    (tmp_path / "calve.yaml").write_text(f"{sources}sinks:{rest}")
    source = declare.load(tmp_path).pipeline("orders").source
    assert source.bootstrap_servers == ["localhost:9092"]


def test_it_says_what_to_type_next(calve):
    assert calve("init", "demo").err.splitlines()[1:] == ["  cd demo", "  calve run", "  calve read orders"]
    assert "cd" not in calve("init").err


def test_a_declaration_is_not_overwritten(calve, tmp_path):
    (tmp_path / "calve.yaml").write_text("mine")
    ended = calve("init")
    assert ended.code == 78
    assert ended.err == "Cannot write 'calve.yaml': it is there already; name another directory\n"
    assert (tmp_path / "calve.yaml").read_text() == "mine"


def test_a_gitignore_is_not_overwritten(calve, tmp_path):
    (tmp_path / ".gitignore").write_text("mine")
    assert calve("init").code == 0
    assert (tmp_path / ".gitignore").read_text() == "mine"


def test_state_and_tables_are_ignored_by_git(calve, tmp_path):
    calve("init")
    assert {".calve/", "warehouse/"} <= set((tmp_path / ".gitignore").read_text().splitlines())


def test_a_place_that_is_no_directory_is_refused(calve, tmp_path):
    (tmp_path / "file").write_text("")
    ended = calve("init", os.path.join("file", "inside"))
    assert ended.code == 78
    assert ended.err.startswith("Cannot write to 'file/inside': ")


@pytest.mark.parametrize("name", init.FILES)
def test_files_end_with_one_newline(name):
    assert init.FILES[name].endswith("\n")
    assert not init.FILES[name].endswith("\n\n")
