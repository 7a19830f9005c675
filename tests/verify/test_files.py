"""Files, on facts that are written down."""

from calve.verify import Entry, Facts, Invariant, Manifest, Snapshot, Status, files


def table(*manifests, summaries=None):
    """A table with one manifest for each snapshot; the newest has all of them."""
    paths = [manifest.path for manifest in manifests]
    summaries = summaries or {}
    snapshots = tuple(
        Snapshot(
            number, number - 1 or None, number, summaries.get(number, {}), f"l{number}", tuple(paths[:number])
        )
        for number in range(1, len(manifests) + 1)
    )
    return Facts(snapshots, {"main": len(manifests)}, manifests={one.path: one for one in manifests})


def manifest(number, *entries):
    return Manifest(f"m{number}", 10, entries)


def test_a_puffin_file_holds_many_deletion_vectors():
    vector = Entry("a.puffin", 1, 1, 1, deletes=True)
    facts = table(manifest(1, vector, vector))
    assert files.added_once(facts) + files.live_once(facts) == []


def test_a_data_file_that_one_snapshot_lists_twice_is_found():
    entry = Entry("a", 1, 1, 1)
    [finding] = files.added_once(table(manifest(1, entry, entry)))
    assert finding.what == "added by snapshots 1 (2 times)"


def test_a_delete_file_that_two_snapshots_added_is_found():
    first, second = (Entry("a", 1, 1, number, deletes=True) for number in (1, 2))
    assert len(files.added_once(table(manifest(1, first), manifest(2, second)))) == 1


def test_a_file_that_is_kept_by_a_rewritten_manifest_was_added_once():
    added, kept = Entry("a", 1, 1, 1), Entry("a", 1, 1, 1, Status.EXISTING)
    assert files.added_once(table(manifest(1, added), manifest(2, kept))) == []


def test_a_snapshot_that_was_picked_adds_the_files_of_the_other():
    first, second = Entry("a", 1, 1, 1), Entry("a", 1, 1, 2)
    facts = table(manifest(1, first), manifest(2, second), summaries={2: {"source-snapshot-id": "1"}})
    assert files.added_once(facts) == []


def test_a_file_that_was_removed_need_not_exist():
    facts = table(manifest(1, Entry("a", 1, 1, 1, Status.DELETED), Entry("b", 2, 1, 1)))
    assert sorted(files.referenced(facts)) == ["b", "l1", "m1"]


def test_every_kind_of_file_is_asked_for():
    facts = table(manifest(1, Entry("a", 5, 1, 1), Entry("b", 5, 1, 1, deletes=True)))
    needed = files.referenced(facts).values()
    sizes = {"l1": 3, "m1": 10, "a": 5, "b": 5}
    assert files.there(needed, sizes) == []
    for path in sizes:
        [finding] = files.there(needed, {**sizes, path: None})
        assert (finding.invariant, finding.where) == (Invariant.FILE_EXISTS, path)
    for path in ("m1", "a", "b"):
        [finding] = files.there(needed, {**sizes, path: 4})
        assert (finding.invariant, finding.where) == (Invariant.FILE_SIZE, path)
