"""One look at a table: what was checked, what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyiceberg.table import Table

from calve.verify import files, findings, marks, reader, rows
from calve.verify.facts import MAIN, Facts, Finding, Invariant

TRIES = 3
"""How often a table that changes under the look is looked at."""


@dataclass(frozen=True)
class Wanted:
    """What to check besides the metadata."""

    files: bool = False
    keys: Sequence[str] = ()
    branch: str | None = None
    keys_on: str = MAIN
    orphans: int | None = None


@dataclass(frozen=True)
class Report:
    """How much was checked, what does not hold, and the files that belong to no snapshot."""

    checked: dict[str, int]
    findings: list[Finding]
    orphans: list[str] | None = field(default=None)


def settled(load: Callable[[], Table], wanted: Wanted) -> Report:
    """Check the table that `load` gives, and again if it was changed meanwhile and something was found.

    A snapshot that expires under the look takes its files along, which is no finding.
    """
    for _ in range(TRIES):
        table = load()
        found = report(table, wanted)
        if not found.findings or load().metadata_location == table.metadata_location:
            break
    return found


def report(table: Table, wanted: Wanted) -> Report:
    """Check `table` as it is now."""
    facts = reader.facts(table)
    found = findings(facts, wanted.branch)
    checked, orphans = _counts(facts), None
    if wanted.files:
        needed = files.referenced(facts)
        found += files.there(needed.values(), reader.sizes(table, needed.values()))
        listed = reader.listed(table)
        orphans = None if listed is None else files.orphans(listed, map(reader.place, needed))
        if wanted.orphans is not None:
            found += files.orphans_bounded(orphans or [], wanted.orphans)
        checked["files"] = len(needed)
    if wanted.keys:
        checked["rows"], doubled = _keys(table, wanted)
        found += doubled
    return Report(checked, found, orphans)


def _counts(facts: Facts) -> dict[str, int]:
    return {
        "snapshots": len(facts.snapshots),
        "commits": len(marks.own(list(facts.snapshots))),
        "marks": len(facts.marks),
        "versions": len(facts.versions),
    }


def _keys(table: Table, wanted: Wanted) -> tuple[int, list[Finding]]:
    import pyarrow as pa

    try:
        return rows.keys_unique(reader.batches(table, wanted.keys, wanted.keys_on), wanted.keys)
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        what = f"the rows cannot be read: {' '.join(str(error).split())}"
        return 0, [Finding(Invariant.FILE_READABLE, what, f"branch '{wanted.keys_on}'")]
