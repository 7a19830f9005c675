import json
import subprocess
import sys
from pathlib import Path

import pytest

from calve.verify import Invariant
from tests.verify import lake
from tests.verify.lake import Writer

CATALOG = "namespace: shop, table: orders,"


@pytest.fixture
def writer(project):
    """A table of the project's embedded catalog, with two commits."""
    made = Writer(lake.catalog(project.parent / "warehouse"))
    made.commit([1, 2, 3])
    made.commit([4, 5])
    yield made
    made.catalog.close()


def declared(project, catalog):
    project.write_text(project.read_text().replace(CATALOG, f"catalog: {catalog}, {CATALOG}"))


def test_what_was_checked_is_counted(calve, writer):
    ended = calve("verify", "orders", "--files", "--key", "id")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "shop.orders: 2 snapshots, 2 commits, 1 mark, 3 versions, 6 files, 5 rows, 0 orphans, 0 findings\n"
    )


def test_a_finding_is_a_line_and_ends_with_1(calve, writer):
    gone = writer.data_files()[0]
    gone.unlink()
    assert calve("verify", "orders").code == 0
    ended = calve("verify", "shop.orders", "--files")
    finding, counts = ended.out.splitlines()
    assert ended.code == 1
    assert finding == f"file-exists: {gone}: this data file is missing"
    assert counts.endswith(", 6 files, 0 orphans, 1 finding")


def test_json_has_findings_and_orphans(calve, writer):
    gone = writer.data_files()[0]
    moved = gone.rename(gone.with_name("moved.parquet"))
    ended = calve("verify", "orders", "--files", "--output", "json")
    value = json.loads(ended.out)
    assert ended.code == 1
    assert value["checked"]["files"] == 6
    assert [finding["invariant"] for finding in value["findings"]] == ["file-exists"]
    assert value["orphans"] == [str(moved)]


def test_many_orphans_are_shown_in_part(calve, writer):
    folder = writer.data_files()[0].parent
    for number in range(22):
        (folder / f"{number}.parquet").touch()
    lines = calve("verify", "orders", "--files").out.splitlines()
    assert len(lines) == 22
    assert lines[-2] == "orphans, no finding: 2 more; --output json lists all"


def test_keys_are_read_on_the_branch(calve, writer):
    head = writer.table.current_snapshot().snapshot_id
    writer.table.manage_snapshots().create_branch(head, "audit").commit()
    writer.commit([1], branch="audit")
    assert calve("verify", "orders", "--key", "id").code == 0
    ended = calve("verify", "orders", "--key", "id", "--branch", "audit")
    assert ended.code == 1
    assert ended.out.startswith("key-unique: key id: 1 keys occur more than once")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--branch", "audti"], "Cannot find branch 'audti': there is main\n"),
        (["--key", "idd"], "Cannot find column 'idd': there is id, name; did you mean 'id'?\n"),
    ],
)
def test_what_the_table_does_not_have_is_refused(calve, writer, arguments, said):
    ended = calve("verify", "orders", *arguments)
    assert (ended.code, ended.err) == (64, said)


def test_a_table_that_does_not_exist_is_refused(calve, project):
    ended = calve("verify", "orders")
    assert ended.code == 64
    assert ended.err.startswith("Cannot find table 'shop.orders': it does not exist; ")
    assert not (project.parent / "warehouse").exists()


def test_another_table_of_the_catalog_that_does_not_exist_is_refused(calve, writer):
    assert calve("verify", "shop.other").code == 64


def test_an_empty_catalog_has_no_table(calve, project):
    (project.parent / "warehouse").mkdir()
    (project.parent / "warehouse" / "catalog.db").touch()
    assert calve("verify", "orders").code == 64


def test_metadata_that_is_missing_is_told(calve, writer, tmp_path):
    next(tmp_path.glob("warehouse/shop/orders/metadata/00002-*.json")).unlink()
    ended = calve("verify", "orders")
    assert ended.code == 78
    assert ended.err.startswith("Cannot open table 'shop.orders' with PyIceberg: ")


def test_a_catalog_in_memory_is_refused(calve, project):
    declared(project, "{type: memory, warehouse: lake}")
    ended = calve("verify", "orders")
    assert ended.code == 78
    assert ended.err.startswith("Cannot open a catalog of type 'memory': it lives and ends with the process")


def test_a_rest_catalog_that_does_not_answer_is_unavailable(calve, project):
    declared(project, "{type: rest, rest: {uri: 'http://localhost:1', credential: secret}}")
    ended = calve("verify", "orders")
    assert ended.code == 69
    assert ended.err.startswith(
        "Cannot use the rest catalog at http://localhost:1: 'localhost' does not answer"
    )
    assert ended.err.count("\n") == 1


def test_the_newest_version_of_a_hadoop_table_is_opened(calve, writer, project):
    declared(project, "{type: hadoop, warehouse: warehouse}")
    assert calve("verify", "orders").code == 64
    metadata = project.parent / "warehouse" / "shop" / "orders" / "metadata"
    for file in metadata.glob("0*.metadata.json"):
        (metadata / f"v{int(file.name[:5])}.metadata.json").write_bytes(file.read_bytes())
    ended = calve("verify", "orders", "--key", "id")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith(" 5 rows, 0 findings\n")


@pytest.mark.parametrize(
    ("package", "importers"),
    [("pyiceberg", ("pyiceberg", "calve.verify.report")), ("sqlalchemy", ("pyiceberg.catalog.sql",))],
)
def test_a_package_that_is_missing_is_told_with_the_command(calve, writer, monkeypatch, package, importers):
    for name in [
        name for name in sys.modules if f"{name}.".startswith(tuple(f"{one}." for one in importers))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    ended = calve("verify", "orders")
    assert ended.code == 78
    advice = "run in Calve's clone: pip install '.[verify]'"
    assert ended.err.endswith(f": package '{package}' is missing; {advice}\n")


def test_neither_spark_nor_pyiceberg_is_imported_to_explain_the_verb():
    program = (
        "import sys; from calve.cli import app; app.run(['verify', '--help']);"
        "sys.exit(any(name in sys.modules for name in ('pyspark', 'pyiceberg', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_every_invariant_is_explained():
    page = (Path(__file__).parents[2] / "docs" / "exactly-once.md").read_text()
    assert [one.value for one in Invariant if f"`{one.value}`" not in page] == []
