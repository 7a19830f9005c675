"""What must hold of a table, checked on what an independent reader sees of it.

The invariants are pure functions over `Facts`; `reader` collects those with PyIceberg. Nothing of the writer
is used.
"""

from __future__ import annotations

from calve.verify import files, marks, rows
from calve.verify.facts import (
    Entry,
    Facts,
    File,
    Finding,
    Invariant,
    Manifest,
    Snapshot,
    Status,
    Version,
)

__all__ = [
    "Entry",
    "Facts",
    "File",
    "Finding",
    "Invariant",
    "Manifest",
    "Snapshot",
    "Status",
    "Version",
    "findings",
    "mark_findings",
]


def findings(facts: Facts, branch: str | None = None) -> list[Finding]:
    """What the metadata of a table tells against it; with `branch`, marks and commits of that branch only."""
    return [
        *files.readable(facts),
        *files.added_once(facts),
        *files.live_once(facts),
        *rows.counts_agree(facts),
        *rows.totals_add_up(facts),
        *mark_findings(facts, branch),
    ]


def mark_findings(facts: Facts, branch: str | None = None) -> list[Finding]:
    """What marks and commits tell against a table, on every branch or on one."""
    named = {marks.branch_of(name) for name in facts.marks}
    found = []
    for one in [branch] if branch is not None else sorted({*facts.branches, *named}):
        found += marks.epochs_grow(facts, one)
        found += marks.commits_once(facts, one)
        found += marks.marks_agree(facts, one)
    names = {name for version in facts.versions for name in version.marks}
    for name in sorted(names):
        if branch in (None, marks.branch_of(name)):
            found += marks.history_grows(facts.versions, name)
    return found
