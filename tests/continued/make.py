"""Make `written_by_0_1_0.tar.gz` anew; run it with the code of Calve 0.1.0 on the path.

    PYTHONPATH=<0.1.0>/src python tests/continued/make.py

The folder is a fixed one, because metadata, manifests, marks and letters name it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

PLACE = Path("/tmp/calve-0.1.0")
ARCHIVE = Path(__file__).with_name("written_by_0_1_0.tar.gz")
DECLARATION = Path(__file__).with_name("calve.yaml")
NOT_KEPT = (".calve/logs", ".calve/metrics")


def write(folder: str, name: str, *records: object) -> None:
    """Put a file into one of the folders that are read; its time is the same at each unpacking."""
    file = PLACE / folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    moment = 1_767_225_600 + 60 * len(list(file.parent.iterdir()))
    os.utime(file, (moment, moment))


def calve(*arguments: str, killed_at: tuple[str, int] | None = None, amount: str = "BIGINT") -> None:
    """Run a command; `killed_at` names the crash point at which the process dies, and which time."""
    plan = [{"point": killed_at[0], "nth": killed_at[1], "action": "kill"}] if killed_at else []
    environment = {**os.environ, "CALVE_CRASH_PLAN": json.dumps(plan) if plan else "", "AMOUNT": amount}
    done = subprocess.run([sys.executable, "-m", "calve.cli", *arguments], cwd=PLACE, env=environment)
    assert done.returncode == (-9 if plan else 0), (arguments, done.returncode)


def main() -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    shutil.copy(DECLARATION, PLACE / "calve.yaml")

    # Rows and letters, and a letter that was replayed.
    write("orders_in", "a", {"id": 1, "amount": 7}, {"id": "x"}, {"id": 2, "amount": 3_000_000_000})
    calve("run", "--once", "--pipeline", "orders", amount="INT")
    write("orders_in", "b", {"id": 3, "amount": 9}, {"id": "y"})
    calve("run", "--once", "--pipeline", "orders")
    calve("dead-letter", "replay", "--pipeline", "orders", "--reason", "out_of_range", "--yes")

    # A batch whose letters are committed and whose rows are not.
    write("cut_in", "a", {"id": 1, "amount": 1})
    calve("run", "--once", "--pipeline", "cut")
    write("cut_in", "b", {"id": 2, "amount": 2}, {"id": "x"}, {"id": "y"})
    calve("run", "--once", "--pipeline", "cut", killed_at=("commit.before", 2))

    # Deletes that are remembered, the last one without its delete in the table of rows.
    write("accounts_in", "a", *({"op": "c", "id": one, "version": 1, "name": "a"} for one in (1, 2, 3)))
    calve("run", "--once", "--pipeline", "accounts")
    write(
        "accounts_in",
        "b",
        {"op": "u", "id": 1, "version": 2, "name": "b"},
        {"op": "d", "id": 2, "version": 5},
    )
    calve("run", "--once", "--pipeline", "accounts")
    write(
        "accounts_in",
        "c",
        {"op": "d", "id": 3, "version": 7},
        {"op": "c", "id": 4, "version": 1, "name": "c"},
    )
    calve("run", "--once", "--pipeline", "accounts", killed_at=("commit.before", 2))

    # A batch that one of two tables has.
    write("routed_in", "a", {"id": 1, "region": "eu"}, {"id": 2, "region": "us"})
    calve("run", "--once", "--pipeline", "routed")
    write("routed_in", "b", {"id": 3, "region": "eu"}, {"id": 4, "region": "us"})
    calve("run", "--once", "--pipeline", "routed", killed_at=("commit.before", 2))

    with tarfile.open(ARCHIVE, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.add(PLACE, arcname=".", filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """What is kept of the folder, without who made it."""
    if "/.calve" in member.name or member.name.endswith((".crc", "-journal")):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
