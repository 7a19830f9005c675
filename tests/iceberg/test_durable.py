"""What a commit points to is on the disk before the pointer is, and what it no longer needs is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from calve.addresses import local_path
from calve.catalogs import Catalog as CatalogDeclaration
from calve.errors import Conflict, NotPermitted
from calve.iceberg import durable, manifests
from calve.iceberg.pointer import Pointer
from calve.verify import opening
from calve.verify.report import Wanted, report
from tests.changes import KINDS, Sink
from tests.lake import Lake

LIST = "file:/t/metadata/snap-12-1-0a1b2c3d-0000-4000-8000-0123456789ab.avro"
ID = "0a1b2c3d-0000-4000-8000-0123456789ab"
OTHER = "0a1b2c3d-0000-4000-8000-999999999999"


def manifest(number, update=ID):
    return f"file:/t/metadata/{update}-m{number}.avro"


def test_manifests_that_were_merged_into_later_ones_are_intermediate():
    assert manifests.intermediate(LIST, [manifest(2), manifest(0, OTHER)]) == [manifest(0), manifest(1)]


@pytest.mark.parametrize(
    "listed", [[manifest(0)], [manifest(0), manifest(1)], [manifest(3, OTHER)], []], ids=len
)
def test_manifests_that_the_list_has_or_says_nothing_of_are_kept(listed):
    assert manifests.intermediate(LIST, listed) == []


def test_nothing_is_known_of_a_manifest_list_of_another_name():
    assert manifests.intermediate("file:/t/metadata/list.avro", [manifest(1)]) == []


@pytest.fixture
def flushed(monkeypatch):
    """The paths that were flushed, in order."""
    found: list[str] = []
    real = durable._flush_file

    def flush_file(path):
        real(path)
        found.append(path)

    monkeypatch.setattr(durable, "_flush_file", flush_file)
    monkeypatch.setattr(durable, "_known", {})
    return found


def test_files_are_flushed_with_their_checksums_and_all_new_directories(tmp_path, flushed):
    file = tmp_path / "data" / "day=1" / "x.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    (file.parent / ".x.parquet.crc").write_bytes(b"c")
    durable.flush([f"file:{file}", "s3://bucket/y.parquet"])
    assert {str(file), str(file.parent / ".x.parquet.crc")} <= set(flushed)
    assert {str(file.parent), str(tmp_path / "data"), str(tmp_path), "/"} <= set(flushed)
    flushed.clear()
    durable.flush([str(file)])
    assert str(tmp_path) not in flushed
    assert str(file.parent) in flushed


def test_a_directory_that_is_made_anew_is_flushed_again(tmp_path, flushed):
    file = tmp_path / "data" / "x"
    file.parent.mkdir()
    file.touch()
    durable.flush([str(file)])
    file.parent.rename(tmp_path / "aside")
    file.parent.mkdir()
    file.touch()
    flushed.clear()
    durable.flush([str(file)])
    assert str(tmp_path) in flushed


def test_a_file_that_is_gone_is_not_committed(tmp_path):
    with pytest.raises(FileNotFoundError):
        durable.flush([str(tmp_path / "gone.parquet")])


@pytest.mark.parametrize(
    ("uri", "database"),
    [
        ("jdbc:sqlite:/w/catalog.db?busy_timeout=30000", "/w/catalog.db"),
        ("jdbc:sqlite:file:calve?mode=memory&cache=shared", None),
        ("jdbc:postgresql://localhost/lake", None),
        ("http://localhost", None),
    ],
)
def test_only_a_sqlite_file_has_a_pointer_that_is_swapped_here(uri, database):
    pointer = Pointer.of("calve", {"uri": uri})
    assert (pointer and pointer.database) == database


@pytest.fixture
def embedded(spark, tmp_path):
    return Lake.open(spark, CatalogDeclaration.model_validate({"warehouse": str(tmp_path)}))


def files_of(folder):
    """Every file of the table that is not one of the catalog, with its time."""
    return {str(path): path.stat().st_mtime_ns for path in Path(folder).rglob("*") if path.is_file()}


def test_all_that_a_commit_points_to_is_flushed_before_the_pointer(embedded, tmp_path, flushed, monkeypatch):
    points: list[tuple[set[str], set[str]]] = []
    real = Pointer.replace

    def replace(self, *arguments):
        points.append((set(flushed), set(files_of(tmp_path / "shop"))))
        return real(self, *arguments)

    monkeypatch.setattr(Pointer, "replace", replace)
    sink = Sink(embedded, KINDS["vectors"], ["region"])
    sink.take(("i", (1, "eu", 1)), ("i", (2, "us", 1)))
    sink.take(("u", (1, "us", 2)))
    plain = embedded.table()
    committer = embedded.committer(plain)
    committer.fence("source", {"row": 0})
    committer.commit(embedded.staged(plain, [1, 2]), {"row": 2})
    assert len(points) == 5
    for done, there in points:
        assert there - done == set()
        assert {os.path.dirname(path) for path in there} <= done
    sink.check()


def test_a_swap_that_another_commit_came_before_changes_nothing(embedded):
    table, other = embedded.table(), None
    other = embedded.catalog.load(table.name)
    base = table.metadata()
    other.java.updateProperties().set("a", "1").commit()
    fresh = table.java.newTransaction()
    fresh.updateProperties().set("b", "2").commit()
    with pytest.raises(Conflict, match="another commit came first"):
        table.commit(base, fresh.currentMetadata())
    assert "b" not in table.refresh().properties()
    table.java.updateProperties().set("c", "3").commit()
    assert {"a", "c"} <= set(table.refresh().properties())


def test_a_catalog_that_cannot_be_written_is_not_permitted(embedded, tmp_path):
    (tmp_path / "none").mkdir()
    with pytest.raises(NotPermitted, match=r"Cannot reach table 'shop\.t'"):
        Pointer(str(tmp_path / "none"), "calve").replace(embedded.name(), "a", "b", "a")


def test_appends_merge_manifests_and_leave_no_intermediate_ones(embedded, tmp_path):
    table = embedded.table(properties={"commit.manifest.min-count-to-merge": "3"})
    committer = embedded.committer(table)
    committer.fence("source", {"row": 0})
    staged = embedded.staged(table, [1])
    for number in range(1, 8):
        again = staged if number == 1 else embedded.staged(table, [number])
        committer.commit(again, {"row": number})
    head = table.refresh().head("main")
    assert head.allManifests(table.java.io()).size() <= 3
    assert embedded.ids(table) == list(range(1, 8))
    opened = opening.embedded(str(tmp_path)).load_table(
        str(table.name).split(".", 1)[0] + "." + table.name.table
    )
    listed = {local_path(one.manifest_path) for s in opened.snapshots() for one in s.manifests(opened.io)}
    there = {path for path in files_of(tmp_path / "shop") if path.endswith(".avro") and "/snap-" not in path}
    assert there == listed
    assert report(opened, Wanted(files=True, orphans=0)).findings == []
