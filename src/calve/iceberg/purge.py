"""Every file of a table, for a store in which Iceberg's own purge does not end."""

from __future__ import annotations

from typing import Any

from calve.iceberg import java

_STUCK = ("org.apache.iceberg.azure.adlsv2.ADLSFileIO", "org.apache.iceberg.io.ResolvingFileIO")


def gets_stuck(io: Any) -> bool:
    """Whether a purge of Iceberg's may wait for itself.

    Each of its tasks deletes the files of one manifest, and Azure's FileIO does that by further tasks of the
    same few threads: a table with as many manifests as there are threads is never done.
    """
    # By its name: the class itself cannot be loaded without the jars of Azure's store.
    return str(io.getClass().getName()) in _STUCK


def files(table: Any) -> list[str]:
    """The files of all snapshots of a table of Java's, and those of its metadata, these last."""
    reachable = java.Statics("org.apache.iceberg.ReachableFileUtil")
    lists = java.each(reachable.manifestListLocations(table))
    own = [*java.each(reachable.statisticsFilesLocations(table)), *lists]
    own += java.each(reachable.metadataFileLocations(table, False))
    return list(dict.fromkeys([*_in_manifests(table), *own]))


def _in_manifests(table: Any) -> list[str]:
    read = java.static_member("org.apache.iceberg.ManifestFiles", "readPaths")
    snapshots = _listed(table.snapshots())
    manifests = {one.path(): one for each in snapshots for one in java.each(each.allManifests(table.io()))}
    found: list[str] = []
    for manifest in manifests.values():
        paths = read(manifest, table.io(), table.specs())
        found += _listed(paths)
        paths.close()
    return [*found, *manifests]


def _listed(iterable: Any) -> list[Any]:
    found = java.new("java.util.ArrayList")
    java.Statics("org.apache.iceberg.relocated.com.google.common.collect.Iterables").addAll(found, iterable)
    return java.each(found)
