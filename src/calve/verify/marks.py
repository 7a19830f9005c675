"""Invariants of marks and commits: epochs, commit ids, property against summary, history. Pure.

Nothing of the writer is used but the names of properties and of keys in summaries.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from calve.position import PREFIX, SUMMARY_COMMIT, SUMMARY_DIGEST, SUMMARY_EPOCH, SUMMARY_SINK
from calve.verify.facts import MAIN, Facts, Finding, Invariant, Snapshot, Version

Mark = Mapping[str, Any]
_KEYS = {"epoch": int, "writer": str, "source": str, "position": dict, "commit": str, "above": int}


def parsed(text: str) -> Mark | None:
    """The mark that `text` is; None if it is none."""
    try:
        mark = json.loads(text)
    except ValueError:
        return None
    is_sound = isinstance(mark, dict) and all(isinstance(mark.get(key), kind) for key, kind in _KEYS.items())
    return mark if is_sound else None


def digest(mark: Mark) -> str:
    """The fingerprint of source and position that belongs into the summary."""
    text = json.dumps([mark["source"], mark["position"]], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def branch_of(name: str) -> str:
    """The branch of a sink, as a summary or a property names it."""
    return name.removeprefix(PREFIX).partition(".")[2] or MAIN


def own(chain: list[Snapshot], name: str | None = None) -> list[Snapshot]:
    """The commits of Calve in `chain`, or those of one sink."""
    commits = [snapshot for snapshot in chain if SUMMARY_SINK in snapshot.summary]
    return [one for one in commits if name in (None, one.summary[SUMMARY_SINK])]


def epochs_grow(facts: Facts, branch: str) -> list[Finding]:
    """Along a branch the epoch of a sink never decreases."""
    found = []
    for name, commits in _by_sink(facts.chain(branch)).items():
        for newer, older in pairwise(commits):
            if _epoch(newer) < _epoch(older):
                what = f"epoch {_epoch(newer)} of sink '{name}' follows epoch {_epoch(older)}"
                found.append(Finding(Invariant.EPOCH_GROWS, what, _place(branch, newer)))
    return found


def commits_once(facts: Facts, branch: str) -> list[Finding]:
    """Along a branch each commit id occurs once."""
    ids = Counter(snapshot.summary.get(SUMMARY_COMMIT) for snapshot in own(facts.chain(branch)))
    return [
        Finding(Invariant.COMMIT_ONCE, f"commit {commit} is in it {count} times", f"branch '{branch}'")
        for commit, count in ids.items()
        if count > 1
    ]


def marks_agree(facts: Facts, branch: str) -> list[Finding]:
    """The mark of each sink of `branch` says what the summary of its newest commit says.

    Where expiry took that commit, nothing speaks against the mark.
    """
    chain = facts.chain(branch)
    names = {PREFIX + name for name in _by_sink(chain)} | set(facts.marks)
    return [
        finding
        for name in sorted(names)
        if branch_of(name) == branch
        for finding in _disagreements(facts, name, chain)
    ]


def _disagreements(facts: Facts, name: str, chain: list[Snapshot]) -> Iterator[Finding]:
    where, text = f"property '{name}'", facts.marks.get(name)
    mark = None if text is None else parsed(text)
    if text is None:
        yield Finding(Invariant.MARK_AGREES, "it is gone, and the branch has commits of its sink", where)
    elif mark is None:
        yield Finding(Invariant.MARK_AGREES, "it holds no mark", where)
    else:
        newest = next(iter(own(chain, name.removeprefix(PREFIX))), None)
        if newest is not None and (_commit(newest) == mark["commit"] or newest.sequence > mark["above"]):
            yield from _differences(mark, newest, where)
        elif not is_expired(facts, mark, chain):
            what = f"branch '{branch_of(name)}' was rolled back behind its commit {mark['commit']}"
            yield Finding(Invariant.MARK_REACHABLE, what, where)


def _differences(mark: Mark, newest: Snapshot, where: str) -> Iterator[Finding]:
    said = {SUMMARY_EPOCH: str(mark["epoch"]), SUMMARY_COMMIT: mark["commit"], SUMMARY_DIGEST: digest(mark)}
    differ = [
        f"{key} is {newest.summary.get(key)} there and {value} here"
        for key, value in said.items()
        if newest.summary.get(key) != value
    ]
    if differ:
        what = f"it is not what the newest commit, snapshot {newest.id}, left: {', '.join(differ)}"
        yield Finding(Invariant.MARK_AGREES, what, where)


def is_expired(facts: Facts, mark: Mark, chain: list[Snapshot]) -> bool:
    """Whether the commit of a mark may be one of the snapshots that expiry has cut off from `chain`."""
    return bool(chain) and chain[-1].sequence > mark["above"] and not facts.is_first(chain[-1])


def history_grows(versions: tuple[Version, ...], name: str) -> list[Finding]:
    """From one version of the metadata to the next, a mark's epoch and position never go back.

    An operator's decision may set the position anywhere, in a new epoch.
    """
    found = []
    for older, newer in pairwise(versions):
        before = parsed(older.marks.get(name, ""))
        after = parsed(newer.marks.get(name, ""))
        if before is not None:
            decided = after is not None and after["commit"] in newer.decisions
            found += [
                Finding(Invariant.HISTORY_GROWS, what, f"property '{name}' in {newer.file}")
                for what in _steps_back(before, after, decided)
            ]
    return found


def _steps_back(before: Mark, after: Mark | None, decided: bool) -> Iterator[str]:
    if after is None:
        yield "the mark is gone or cannot be read"
        return
    if after["epoch"] < before["epoch"]:
        yield f"epoch {after['epoch']} follows epoch {before['epoch']}"
    if after["epoch"] == before["epoch"] and after["writer"] != before["writer"]:
        yield f"two writers have epoch {after['epoch']}: {before['writer']} and {after['writer']}"
    if decided:
        return
    if after["source"] != before["source"]:
        yield f"the source changed from '{before['source']}' to '{after['source']}' without a decision"
    else:
        yield from went_back(before["position"], after["position"])


def went_back(before: Mark, after: Mark) -> Iterator[str]:
    """What stands further back in `after` than in `before`: Kafka offsets, row numbers, times of files."""
    old, new = places(before), places(after)
    for place, number in old.items():
        if place not in new:
            yield f"{place} stood at {number} and is gone"
        elif new[place] < number:
            yield f"{place} went from {number} back to {new[place]}"


def places(position: Mark) -> dict[str, int]:
    """The numbers of a position that may only grow, by what they belong to."""
    if "to" in position and "life" in position:
        return {"life": position["life"], **places(position["to"])}
    found = {key: position[key] for key in ("row", "cutoff", "forgotten") if key in position}
    for topic, state in position.get("topics", {}).items():
        for partition, offset in state.get("offsets", {}).items():
            found[f"topic '{topic}' ({state.get('id')}) partition {partition}"] = offset
    return found


def _by_sink(chain: list[Snapshot]) -> dict[str, list[Snapshot]]:
    found: dict[str, list[Snapshot]] = {}
    for snapshot in own(chain):
        found.setdefault(snapshot.summary[SUMMARY_SINK], []).append(snapshot)
    return found


def _epoch(snapshot: Snapshot) -> int:
    text = snapshot.summary.get(SUMMARY_EPOCH, "")
    return int(text) if text.isdecimal() else -1


def _commit(snapshot: Snapshot) -> str | None:
    return snapshot.summary.get(SUMMARY_COMMIT)


def _place(branch: str, snapshot: Snapshot) -> str:
    return f"snapshot {snapshot.id} of branch '{branch}'"
