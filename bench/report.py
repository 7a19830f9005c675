"""The results of a run: a table for the terminal, JSON to keep, Markdown and charts for the docs."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench.workloads import WORKLOADS, Result

HEADINGS = (
    "peer", "wall s", "CPU-s", "rows/s", "peak MiB", "files", "delete files", "snapshots", "right", "besides",
)  # fmt: skip
UNITS = {
    "visible_seconds": "visible after {:.1f} s",
    "cpu_per_million": "{:.2f} CPU-s a million rows",
    "steady_rows_per_second": "steady {:,.0f} rows/s",
    "steady_cpu_per_million": "steady {:.2f} CPU-s a million rows",
    "batch_seconds": "{:.2f} s a batch",
    "batch_cpu": "{:.2f} CPU-s a batch",
    "latency_median": "median {:.2f} s",
    "latency_p99": "p99 {:.2f} s",
    "bad_records": "{:,.0f} bad records",
    "bad_records_kept": "{:,.0f} of them kept in a table",
    "files_per_commit": "{:,.0f} files a commit",
    "files_per_commit_and_day": "{:.2f} files a commit and day",
    "input_bytes": "input {:,.0f} bytes",
    "largest_file_bytes": "largest file {:,.0f} bytes",
    "duckdb_seconds": "DuckDB {:.2f} s",
    "spark_seconds": "Spark {:.2f} s",
    "catalog_p95_ms": "catalog p95 {:.0f} ms",
    "table_creation_p95_ms": "table creation p95 {:.0f} ms",
    "requests_per_second": "{:,.0f} requests/s",
    "query_p95_ms": "query p95 {:.0f} ms",
    "pruning_p95_ms": "pruning of 1,000 days p95 {:.0f} ms",
}
"""How what only some workloads have is shown."""


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The rounds of one workload by one peer as one: medians; right only where every round was."""
    ran = [one for one in results if one.wall is not None] or list(results)
    first = ran[0]
    names = dict.fromkeys(name for one in ran for name in one.more)
    return {
        "workload": first.workload,
        "peer": first.peer,
        "version": first.version,
        "rounds": len(ran),
        "rows": first.rows,
        **{name: middle(getattr(one, name) for one in ran) for name in _NUMBERS},
        "right": None if first.right is None else all(one.right for one in ran),
        "wrong": list(dict.fromkeys(text for one in ran for text in one.wrong)),
        "note": first.note,
        "more": {name: middle(one.more.get(name) for one in ran) for name in names},
    }


_NUMBERS = ("wall", "cpu", "rows_per_second", "peak", "files", "delete_files", "snapshots")


