"""Is the table right: rows, distinct keys and sums, read by none of the peers.

PyIceberg reads it, and DuckDB counts. PyIceberg does not read tables with equality deletes, and DuckDB's own
reader takes minutes for them: their data and delete files are joined here, by sequence number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import StaticTable

from bench.data import Expected
from bench.table import local

AS_THEY_ARE = {
    "id": "CAST(id AS BIGINT)",
    "amount": "CAST(amount AS DECIMAL(12,2))",
    "ordered_at": "CAST(ordered_at AS TIMESTAMPTZ)",
    "customer": "customer",
}
"""How a column is found in a table; a peer that writes other types has its own."""

_SUMS = {
    "id": "CAST(sum(id) AS VARCHAR)",
    "amount": "CAST(sum(CAST(round(amount * 100) AS BIGINT)) AS VARCHAR)",
    "ordered_at": "CAST(sum(epoch_ms(ordered_at)) AS VARCHAR)",
    "customer": "CAST(sum(length(customer)) AS VARCHAR)",
}


def found(metadata: Path, columns: Mapping[str, str] = AS_THEY_ARE) -> Expected:
    """What the table holds."""
    table = StaticTable.from_metadata(str(metadata))
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    names = _names(table, columns)
    if table.current_snapshot() is None:
        return Expected(sums=dict.fromkeys(columns, 0))
    if _has_equality_deletes(table):
        _register_files(connection, table, names)
    else:
        connection.register("rows", table.scan(selected_fields=tuple(names)).to_arrow())
    return _counted(connection, columns)


def differences(wanted: Expected, got: Expected) -> list[str]:
    """What is not as it should be, in words; nothing where the table is right."""
    pairs = {"rows": (wanted.rows, got.rows), "distinct ids": (wanted.distinct, got.distinct)}
    pairs |= {f"sum of {name}": (wanted.sums[name], got.sums[name]) for name in got.sums}
    return [
        f"{name}: {there:,} instead of {right:,}" for name, (right, there) in pairs.items() if right != there
    ]


def _counted(connection: Any, columns: Mapping[str, str]) -> Expected:
    chosen = ", ".join(f"{text} AS {name}" for name, text in columns.items())
    totals = ", ".join(_SUMS[name] for name in columns)
    rows, distinct, *sums = connection.execute(
        f"SELECT count(*), count(DISTINCT id), {totals} FROM (SELECT {chosen} FROM rows)"
    ).fetchone()
    return Expected(
        rows, distinct, {name: int(total or 0) for name, total in zip(columns, sums, strict=True)}
    )


def _names(table: StaticTable, columns: Mapping[str, str]) -> list[str]:
    """The columns of the table that the expressions name."""
    return [one.name for one in table.schema().fields if any(one.name in text for text in columns.values())]


def _files(table: StaticTable) -> list[tuple[Any, int]]:
    snapshot = table.current_snapshot()
    assert snapshot is not None, "the table is empty"
    return [
        (entry.data_file, entry.sequence_number)
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]


def _has_equality_deletes(table: StaticTable) -> bool:
    return any(file.content == DataFileContent.EQUALITY_DELETES for file, _ in _files(table))


def _register_files(connection: Any, table: StaticTable, names: list[str]) -> None:
    """A view `rows` of what is left of the data files; for tables that are not partitioned."""
    files = _files(table)
    keys = _keys(table, files)
    for content, view in _VIEWS.items():
        some = [(str(local(file.file_path)), number) for file, number in files if file.content == content]
        wanted = {"data": [*names, *keys], "gone": keys, "places": ["file_path", "pos"]}[view]
        _register(connection, view, some, list(dict.fromkeys(wanted)))
    same = " AND ".join(f"gone.{key} = data.{key}" for key in keys)
    connection.execute(f"""
        CREATE VIEW rows AS SELECT {", ".join(names)} FROM data
        WHERE NOT EXISTS (SELECT 1 FROM gone WHERE {same} AND gone._number > data._number)
        AND NOT EXISTS (SELECT 1 FROM places WHERE places.pos = data._pos AND places._number >= data._number
            AND regexp_replace(places.file_path, '^file:/*', '/') = data._file)""")


_VIEWS = {
    DataFileContent.DATA: "data",
    DataFileContent.EQUALITY_DELETES: "gone",
    DataFileContent.POSITION_DELETES: "places",
}


def _keys(table: StaticTable, files: list[tuple[Any, int]]) -> list[str]:
    ids = {
        number
        for file, _ in files
        if file.content == DataFileContent.EQUALITY_DELETES
        for number in file.equality_ids
    }
    return [table.schema().find_column_name(number) or "" for number in sorted(ids)]


def _register(connection: Any, view: str, files: list[tuple[str, int]], names: list[str]) -> None:
    """The rows of Parquet files with the file's sequence number, its name and their place in it."""
    numbers = pa.table({"_file": [file for file, _ in files], "_number": [number for _, number in files]})
    connection.register(f"{view}_files", numbers.cast(_NUMBERS))
    chosen = ", ".join(f"r.{name}" for name in names)
    if not files:
        kinds = {"file_path": "VARCHAR", "pos": "BIGINT"}
        nothing = ", ".join(f"CAST(NULL AS {kinds.get(name, 'BIGINT')}) AS {name}" for name in names)
        connection.execute(
            f"CREATE TABLE {view} AS SELECT {nothing}, 0 AS _number, '' AS _file, 0 AS _pos WHERE false"
        )
        return
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file, _ in files)
    connection.execute(f"""
        CREATE TABLE {view} AS SELECT {chosen}, f._number, f._file, r.file_row_number AS _pos
        FROM read_parquet([{listed}], filename = true, file_row_number = true) r
        JOIN {view}_files f ON f._file = r.filename""")


_NUMBERS = pa.schema([("_file", pa.string()), ("_number", pa.int64())])
