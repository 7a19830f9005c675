"""Run by the bench: `with_duckdb.py scan METADATA...`; a line of JSON for each table."""

import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import duckdb

CHOSEN = {"customer": "count(DISTINCT customer)", "note": "max(note)", "data": "count(DISTINCT data)"}
"""What is asked of the columns that a table has; `data` is the text of whole records."""


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for extension in ("avro", "httpfs", "iceberg"):
        package = find_spec(f"duckdb_extension_{extension}")
        folder = Path(package.submodule_search_locations[0])
        connection.load_extension(str(next(folder.rglob(f"{extension}.duckdb_extension"))))
    return connection


def scan(connection: duckdb.DuckDBPyConnection, file: str) -> float:
    begun = time.perf_counter()
    table = f"iceberg_scan('{file}')"
    names = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()}
    chosen = [text for name, text in CHOSEN.items() if name in names]
    connection.execute(f"SELECT {', '.join(['count(*)', *chosen])} FROM {table}").fetchall()
    return time.perf_counter() - begun


def main(files: list[str]) -> None:
    connection = connect()
    for file in files:
        try:
            seconds = min(scan(connection, file) for _ in range(2))
        except duckdb.Error as error:
            print(json.dumps({"file": file, "seconds": None, "error": str(error)}), flush=True)
        else:
            print(json.dumps({"file": file, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(sys.argv[2:])
