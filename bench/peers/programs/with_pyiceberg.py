"""Run by the bench: `with_pyiceberg.py task.json`."""

import json
import sys
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog


def main(file: str) -> None:
    task = json.loads(Path(file).read_text())
    catalog = SqlCatalog(task["catalog"], uri=f"sqlite:///{task['database']}", warehouse=task["warehouse"])
    table = catalog.load_table(task["table"])
    schema = table.schema().as_arrow()
    for name in task["files"]:
        if name.endswith(".parquet"):
            rows = pq.read_table(name)
        else:
            types = pyarrow.csv.ConvertOptions(column_types={one.name: one.type for one in schema})
            rows = pyarrow.csv.read_csv(name, convert_options=types)
        rows = rows.cast(schema)
        table.upsert(rows) if task["how"] == "upsert" else table.append(rows)


if __name__ == "__main__":
    main(sys.argv[1])
