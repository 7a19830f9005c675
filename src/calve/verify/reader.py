"""Collects the facts of a table with PyIceberg."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, ManifestEntry, ManifestFile, read_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot

from calve.position import PREFIX, SUMMARY_COMMIT
from calve.verify.facts import Entry, Facts, File, Manifest, Snapshot, Status, Version

if TYPE_CHECKING:
    import pyarrow as pa

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 16
"""How many files are read or asked for at the same time."""

_REASON = "calve.reason"
_DATA_PATH = "write.data.path"


def facts(table: Table) -> Facts:
    """What the metadata of `table` says: snapshots, manifests, marks and their history; no data is read."""
    snapshots, known, unread = _snapshots(table)
    manifests = {}
    for manifest, entries in _each(known, lambda one: _read(lambda: _entries(table.io, one))):
        if isinstance(entries, str):
            unread[manifest.manifest_path] = entries
        else:
            path = manifest.manifest_path
            manifests[path] = Manifest(path, manifest.manifest_length, entries)
    marks = _marks(table.metadata.properties)
    return Facts(snapshots, _branches(table), marks, manifests, tuple(versions(table)), unread)


def _snapshots(table: Table) -> tuple[tuple[Snapshot, ...], list[ManifestFile], dict[str, str]]:
    """The snapshots, each manifest of theirs once, and the lists that cannot be read."""
    snapshots, known, unread = [], {}, {}
    for snapshot, found in _each(
        table.metadata.snapshots, lambda one: _read(lambda: _manifests(table.io, one))
    ):
        if isinstance(found, str):
            unread[snapshot.manifest_list] = found
            found = ()
        known.update({manifest.manifest_path: manifest for manifest in found})
        snapshots.append(_snapshot(snapshot, found))
    return tuple(snapshots), list(known.values()), unread


def versions(table: Table) -> Iterator[Version]:
    """The marks in each version of the metadata that is still there, oldest first."""
    files = [entry.metadata_file for entry in table.metadata.metadata_log]
    for file, text in _each(files, lambda one: _read(lambda: _bytes(table.io, one))):
        if not isinstance(text, str):
            metadata = json.loads(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text)
            summaries = [one.get("summary", {}) for one in metadata.get("snapshots", ())]
            yield Version(file, _marks(metadata.get("properties", {})), _decisions(summaries))
    summaries = [_summary(one) for one in table.metadata.snapshots]
    yield Version(table.metadata_location, _marks(table.metadata.properties), _decisions(summaries))


def sizes(table: Table, files: Iterable[File]) -> dict[str, int | None]:
    """How long each file is; None for one that is missing."""
    paths = (file.path for file in files)
    return dict(_each(paths, lambda path: _size(table.io, path)))


def listed(table: Table) -> list[str] | None:
    """The files in the table's directory of data, as `place` names them; None where they cannot be listed."""
    data = table.metadata.properties.get(_DATA_PATH, f"{table.metadata.location.rstrip('/')}/data")
    found = _listing(table.io, data, recursive=True)
    if found is None:
        return None
    folder = place(data).rstrip("/")
    return [path for path in found if not _is_hidden(path.removeprefix(folder))]


def names(folder: str) -> list[str]:
    """The names of the files in `folder`; none where it does not exist."""
    found = _listing(load_file_io(location=folder), folder, recursive=False)
    return [path.rpartition("/")[2] for path in found or ()]


def place(path: str) -> str:
    """One name for a file, however its address is written."""
    return PyArrowFileIO.parse_location(path)[2]


def batches(table: Table, columns: Sequence[str], branch: str) -> Iterator[pa.RecordBatch]:
    """Some columns of all rows on `branch`, a batch at a time."""
    head = table.metadata.snapshot_by_name(branch)
    if head is not None:
        scan = table.scan(selected_fields=tuple(columns), snapshot_id=head.snapshot_id)
        yield from scan.to_arrow_batch_reader()


def _each(
    items: Iterable[Item], work: Callable[[Item], Result], at_once: int = AT_ONCE
) -> Iterator[tuple[Item, Result]]:
    """The items with what `work` makes of them, in their order; a bounded number waits at any time."""
    left = iter(items)
    with ThreadPoolExecutor(at_once) as pool:
        while some := list(islice(left, at_once * 64)):
            yield from zip(some, pool.map(work, some), strict=True)


def _read(read: Callable[[], Result]) -> Result | str:
    """What `read` returns, or why the file is of no use; a store that does not answer is raised."""
    try:
        return read()
    except FileNotFoundError:
        return "it is missing"
    except OSError:
        raise
    except Exception as error:
        return f"it cannot be read: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _manifests(io: FileIO, snapshot: IcebergSnapshot) -> tuple[ManifestFile, ...]:
    return tuple(read_manifest_list(io.new_input(snapshot.manifest_list)))


def _entries(io: FileIO, manifest: ManifestFile) -> tuple[Entry, ...]:
    return tuple(map(_entry, manifest.fetch_manifest_entry(io, discard_deleted=False)))


def _entry(entry: ManifestEntry) -> Entry:
    file = entry.data_file
    return Entry(
        path=file.file_path,
        size=file.file_size_in_bytes,
        records=file.record_count,
        snapshot=entry.snapshot_id or 0,
        status=Status(int(entry.status)),
        deletes=file.content is not DataFileContent.DATA,
    )


def _snapshot(snapshot: IcebergSnapshot, manifests: Iterable[ManifestFile]) -> Snapshot:
    return Snapshot(
        id=snapshot.snapshot_id,
        parent=snapshot.parent_snapshot_id,
        sequence=snapshot.sequence_number or 0,
        summary=_summary(snapshot),
        manifest_list=snapshot.manifest_list,
        manifests=tuple(manifest.manifest_path for manifest in manifests),
    )


def _summary(snapshot: IcebergSnapshot) -> dict[str, str]:
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}


def _branches(table: Table) -> dict[str, int]:
    refs = table.metadata.refs.items()
    return {name: ref.snapshot_id for name, ref in refs if ref.snapshot_ref_type is SnapshotRefType.BRANCH}


def _marks(properties: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in properties.items() if name.startswith(PREFIX)}


def _decisions(summaries: Iterable[dict[str, Any]]) -> frozenset[str]:
    return frozenset(str(one.get(SUMMARY_COMMIT)) for one in summaries if _REASON in one)


def _bytes(io: FileIO, file: str) -> bytes:
    with io.new_input(file).open() as stream:
        return bytes(stream.read())


def _size(io: FileIO, path: str) -> int | None:
    try:
        return len(io.new_input(path))
    except FileNotFoundError:
        return None


def _listing(io: FileIO, folder: str, recursive: bool) -> list[str] | None:
    """The files under `folder`; None where the store is none that PyArrow knows."""
    from pyarrow.fs import FileSelector, FileType

    if not isinstance(io, PyArrowFileIO):
        return None
    scheme, netloc, path = io.parse_location(folder, io.properties)
    selector = FileSelector(path, allow_not_found=True, recursive=recursive)
    found = io.fs_by_scheme(scheme, netloc).get_file_info(selector)
    return [one.path for one in found if one.type is FileType.File]


def _is_hidden(path: str) -> bool:
    """Whether readers of directories skip it, such as checksums and what a write left for itself."""
    return any(part.startswith(".") or (part[:1] == "_" and "=" not in part) for part in path.split("/"))
