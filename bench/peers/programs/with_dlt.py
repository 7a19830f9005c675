"""Run by the bench: `with_dlt.py task.json`."""

import json
import sys
from pathlib import Path

import dlt
import pyarrow.csv
import pyarrow.parquet as pq


def rows(names: list[str]):
    for name in names:
        yield pq.read_table(name) if name.endswith(".parquet") else pyarrow.csv.read_csv(name)


def main(file: str) -> None:
    task = json.loads(Path(file).read_text())
    upserts = {"disposition": "merge", "strategy": "upsert"}
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(f"file://{task['folder']}/warehouse"),
        dataset_name=task["dataset"],
    )
    is_upsert = task["how"] == "upsert"
    # Batches have to come one after the other; the rest is one load.
    for names in [[name] for name in task["files"]] if is_upsert else [task["files"]]:
        pipeline.run(
            dlt.resource(rows(names), name=task["table"], primary_key="id"),
            write_disposition=upserts if is_upsert else "append",
            table_format="iceberg",
        )


if __name__ == "__main__":
    main(sys.argv[1])
