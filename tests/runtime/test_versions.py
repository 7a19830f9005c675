"""The states that people name on the command line."""

import pytest

from calve.errors import UsageError
from calve.iceberg.travel import History, Ref, Snapshot, Version, parse_timestamp
from calve.runtime.versions import asked, bounds, of_ref, snapshot

MINUTE = 60_000


def history(count=3):
    snapshots = tuple(
        Snapshot(10 + n, 9 + n if n else None, n + 1, n * MINUTE, "append", {}) for n in range(count)
    )
    refs = {
        "main": Ref("main", 9 + count, False),
        "audit": Ref("audit", 10, False),
        "v1": Ref("v1", 10, True),
        "2026-11-15": Ref("2026-11-15", 11, True),
    }
    log = tuple((one.committed_ms, one.id) for one in snapshots)
    return History(
        "shop.t", "uuid", 2, snapshots, 9 + count if count else None, 0, refs if count else {}, log
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (None, Version(branch="main")),
        ("main", Version(branch="main")),
        ("audit", Version(branch="audit")),
        ("v1", Version(tag="v1")),
        ("2026-11-15", Version(tag="2026-11-15")),
        ("11", Version(snapshot_id=11)),
        ("1970-01-01 00:01:30", Version(timestamp=parse_timestamp("1970-01-01 00:01:30"), branch="main")),
    ],
)
def test_a_state_is_named_by_id_time_tag_or_branch(text, version):
    assert asked(history(), text) == version


def test_a_time_is_one_of_the_branch_that_is_read():
    assert asked(history(), "1970-01-01 00:01:30", "audit").branch == "audit"
    assert asked(history(), None, "audit") == of_ref(history(), "audit")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "aduit",
            "Cannot read table 'shop.t' at 'aduit': it is no snapshot's id, no time such as "
            "'2026-11-15 10:00:00', and no tag or branch; there is 2026-11-15, audit, main, v1; did you mean "
            "'audit'?",
        ),
        (
            "99",
            "Cannot read table 'shop.t' at snapshot 99: it has no such snapshot, or it was expired; the "
            "oldest that is left is 10 of 1970-01-01 00:00:00.000 UTC",
        ),
        ("2999-01-01", "Cannot read table 'shop.t' at 2999-01-01 00:00:00.000 UTC: that is in the future"),
        (
            "1969-12-31",
            "Cannot read table 'shop.t' at 1969-12-31 00:00:00.000 UTC: its history begins at "
            "1970-01-01 00:00:00.000 UTC",
        ),
    ],
)
def test_a_state_that_is_not_there_is_refused_with_what_is(text, message):
    with pytest.raises(UsageError) as caught:
        snapshot(history(), text)
    assert str(caught.value) == message
    assert caught.value.exit_code == 64


def test_changes_are_those_of_the_newest_snapshot_unless_more_are_asked_for():
    assert bounds(history(), None, None) == (11, 12)
    assert bounds(history(1), None, None) == (None, 10)
    assert bounds(history(), "v1", None) == (10, 12)
    assert bounds(history(), None, "11") == (10, 11)
    assert bounds(history(), "10", "11") == (10, 11)


def test_a_table_without_snapshots_has_no_changes():
    assert bounds(history(0), None, None) == (None, None)
