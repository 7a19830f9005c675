"""The manifests that one commit wrote: which files they are, and those among them that nobody needs."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

from calve.addresses import local_path
from calve.errors import CalveError
from calve.iceberg.bulk import Listed, Method
from calve.iceberg.failures import translated

_PATH = Method("org.apache.iceberg.ManifestFile", "path")
_LIST = re.compile(r"(.*/)snap-\d+-\d+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.avro")
"""A manifest list: its folder, and the id of the update that wrote it and the manifests beside it."""
_REPLACED = "manifests-replaced"


def written(snapshot: Any) -> list[str]:
    """The manifest list of a new snapshot and the manifests that its update wrote, where they are local."""
    location = str(snapshot.manifestListLocation())
    return [location, *_own(location)] if local_path(location) is not None else []


def _own(manifest_list: str) -> Iterator[str]:
    """The manifests of the update that wrote a manifest list on this disk; it numbers them without gaps."""
    found = _LIST.fullmatch(manifest_list)
    for number in count():
        location = found and f"{found[1]}{found[2]}-m{number}.avro"
        if location is None or not os.path.exists(local_path(location) or ""):
            return
        yield location


def intermediate(manifest_list: str, listed: Collection[str]) -> list[str]:
    """The manifests that an update wrote and merged into later ones, by the manifests that its list has.

    Only that update could have used them: its id is in their names. Where the list has none of its
    manifests, nothing is known.
    """
    found = _LIST.fullmatch(manifest_list)
    if found is None:
        return []
    name = re.compile(rf"{found[2]}-m(\d+)\.avro")
    numbers = {int(match[1]) for one in listed if (match := name.fullmatch(one.rpartition("/")[2]))}
    gone = set(range(max(numbers, default=0))) - numbers
    return [f"{found[1]}{found[2]}-m{number}.avro" for number in sorted(gone)]


def _may_have_merged(snapshot: Any, manifest_list: str) -> bool:
    """Whether it is worth reading the manifest list; most commits write one manifest and merge none."""
    if local_path(manifest_list) is not None:
        return len(list(_own(manifest_list))) > 1
    return int(snapshot.summary().get(_REPLACED) or 0) > 0


def remove_intermediate(io: Any, snapshot: Any) -> None:
    """Delete the manifests that the update of `snapshot` merged before anybody could see them.

    `snapshot` must be in the table. A file that cannot be deleted is left to `remove_orphan_files`.
    """
    manifest_list = str(snapshot.manifestListLocation())
    if not _may_have_merged(snapshot, manifest_list):
        return
    with suppress(CalveError), translated("delete intermediate manifests"):
        listed = Listed(snapshot.allManifests(io)).texts(_PATH)
        for location in intermediate(manifest_list, listed):
            io.deleteFile(location)
