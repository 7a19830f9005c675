"""Run by the bench: `with_dlt.py task.json`."""

import json
import sys
from pathlib import Path

import dlt
import pyarrow.csv
import pyarrow.parquet as pq


def rows(name: str):
    return pq.read_table(name) if name.endswith(".parquet") else pyarrow.csv.read_csv(name)


def main(file: str) -> None:
    task = json.loads(Path(file).read_text())
    upserts = {"disposition": "merge", "strategy": "upsert"}
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(f"file://{task['folder']}/warehouse"),
        dataset_name=task["dataset"],
    )
    for name in task["files"]:
        pipeline.run(
            dlt.resource(lambda name=name: [rows(name)], name=task["table"], primary_key="id"),
            write_disposition=upserts if task["how"] == "upsert" else "append",
            table_format="iceberg",
        )


if __name__ == "__main__":
    main(sys.argv[1])
