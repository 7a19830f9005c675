"""What readers find: W9 scans what each peer left behind, W10 asks a catalog as the seeds' tables do."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.data import Shape
from bench.peers.peer import PROGRAMS
from bench.stand import Stand
from bench.workloads import Result, quantile

SCANNED = ("W1", "W2", "W2-large")
"""The workloads whose tables are scanned."""
COPY = "compacted copy"
LIMIT = 300.0
LATE = f"did not read it in {LIMIT:.0f} s"


def scans(stand: Stand) -> list[Result]:
    """W9: a full scan by DuckDB and by Spark of each table, the second time of two."""
    left = {key: file for key, file in stand.left.items() if key[0] in SCANNED}
    left |= {
        (name, COPY): compacted(stand, name, file) for (name, peer), file in left.items() if peer == "calve"
    }
    with_spark = scanned([sys.executable, str(PROGRAMS / "with_spark.py")], list(left.values()))
    found = []
    for (workload, peer), file in left.items():
        with_duckdb = scanned([sys.executable, str(PROGRAMS / "with_duckdb.py")], [file])
        both = {"DuckDB": with_duckdb.get(file, LATE), "Spark": with_spark.get(file, LATE)}
        missing = [f"{name} {one}" for name, one in both.items() if isinstance(one, str)]
        seconds = {name: one for name, one in both.items() if isinstance(one, float)}
        more = {"duckdb_seconds": seconds.get("DuckDB"), "spark_seconds": seconds.get("Spark")}
        found.append(Result(f"W9 after {workload}", peer, wrong=missing, more=more))
    return found


def compacted(stand: Stand, name: str, file: Path) -> Path:
    """The same rows in one data file, as a rewrite of all of them would leave it."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import StaticTable

    folder = stand.run_folder(f"{name}-compacted".lower())
    rows = StaticTable.from_metadata(str(file)).scan().to_arrow()
    catalog = SqlCatalog("copy", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("copy")
    table = catalog.create_table("copy.rows", rows.schema)
    table.append(rows)
    return Path(table.metadata_location.removeprefix("file://"))


def scanned(program: list[str], files: list[Path]) -> dict[Path, float | str]:
    """Seconds of a warm scan of each table, or why the reader fails; without those that take too long."""
    if not files:
        return {}
    try:
        ended = subprocess.run(
            [*program, "scan", *map(str, files)], capture_output=True, text=True, timeout=LIMIT * len(files)
        )
        lines = ended.stdout.splitlines()
    except subprocess.TimeoutExpired as late:
        lines = (late.stdout or b"").decode().splitlines() if isinstance(late.stdout, bytes) else []
    return told(lines)


def told(lines: Iterable[str]) -> dict[Path, float | str]:
    """What a reader has said about each table."""
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return {
        Path(one["file"]): f"cannot read it: {one['error'].splitlines()[0][:200]}"
        if one["seconds"] is None
        else float(one["seconds"])
        for one in found
    }


def catalog(stand: Stand) -> list[Result]:
    """W10: how a REST catalog answers, and how long a query takes on the largest table that was left."""
    from pyiceberg.catalog.rest import RestCatalog as Client

    from tests.servers.rest import RestCatalog

    server = RestCatalog(stand.folder / "rest")
    server.start()
    try:
        client = Client("bench", uri=server.uri)
        client.create_namespace("bench")
        schema = next(Shape().blocks(0, 1)).schema.set(4, _moment())
        made = iter(range(1000))
        created = timed(lambda: client.create_table(f"bench.t{next(made)}", schema), 20)
        asked = timed(lambda: client.load_table("bench.t0"), 200)
        per_second = requests(lambda: server.get("/v1/namespaces/bench/tables/t0"), 5.0, 8)
    finally:
        server.remove()
    more = {
        "catalog_p95_ms": ms(asked), "table_creation_p95_ms": ms(created), "requests_per_second": per_second,
        **queries(stand), **pruning(stand),
    }  # fmt: skip
    return [Result("W10-catalog", "reference REST catalog", more=more)]


def queries(stand: Stand) -> Mapping[str, float | None]:
    """The p95 of a query by DuckDB over what a bulk load left."""
    wanted = [stand.left.get((name, "calve")) for name in ("W11", "W3", "W1")]
    file = next((one for one in wanted if one is not None), None)
    if file is None:
        return {"query_p95_ms": None}
    sys.path.insert(0, str(PROGRAMS))
    from with_duckdb import connect, scan

    connection = connect()
    return {"query_p95_ms": ms(timed(lambda: scan(connection, str(file)), 20))}


def pruning(stand: Stand) -> Mapping[str, float | None]:
    """How long PyIceberg plans a scan of one of the thousand days that W7 left."""
    from pyiceberg.table import StaticTable

    file = stand.left.get(("W7", "calve"))
    if file is None:
        return {"pruning_p95_ms": None}
    scan = StaticTable.from_metadata(str(file)).scan(
        "ordered_at >= '2026-02-01T00:00:00+00:00' and ordered_at < '2026-02-02T00:00:00+00:00'"
    )
    return {"pruning_p95_ms": ms(timed(lambda: list(scan.plan_files()), 20))}


def _moment() -> object:
    import pyarrow as pa

    return pa.field("ordered_at", pa.timestamp("us", "UTC"))


def timed(work: Callable[[], object], times: int) -> list[float]:
    """The seconds of each of so many calls."""
    return list(_timed(work, times))


def _timed(work: Callable[[], object], times: int) -> Iterator[float]:
    for _ in range(times):
        begun = time.perf_counter()
        work()
        yield time.perf_counter() - begun


def ms(seconds: list[float]) -> float | None:
    """Their p95, in milliseconds."""
    found = quantile(seconds, 0.95)
    return None if found is None else found * 1000


def requests(work: Callable[[], object], seconds: float, threads: int) -> float:
    """Calls a second by several threads at once."""
    end = time.perf_counter() + seconds

    def run(_: int) -> int:
        count = 0
        while time.perf_counter() < end:
            work()
            count += 1
        return count

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(run, range(threads))) / seconds
