"""Loading: files, directories, environment, what is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from calve import declare
from calve.errors import DeclarationError

TYPICAL = """\
version: "1.0"
sources:
  orders_made_up:
    connector: datagen
    config: {rows: 100, seed: 7}
sinks:
  lake:
    connector: iceberg
    config:
      namespace: shop
      table: ${TABLE:-orders}
      batch_size: ${BATCH_SIZE:-500}
      partitioning: time
      partition_fields: [order_date]
      time_granularity: day
      sort_by: ["order_date desc", id]
pipelines:
  orders: {source: orders_made_up, sink: lake}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "calve.yaml"
    file.write_text(TYPICAL)
    return file


def refusal(path: Path | str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(DeclarationError) as caught:
        declare.load(path, environment or {})
    return str(caught.value)


def test_a_file_becomes_a_project(file: Path) -> None:
    project = declare.load(file, {})
    orders = project.pipeline("orders")
    assert (orders.name, orders.sink_id, orders.enabled) == ("orders", "orders", True)
    assert (orders.sink.namespace, orders.sink.table, orders.sink.batch_size) == ("shop", "orders", 500)
    assert orders.source.connector == "datagen"
    assert orders.transforms == ()
    assert (project.file, project.directory) == (file, file.parent)
    assert project.spark.master == "local[*]"


def test_a_directory_means_the_calve_yaml_in_it(file: Path) -> None:
    assert declare.load(file.parent, {}).file == file


def test_the_environment_of_the_process_is_used_when_none_is_given(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABLE", "bills")
    assert declare.load(file).pipeline("orders").sink.table == "bills"


def test_a_number_from_the_environment_is_a_number(file: Path) -> None:
    assert declare.load(file, {"BATCH_SIZE": "77"}).pipeline("orders").sink.batch_size == 77


def test_a_quoted_number_is_taken_for_a_number(file: Path) -> None:
    file.write_text(TYPICAL.replace("${BATCH_SIZE:-500}", '"600"'))
    assert declare.load(file, {}).pipeline("orders").sink.batch_size == 600


def test_the_embedded_catalog_lies_beside_the_declaration(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    catalog = declare.load(file, {}).pipeline("orders").sink.catalog
    assert catalog.warehouse == str(file.parent / "warehouse")


def test_the_file_is_shown_as_it_was_given(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("version: 1\n")
    monkeypatch.chdir(file.parent)
    assert refusal("calve.yaml").startswith("calve.yaml:1: ")
    assert refusal(".").startswith(os.path.join(".", "calve.yaml") + ":1: ")


def test_problems_come_sorted_as_file_line_path_message(file: Path) -> None:
    file.write_text('version: "1.0"\nsinks: 5\nsources: 7\n')
    assert refusal(file).splitlines() == [
        f"{file}:1: pipelines: required key is missing",
        f"{file}:2: sinks: expected names with what they stand for",
        f"{file}:3: sources: expected names with what they stand for",
    ]


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    missing = tmp_path / "calve.yaml"
    assert refusal(missing) == f"{missing}: cannot be read: no such file or directory"


def test_a_file_over_one_mebibyte_is_refused(file: Path) -> None:
    file.write_text(TYPICAL + "#" * 2**20)
    assert refusal(file) == f"{file}: larger than 1 MiB"


def test_a_file_that_is_not_utf_8_is_refused_with_its_line(file: Path) -> None:
    file.write_bytes(b"version: '1.0'\nsinks: \xff\n")
    assert refusal(file) == f"{file}:2: not text in UTF-8"


def test_loading_imports_neither_spark_nor_arrow(file: Path) -> None:
    heavy = "('pyspark', 'pyiceberg', 'pyarrow', 'pandas', 'numpy', 'rich')"
    code = f"import sys; from calve import declare; declare.load({str(file)!r}); "
    code += f"print([name for name in {heavy} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "[]"
