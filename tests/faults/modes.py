"""The ways in which a pipeline commits, each over the same three batches, and the rows that they leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calve.project import ResolvedPipeline
from calve.sink.declaration import IcebergSink
from calve.sources.files import FilesSource
from tests.faults.others import Row
from tests.lake import Lake

COLUMNS = "id BIGINT NOT NULL, part INT, amount INT"
BATCHES: tuple[list[tuple[int, int, int]], ...] = (
    [(1, 1, 10), (2, 0, 20)],
    [(2, 0, 21), (3, 1, 30)],
    [(4, 0, 40)],
)
BAD = '{"id": "none"}'


def appended(rows: list[Row], batch: int) -> list[Row]:
    return [*rows, *((number, amount) for number, _, amount in BATCHES[batch])]


def upserted(rows: list[Row], batch: int) -> list[Row]:
    new = {number for number, _, _ in BATCHES[batch]}
    return appended([one for one in rows if one[0] not in new], batch)


PARTS = {number: part for batch in BATCHES for number, part, _ in batch}


def ordered(rows: list[Row], batch: int) -> list[Row]:
    """The same by the order of `amount`: what is older than the table's row is passed over."""
    known = {number: amount for number, amount in rows if amount is not None}
    late = {number for number, _, amount in BATCHES[batch] if amount < known.get(number, amount)}
    kept = {one for one in rows if one[0] in late}
    return [one for one in upserted(rows, batch) if one[0] not in late] + sorted(kept)


def overwritten(rows: list[Row], batch: int) -> list[Row]:
    new = {part for _, part, _ in BATCHES[batch]}
    return appended([one for one in rows if PARTS.get(one[0]) not in new], batch)


@dataclass(frozen=True)
class Mode:
    """One way to commit."""

    name: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    after: Callable[[list[Row], int], list[Row]] = appended
    says_columns: bool = True
    is_ahead: bool = False
    """Whether a batch is begun while the one before it is committed; otherwise one comes after the other."""
    has_letters: bool = False
    tables: tuple[str, ...] = ("t",)

    def __str__(self) -> str:
        return self.name

    @property
    def told(self) -> str:
        """The table that others change."""
        return "t__dead_letter" if self.has_letters else self.tables[0]

    def put(self, folder: Path) -> None:
        """The files of the three batches."""
        folder.mkdir()
        for number, batch in enumerate(BATCHES):
            more = {"extra": number} if not self.says_columns and number else {}
            names = ("id", "part", "amount")
            lines = [json.dumps({**dict(zip(names, row, strict=True)), **more}) for row in batch]
            if self.has_letters:
                lines.append(BAD)
            (folder / f"{number}.json").write_text("\n".join(lines) + "\n")

    def pipeline(self, lake: Lake, namespace: str, folder: Path) -> ResolvedPipeline:
        files = {"path": str(folder), "max_files_per_batch": 1}
        files |= {"schema": COLUMNS} if self.says_columns else {"format": "json"}
        place = {"catalog": lake.declaration, "namespace": namespace, "table": "t", "batch_size": 1}
        own = {} if self.has_letters else {"dead_letter": "off"}
        sink = IcebergSink.model_validate({**place, **own, "retry_for": "20s", **self.keys})
        return ResolvedPipeline("t", FilesSource.model_validate(files), sink, (), "t", True)


UPSERT = {"commit_mode": "upsert", "key_fields": ["id"]}
OVERWRITE = {"commit_mode": "overwrite", "partition_by": ["part"]}
MODES = (
    Mode("append by workers"),
    Mode("append by Spark", {"sort_by": ["id"]}),
    Mode("upsert", UPSERT, upserted),
    Mode("upsert in format 3", {**UPSERT, "format_version": 3}, upserted),
    Mode("upsert by order", {**UPSERT, "order_by": "amount"}, ordered),
    Mode("upsert with equality deletes", {**UPSERT, "deletes": "equality"}, upserted),
    Mode("overwrite", OVERWRITE, overwritten),
    Mode("evolve", says_columns=False),
    Mode("routed", {"table": "t_{part}"}, tables=("t_0", "t_1")),
    Mode("letters", has_letters=True),
)
AHEAD = (
    Mode("append ahead", is_ahead=True),
    Mode("upsert ahead", UPSERT, upserted, is_ahead=True),
    Mode("overwrite ahead", OVERWRITE, overwritten, is_ahead=True),
)
