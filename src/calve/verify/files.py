"""Invariants of files: added once, there, as long as the metadata says, and who needs them. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from calve.verify.facts import Entry, Facts, File, Finding, Invariant

_PICKED = "source-snapshot-id"


def added_once(facts: Facts) -> list[Finding]:
    """No file is added by two snapshots, and no data file twice by one.

    A snapshot that was picked from another one adds the same files by design.
    """
    picked = {snapshot.id for snapshot in facts.snapshots if _PICKED in snapshot.summary}
    added: dict[str, list[Entry]] = defaultdict(list)
    for manifest in facts.manifests.values():
        for entry in manifest.added():
            if entry.snapshot not in picked:
                added[entry.path].append(entry)
    return [_added_again(path, entries) for path, entries in added.items() if _is_again(entries)]


def _is_again(entries: list[Entry]) -> bool:
    """One Puffin file holds many deletion vectors, so a snapshot may list a delete file many times."""
    return len({entry.snapshot for entry in entries}) > 1 or sum(not entry.deletes for entry in entries) > 1


def _added_again(path: str, entries: list[Entry]) -> Finding:
    times = Counter(entry.snapshot for entry in entries)
    who = ", ".join(f"{number}{f' ({count} times)' if count > 1 else ''}" for number, count in times.items())
    return Finding(Invariant.FILE_ADDED_ONCE, f"added by snapshots {who}", path)


def live_once(facts: Facts) -> list[Finding]:
    """No data file is twice in what a branch shows."""
    return [
        Finding(Invariant.FILE_LIVE_ONCE, f"branch '{branch}' shows its rows {count} times", path)
        for branch in facts.branches
        for path, count in _shown(facts, branch).items()
        if count > 1
    ]


def _shown(facts: Facts, branch: str) -> Counter[str]:
    """How often the head of `branch` lists each data file."""
    heads = facts.chain(branch)[:1]
    manifests = [manifest for head in heads for manifest in facts.manifests_of(head)]
    return Counter(entry.path for one in manifests for entry in one.live() if not entry.deletes)


def readable(facts: Facts) -> list[Finding]:
    """Every manifest list and every manifest can be read."""
    return [Finding(Invariant.FILE_READABLE, why, path) for path, why in facts.unread.items()]


def referenced(facts: Facts) -> dict[str, File]:
    """Every file that a retained snapshot needs, by its path."""
    found = {}
    for snapshot in facts.snapshots:
        if snapshot.manifest_list:
            found[snapshot.manifest_list] = File(snapshot.manifest_list, "manifest list", None)
    for manifest in facts.manifests.values():
        found[manifest.path] = File(manifest.path, "manifest", manifest.size)
        for entry in manifest.live():
            found[entry.path] = File(entry.path, "delete file" if entry.deletes else "data file", entry.size)
    return {path: file for path, file in found.items() if path not in facts.unread}


def there(files: Iterable[File], sizes: Mapping[str, int | None]) -> list[Finding]:
    """Every file exists with the size that the metadata says; `sizes` has None for one that is missing."""
    found = []
    for file in files:
        size = sizes.get(file.path)
        if size is None:
            found.append(Finding(Invariant.FILE_EXISTS, f"this {file.kind} is missing", file.path))
        elif file.size is not None and size != file.size:
            what = f"this {file.kind} has {size} bytes and its manifest says {file.size}"
            found.append(Finding(Invariant.FILE_SIZE, what, file.path))
    return found


def orphans(listed: Iterable[str], needed: Iterable[str]) -> list[str]:
    """The files that no retained snapshot needs."""
    return sorted(set(listed) - set(needed))


def orphans_bounded(found: list[str], limit: int) -> list[Finding]:
    """There are at most as many orphans as crashes and writers at work can explain."""
    if len(found) <= limit:
        return []
    what = f"{len(found)} files belong to no snapshot and {limit} can be explained"
    return [Finding(Invariant.ORPHANS_BOUNDED, what, found[0])]