def middle(values: Iterable[float | None]) -> float | None:
    """The median of what is known."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def document(results: Sequence[Result], command: str, now: datetime | None = None) -> dict[str, Any]:
    """All that is kept of a run."""
    keys = dict.fromkeys((one.workload, one.peer) for one in results)
    grouped = [[one for one in results if (one.workload, one.peer) == key] for key in keys]
    return {
        "command": command,
        "date": (now or datetime.now(timezone.utc)).strftime("%Y-%m-%d"),
        "machine": machine(),
        "results": [summary(group) for group in grouped],
        "rounds": [asdict(one) for one in results],
    }


def machine() -> dict[str, Any]:
    """What it ran on."""
    import psutil

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def merged(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """What is published, with the workloads of a new run in the place of older runs of them."""
    parts = dict((old or {}).get("workloads", {}))
    for name in dict.fromkeys(one["workload"] for one in new["results"]):
        shared = {key: new[key] for key in ("command", "date", "machine")}
        parts[name] = {**shared, "results": [one for one in new["results"] if one["workload"] == name]}
    return {"workloads": {name: parts[name] for name in sorted(parts, key=_place)}}


def _place(name: str) -> tuple[int, str]:
    known = list(WORKLOADS)
    return (known.index(name) if name in known else len(known), name)


def title(name: str) -> str:
    """What a workload is, in words."""
    if name in WORKLOADS:
        return WORKLOADS[name].title
    return "Scan of what each left" if name.startswith("W9") else "A REST catalog"


def cells(one: Mapping[str, Any]) -> tuple[str, ...]:
    """A line of the table."""
    if one["wall"] is None and not one["more"]:
        return (one["peer"], *["–"] * (len(HEADINGS) - 2), "; ".join(one["wrong"]))
    said = [
        text.format(one["more"][name]) for name, text in UNITS.items() if one["more"].get(name) is not None
    ]
    return (
        one["peer"],
        _number(one["wall"], ".1f"),
        _number(one["cpu"], ".1f"),
        _number(one["rows_per_second"], ",.0f"),
        _number(one["peak"] and one["peak"] / 2**20, ",.0f"),
        _number(one["files"], ",.0f"),
        _number(one["delete_files"], ",.0f"),
        _number(one["snapshots"], ",.0f"),
        {True: "yes", False: "no", None: "–"}[one["right"]],
        "; ".join([*said, *one["wrong"]]),
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def text(results: Sequence[Mapping[str, Any]]) -> str:
    """The tables of all workloads, for a terminal."""
    lines = []
    for name in dict.fromkeys(one["workload"] for one in results):
        rows = [HEADINGS, *(cells(one) for one in results if one["workload"] == name)]
        widths = [max(len(row[place]) for row in rows) for place in range(len(HEADINGS) - 1)]
        lines += ["", f"{name}: {title(name)}"]
        for row in rows:
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  " + "  ".join([*padded, row[-1]]).rstrip())
    return "\n".join(lines[1:])


def markdown(published: Mapping[str, Any] | None, images: Path | None = None, prefix: str = "") -> str:
    """What the docs show: nothing but what was measured."""
    if not published or not published.get("workloads"):
        return "No numbers are published yet."
    blocks = []
    for name, part in published["workloads"].items():
        versions = sorted({one["version"] for one in part["results"] if one["version"]})
        most = max(one["rounds"] for one in part["results"])
        on = part["machine"]
        blocks.append(f"### {name}: {title(name)}")
        blocks.append(_markdown_table(HEADINGS, [cells(one) for one in part["results"]]))
        blocks += _notes(part["results"])
        if images is not None and (images / f"{name}.png").is_file():
            blocks.append(f"![{name}]({prefix}{name}.png)")
        where = f"{on['cores']} cores, {on['memory_gib']} GiB"
        said = f"`{part['command']}`, {part['date']}, {where}; medians of up to {most} rounds"
        blocks.append(f"{said}. {'; '.join(versions)}." if versions else f"{said}.")
    return "\n\n".join(blocks)


def _markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _notes(results: Iterable[Mapping[str, Any]]) -> list[str]:
    notes = {one["peer"]: one["note"] for one in results if one["note"] and one["wall"] is not None}
    return ["\n".join(f"- {peer}: {note}" for peer, note in notes.items())] if notes else []


def bars(results: Iterable[Mapping[str, Any]]) -> list[tuple[str, float, float]]:
    """What a chart shows: peers with their wall time and CPU-seconds, those whose result is right."""
    return [(one["peer"], one["wall"], one["cpu"]) for one in results if one["right"] and one["wall"]]


def charts(published: Mapping[str, Any], folder: Path) -> list[Path]:
    """A picture for each workload that at least two peers have done right, and the curves of W8."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, part in published["workloads"].items():
        found = bars(part["results"])
        if len(found) > 1:
            made.append(_bar_chart(name, found, folder / f"{name}.png"))
    for kind in ("append", "upsert"):
        lines = curves(published, kind)
        if lines:
            made.append(_curve(kind, lines, folder / f"W8-{kind}-100.png"))
    return made


def curves(published: Mapping[str, Any], kind: str) -> dict[str, list[tuple[int, float]]]:
    """The seconds of a batch by how many times the table is as large, for each peer."""
    found: dict[str, list[tuple[int, float]]] = {}
    for times in (1, 10, 100):
        part = published["workloads"].get(f"W8-{kind}-{times}", {"results": []})
        for one in part["results"]:
            seconds = one["more"].get("batch_seconds")
            if one["right"] and seconds is not None:
                found.setdefault(one["peer"], []).append((times, seconds))
    return {peer: points for peer, points in found.items() if len(points) > 1}


def _bar_chart(name: str, found: Sequence[tuple[str, float, float]], file: Path) -> Path:
    figure, axes = _figure(1 + 0.5 * len(found))
    places = range(len(found))
    axes.barh([place - 0.2 for place in places], [cpu for _, _, cpu in found], 0.4, label="CPU-seconds")
    axes.barh([place + 0.2 for place in places], [wall for _, wall, _ in found], 0.4, label="wall seconds")
    axes.set_yticks(list(places), [peer for peer, _, _ in found])
    axes.invert_yaxis()
    axes.set_title(f"{name}: less is better", loc="left")
    axes.legend()
    figure.savefig(file, dpi=110, bbox_inches="tight")
    return file


def _curve(kind: str, lines: Mapping[str, Sequence[tuple[int, float]]], file: Path) -> Path:
    figure, axes = _figure(4)
    for peer, points in lines.items():
        axes.plot([times for times, _ in points], [seconds for _, seconds in points], marker="o", label=peer)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("times the table")
    axes.set_title(f"W8: seconds a batch, {kind}", loc="left")
    axes.legend()
    figure.savefig(file, dpi=110, bbox_inches="tight")
    return file


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, height))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def read(file: Path) -> dict[str, Any] | None:
    """What was published, if anything."""
    return json.loads(file.read_text()) if file.is_file() else None
