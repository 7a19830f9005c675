"""Real tables, written by PyIceberg and then broken in one way each."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from calve.verify import Invariant, reader
from calve.verify.report import Wanted, report, settled
from tests.verify import lake
from tests.verify.lake import Writer

EVERYTHING = Wanted(files=True, keys=("id",))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    """One catalog for all tables."""
    made = lake.catalog(tmp_path_factory.mktemp("lake"))
    yield made
    made.close()


@pytest.fixture
def writer(catalog, request):
    """A table with two commits, called like the test."""
    made = Writer(catalog, request.node.name)
    made.commit([1, 2, 3])
    made.commit([4, 5])
    return made


def found(writer, wanted=EVERYTHING):
    return {finding.invariant for finding in report(writer.table, wanted).findings}


def local(path):
    return Path(path.removeprefix("file://"))


def manifest_list(writer):
    return local(writer.table.current_snapshot().manifest_list)


def test_nothing_is_found_in_a_healthy_table(writer):
    writer.foreign([6])
    checked = report(writer.table, EVERYTHING)
    assert checked.findings == []
    assert checked.orphans == []
    assert checked.checked == {
        "snapshots": 3, "commits": 2, "marks": 1, "versions": 4, "files": 9, "rows": 6,
    }  # fmt: skip


def test_an_empty_table_is_healthy(catalog):
    assert found(Writer(catalog, "empty")) == set()


def test_a_data_file_that_was_deleted_is_found_without_reading_data(writer):
    gone, other = writer.data_files()
    gone.unlink()
    other.write_bytes(b"?" * other.stat().st_size)
    [finding] = report(writer.table, Wanted(files=True)).findings
    assert finding.invariant is Invariant.FILE_EXISTS
    assert (finding.what, local(finding.where)) == ("this data file is missing", gone)


def test_without_files_the_store_is_not_asked_for_data_files(writer):
    writer.data_files()[0].unlink()
    assert found(writer, Wanted()) == set()


def test_a_data_file_that_was_cut_short_is_found(writer):
    cut = writer.data_files()[0]
    size = cut.stat().st_size
    cut.write_bytes(cut.read_bytes()[:-1])
    [finding] = report(writer.table, Wanted(files=True)).findings
    assert finding.invariant is Invariant.FILE_SIZE
    assert finding.what == f"this data file has {size - 1} bytes and its manifest says {size}"


def test_rows_that_cannot_be_read_are_a_finding(writer):
    writer.data_files()[0].unlink()
    assert found(writer, Wanted(keys=("id",))) == {Invariant.FILE_READABLE}


def test_a_manifest_list_that_was_deleted_is_found(writer):
    manifest_list(writer).unlink()
    assert found(writer, Wanted(files=True)) == {Invariant.FILE_READABLE}


def test_a_manifest_list_that_is_no_manifest_list_is_found(writer):
    manifest_list(writer).write_bytes(b"x" * 100)
    [finding] = report(writer.table, Wanted()).findings
    assert finding.invariant is Invariant.FILE_READABLE
    assert finding.what.startswith("it cannot be read: ")


def test_a_manifest_that_was_cut_short_is_found(writer):
    manifest = local(writer.table.current_snapshot().manifests(writer.table.io)[0].manifest_path)
    manifest.write_bytes(manifest.read_bytes()[: manifest.stat().st_size // 2])
    assert found(writer, Wanted()) == {Invariant.FILE_READABLE}


def test_a_file_that_two_snapshots_added_is_found(writer):
    path = str(writer.data_files()[0])
    writer.table.add_files([path], check_duplicate_files=False)
    assert found(writer) == {Invariant.FILE_ADDED_ONCE, Invariant.FILE_LIVE_ONCE, Invariant.KEY_UNIQUE}


def test_rows_that_were_written_twice_are_found_by_their_key(writer):
    writer.foreign([1, 4])
    [finding] = report(writer.table, EVERYTHING).findings
    assert finding.invariant is Invariant.KEY_UNIQUE
    assert finding.what.startswith("2 keys occur more than once, 2 rows too many, such as id=")
    assert found(writer, Wanted(keys=("id", "name"))) == set()


def test_a_mark_that_was_edited_is_found(writer):
    writer.position = {"row": 4}
    last = writer.table.current_snapshot().summary["calve.commit"]
    writer.write_mark(writer.mark(last))
    [edited, back] = report(writer.table, Wanted()).findings
    assert (edited.invariant, back.invariant) == (Invariant.MARK_AGREES, Invariant.HISTORY_GROWS)
    assert "calve.position-digest is " in edited.what
    assert back.what == "row went from 5 back to 4"


def test_a_mark_that_was_removed_is_found(writer):
    with writer.table.transaction() as change:
        change.remove_properties("calve.sink.orders")
    assert found(writer) == {Invariant.MARK_AGREES, Invariant.HISTORY_GROWS}


def test_a_mark_that_is_none_is_found(writer):
    with writer.table.transaction() as change:
        change.set_properties({"calve.sink.orders": "{}"})
    assert found(writer) == {Invariant.MARK_AGREES, Invariant.HISTORY_GROWS}


def test_a_table_that_was_rolled_back_behind_its_mark_is_found(writer):
    first = writer.table.snapshots()[0].snapshot_id
    writer.table.manage_snapshots().rollback_to_snapshot(first).commit()
    [finding] = report(writer.table, EVERYTHING).findings
    assert finding.invariant is Invariant.MARK_REACHABLE
    assert finding.where == "property 'calve.sink.orders'"


def test_a_mark_whose_commit_expired_is_trusted(writer):
    old = [snapshot.snapshot_id for snapshot in writer.table.snapshots()]
    writer.foreign([6])
    writer.table.maintenance.expire_snapshots().by_ids(old).commit()
    assert len(writer.table.snapshots()) == 1
    assert found(writer) == set()


def test_a_file_that_no_snapshot_has_is_an_orphan_and_a_finding_only_above_the_limit(writer):
    there = writer.data_files()[0]
    orphan = there.with_name("left.parquet")
    pq.write_table(pq.read_table(there), orphan)
    there.with_name(".left.parquet.crc").touch()
    checked = report(writer.table, Wanted(files=True))
    assert (checked.findings, checked.orphans) == ([], [str(orphan)])
    assert found(writer, Wanted(files=True, orphans=1)) == set()
    assert found(writer, Wanted(files=True, orphans=0)) == {Invariant.ORPHANS_BOUNDED}


def test_a_summary_with_other_counts_is_found(writer):
    metadata = local(writer.table.metadata_location)
    value = json.loads(metadata.read_text())
    value["snapshots"][-1]["summary"]["added-records"] = "3"
    metadata.write_text(json.dumps(value))
    writer.table.refresh()
    assert found(writer) == {Invariant.COUNTS_AGREE, Invariant.TOTALS_ADD_UP}


def test_another_branch_has_marks_of_its_own(writer):
    head = writer.table.current_snapshot().snapshot_id
    writer.table.manage_snapshots().create_branch(head, "audit").commit()
    writer.commit([6], branch="audit")
    assert found(writer) == set()
    with writer.table.transaction() as change:
        change.remove_properties("calve.sink.orders.audit")
    assert found(writer, Wanted(branch="main")) == set()
    assert found(writer, Wanted(branch="audit")) == {Invariant.MARK_AGREES, Invariant.HISTORY_GROWS}


def test_a_finding_that_expiry_explains_is_no_finding(writer):
    stale = writer.catalog.load_table(writer.table.name())
    writer.foreign([6])
    old = writer.table.snapshots()[0]
    writer.table.maintenance.expire_snapshots().by_id(old.snapshot_id).commit()
    local(old.manifest_list).unlink()
    assert found(writer, Wanted(files=True)) == set()
    loads = iter([stale, writer.table, writer.table])
    assert report(stale, Wanted(files=True)).findings
    assert settled(lambda: next(loads), Wanted(files=True)).findings == []


def test_a_finding_that_stays_is_reported_at_once(writer):
    writer.data_files()[0].unlink()
    loads = iter([writer.table, writer.table])
    assert len(settled(lambda: next(loads), Wanted(files=True)).findings) == 1


def test_versions_that_are_gone_are_left_out(writer):
    local(writer.table.metadata.metadata_log[0].metadata_file).unlink()
    assert len(list(reader.versions(writer.table))) == 2


@pytest.mark.parametrize("path", ["/lake/t/data/a", "file:/lake/t/data/a", "file:///lake/t/data/a"])
def test_one_file_has_one_place(path):
    assert reader.place(path) == "/lake/t/data/a"
