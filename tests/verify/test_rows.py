"""Counts and keys, on facts that are written down."""

import pyarrow as pa

from calve.position import SUMMARY_SINK
from calve.verify import Entry, Facts, Invariant, Manifest, Snapshot, rows


def facts(*totals, added=2, own=True):
    """Snapshots with one file of two rows each, and the totals that they tell."""
    snapshots, manifests = [], {}
    for number, total in enumerate(totals, 1):
        manifests[f"m{number}"] = Manifest(f"m{number}", 1, (Entry(f"f{number}", 1, 2, number),))
        summary = {"added-records": str(added), "total-records": str(total)}
        summary |= {SUMMARY_SINK: "orders"} if own else {}
        snapshots.append(Snapshot(number, number - 1 or None, number, summary, "l", tuple(manifests)))
    return Facts(tuple(snapshots), {"main": len(totals)}, manifests=manifests)


def batches(*columns):
    return [pa.record_batch({"id": column, "rows": column}) for column in columns]


def test_totals_that_add_up_are_fine():
    assert rows.counts_agree(facts(2, 4, 6)) + rows.totals_add_up(facts(2, 4, 6)) == []


def test_a_total_that_does_not_follow_is_found():
    found = rows.totals_add_up(facts(2, 5))
    assert [finding.what for finding in found] == [
        "its summary says 5 rows in all, and its parent's total and its own changes make 4",
        "its summary says 5 rows in all, and its manifests make 4",
    ]


def test_counts_of_others_are_not_ours_to_judge():
    assert len(rows.counts_agree(facts(2, added=3))) == 1
    assert rows.counts_agree(facts(2, added=3, own=False)) == []


def test_a_total_behind_an_expired_parent_is_compared_with_manifests_only():
    whole = facts(2, 4)
    assert rows.totals_add_up(Facts(whole.snapshots[1:], {"main": 2}, manifests=whole.manifests)) == []


def test_a_snapshot_with_a_manifest_that_cannot_be_read_is_not_counted():
    whole = facts(2)
    assert rows.counts_agree(Facts(whole.snapshots, whole.branches, unread={"m1": "missing"})) == []


def test_what_is_lost_doubled_and_strange_is_told_apart():
    found = rows.as_expected([1, 1, 1, 3, 9], [1, 2, 3])
    assert [(one.invariant, one.what) for one in found] == [
        (Invariant.NO_LOSS, "1 lost, such as 2"),
        (Invariant.NO_DUPLICATE, "2 too many, such as 1"),
        (Invariant.NO_STRANGER, "1 not expected, such as 9"),
    ]
    assert rows.as_expected([3, 1, 2], [1, 2, 3]) == []


def test_keys_are_counted_over_batches():
    counted, found = rows.keys_unique(
        batches([1, 2, 3], [4], [2, 5], [2], pa.array([None, None], pa.int64())), ["id"]
    )
    assert counted == 9
    [finding] = found
    assert finding.what.startswith("2 keys occur more than once, 3 rows too many, such as id=2 (3 times)")
    assert finding.where == "key id"


def test_several_columns_are_one_key_whatever_they_are_called():
    assert rows.keys_unique(batches([1, 2], [3]), ["id", "rows"]) == (3, [])


def test_no_batch_has_no_key():
    assert rows.keys_unique([], ["id"]) == (0, [])
