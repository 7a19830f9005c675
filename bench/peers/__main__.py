"""`make bench-peers`: the peers in turn, on the same generated data, in one run."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import readers, report
from bench.peers import PEERS, find
from bench.peers.peer import CACHE, CannotInstall, Peer
from bench.stand import Stand
from bench.workloads import WORKLOADS, Result, Workload

DOCS = Path(__file__).resolve().parents[2] / "docs"
PUBLISHED = DOCS / "performance.json"
IMAGES = DOCS / "performance"
READING = {"W9": readers.scans, "W10-catalog": readers.catalog}
"""What is done with the tables that the others left, at the end."""
DEFAULT = ("W1", "W2", "W3")


def chosen(text: str, known: Sequence[str]) -> list[str]:
    """Names with commas between; one that ends with a star stands for several, `all` for all."""
    found: list[str] = []
    for word in text.replace(",", " ").split():
        matching = [name for name in known if word == "all" or name.lower() == word.lower()]
        if word.endswith("*"):
            matching = [name for name in known if name.lower().startswith(word[:-1].lower())]
        if not matching:
            raise SystemExit(f"'{word}' is not known; one of {', '.join(known)}, or all")
        found += [name for name in matching if name not in found]
    return found


def installed(names: Sequence[str]) -> tuple[list[Peer], dict[str, str]]:
    """The peers that can be had, and why the others cannot."""
    peers, missing = [], {}
    for name in names:
        peer = find(name)
        try:
            peer.install()
        except CannotInstall as error:
            missing[name] = f"cannot be installed: {error}"
            print(f"{name}: {missing[name]}", flush=True)
        else:
            peers.append(peer)
    return peers, missing


def in_turn(stand: Stand, workload: Workload, peers: Sequence[Peer], rounds: int) -> Iterator[Result]:
    """Every peer once, then every peer again; one that cannot do it is asked once."""
    asked = [peer for peer in peers if not workload.only or peer.name in workload.only]
    for number in range(min(rounds, workload.rounds or rounds)):
        for peer in list(asked):
            try:
                result = workload.run(stand, peer, number)
            except Exception as error:
                result = Result(workload.name, peer.name, number, wrong=[told(error)])
            if result.wall is None:
                asked.remove(peer)
            print(f"  {workload.name} {peer.name} {number + 1}: {said(result)}", flush=True)
            yield result


def told(error: Exception) -> str:
    """An error in a line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else 'it says nothing'}"


def said(result: Result) -> str:
    """A result in a line."""
    if result.wall is None:
        return "; ".join(result.wrong)
    right = "right" if result.right else f"WRONG: {'; '.join(result.wrong)}"
    return f"{result.wall:.1f} s, {result.cpu:.1f} CPU-s, {right}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    every = [*WORKLOADS, *READING]
    parser.add_argument(
        "--workloads", default=" ".join(DEFAULT), help=f"of {', '.join(every)}; W8* for several"
    )
    parser.add_argument("--peers", default="all", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="0.01 for a hundredth of the rows")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a command may take")
    parser.add_argument("--folder", type=Path, help="where data and tables are written; removed at the end")
    parser.add_argument("--keep", action="store_true", help="leave the folder, with every log and table")
    parser.add_argument(
        "--output", type=Path, default=CACHE.parent / "bench.json", help="the numbers as JSON"
    )
    parser.add_argument("--publish", action="store_true", help="put numbers and charts into docs/")
    options = parser.parse_args(arguments)
    wanted = chosen(options.workloads, every)
    peers, missing = installed(chosen(options.peers, list(PEERS)))
    folder = Path(tempfile.mkdtemp(prefix="calve-peers-", dir=options.folder)).absolute()
    stand = Stand(folder, options.scale, options.limit)
    results: list[Result] = []
    try:
        for name in (one for one in wanted if one in WORKLOADS):
            results += [Result(name, peer, wrong=[why]) for peer, why in missing.items()]
            results += in_turn(stand, WORKLOADS[name](), peers, options.rounds)
        for name in (one for one in wanted if one in READING):
            results += READING[name](stand)
    finally:
        stand.close(keep=options.keep)
    document = report.document(results, f"python -m bench.peers {shlex.join(arguments)}".strip())
    print("\n" + report.text(document["results"]))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\nThe numbers are in {options.output}")
    if options.publish:
        publish(document)
    return 0


def publish(document: dict[str, object]) -> None:
    """Keep the numbers for the docs, and draw them."""
    published = report.merged(report.read(PUBLISHED), document)
    PUBLISHED.write_text(json.dumps(published, indent=1) + "\n")
    report.charts(published, IMAGES)
    print("Published in docs/performance.json; 'make docs' writes the page")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
