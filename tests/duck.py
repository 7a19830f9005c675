"""DuckDB with what it needs to read Iceberg tables, from installed packages alone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import duckdb

EXTENSIONS = ("avro", "httpfs", "iceberg")


def connect() -> duckdb.DuckDBPyConnection:
    """A connection whose times are in UTC."""
    connection = duckdb.connect()
    for extension in EXTENSIONS:
        connection.load_extension(str(_file(extension)))
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _file(extension: str) -> Path:
    package = find_spec(f"duckdb_extension_{extension}")
    assert package is not None
    assert package.submodule_search_locations
    return next(Path(package.submodule_search_locations[0]).rglob(f"{extension}.duckdb_extension"))
