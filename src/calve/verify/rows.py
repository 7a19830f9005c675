"""Invariants of rows: counts and totals, keys that occur once, nothing lost and nothing doubled. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calve.position import SUMMARY_SINK
from calve.verify.facts import Entry, Facts, Finding, Invariant, Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

ADDED, DELETED, TOTAL = "added-records", "deleted-records", "total-records"
_SHOWN = 3


def counts_agree(facts: Facts) -> list[Finding]:
    """Each commit of Calve added as many rows as its summary says."""
    found = []
    for snapshot in facts.snapshots:
        if SUMMARY_SINK in snapshot.summary and facts.is_whole(snapshot):
            listed, said = _added(facts, snapshot), _number(snapshot.summary, ADDED) or 0
            if listed != said:
                what = f"its manifests add {listed} rows and its summary says {said}"
                found.append(Finding(Invariant.COUNTS_AGREE, what, f"snapshot {snapshot.id}"))
    return found


def totals_add_up(facts: Facts) -> list[Finding]:
    """The total of each snapshot follows from its parent's, and is what its manifests list."""
    known, found = facts.by_id(), []
    live = {path: _rows(manifest.live()) for path, manifest in facts.manifests.items()}
    for snapshot in facts.snapshots:
        total = _number(snapshot.summary, TOTAL)
        expected = {"its parent's total and its own changes": _following(snapshot, known)}
        if facts.is_whole(snapshot):
            expected["its manifests"] = sum(live[path] for path in snapshot.manifests)
        for whose, number in expected.items():
            if None not in (total, number) and total != number:
                what = f"its summary says {total} rows in all, and {whose} make {number}"
                found.append(Finding(Invariant.TOTALS_ADD_UP, what, f"snapshot {snapshot.id}"))
    return found


def _rows(entries: Iterable[Entry]) -> int:
    return sum(entry.records for entry in entries if not entry.deletes)


def _added(facts: Facts, snapshot: Snapshot) -> int:
    entries = (entry for manifest in facts.manifests_of(snapshot) for entry in manifest.added())
    return _rows(entry for entry in entries if entry.snapshot == snapshot.id)


def _following(snapshot: Snapshot, known: Mapping[int, Snapshot]) -> int | None:
    """The total that `snapshot` should have; None where nothing tells its parent's."""
    parent = known.get(snapshot.parent) if snapshot.parent is not None else None
    before = None if parent is None else _number(parent.summary, TOTAL)
    changed = (_number(snapshot.summary, ADDED) or 0) - (_number(snapshot.summary, DELETED) or 0)
    return None if before is None else before + changed


def _number(summary: Mapping[str, str], key: str) -> int | None:
    text = summary.get(key, "")
    return int(text) if text.isdecimal() else None


def as_expected(
    found: Iterable[Hashable], expected: Iterable[Hashable], where: str = "rows"
) -> list[Finding]:
    """Every expected value is there exactly as often as expected, and no other one."""
    have, want = Counter(found), Counter(expected)
    extra = have - want
    doubled = Counter({value: count for value, count in extra.items() if value in want})
    parts = (
        (Invariant.NO_LOSS, "lost", want - have),
        (Invariant.NO_DUPLICATE, "too many", doubled),
        (Invariant.NO_STRANGER, "not expected", extra - doubled),
    )
    return [
        Finding(invariant, f"{count.total()} {word}, such as {_examples(count)}", where)
        for invariant, word, count in parts
        if count
    ]


def _examples(count: Counter[Hashable]) -> str:
    return ", ".join(repr(value) for value, _ in count.most_common(_SHOWN))


def keys_unique(batches: Iterable[pa.RecordBatch], keys: Sequence[str]) -> tuple[int, list[Finding]]:
    """How many rows `batches` have; and that no two of them have the same `keys`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = key_counts(batches, keys)
    rows = pc.sum(counts["rows"]).as_py() or 0
    again = counts.filter(pc.greater(counts["rows"], pa.scalar(1)))
    if not len(again):
        return rows, []
    surplus = pc.sum(again["rows"]).as_py() - len(again)
    examples = "; ".join(_key(row, keys) for row in again.slice(0, _SHOWN).to_pylist())
    what = f"{len(again)} keys occur more than once, {surplus} rows too many, such as {examples}"
    return rows, [Finding(Invariant.KEY_UNIQUE, what, f"key {', '.join(keys)}")]


def key_counts(batches: Iterable[pa.RecordBatch], keys: Sequence[str]) -> pa.Table:
    """The distinct keys and, in the last column, how many rows have each.

    One batch is held at a time, and the keys so far.
    """
    import pyarrow as pa

    columns = [str(number) for number in range(len(keys))]
    counted = pa.table({**{name: pa.nulls(0) for name in columns}, "rows": pa.array([], pa.int64())})
    waiting: list[pa.Table] = []
    for batch in batches:
        table = pa.Table.from_batches([batch]).select(list(keys)).rename_columns(columns)
        waiting.append(table.append_column("rows", pa.array([1] * len(table), pa.int64())))
        if sum(map(len, waiting)) >= len(counted):
            counted, waiting = _merged([counted, *waiting], columns), []
    return _merged([counted, *waiting], columns)


def _merged(tables: list[pa.Table], columns: list[str]) -> pa.Table:
    import pyarrow as pa

    there = [table for table in tables if len(table)] or tables[:1]
    found = pa.concat_tables(there).group_by(columns).aggregate([("rows", "sum")])
    return found.rename_columns([*columns, "rows"])


def _key(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    named = (f"{key}={row[str(number)]!r}" for number, key in enumerate(keys))
    return f"{', '.join(named)} ({row['rows']} times)"
