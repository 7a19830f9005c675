"""Files of a table, told to Java as JSON: a file takes two calls, and not one for each thing said of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from calve.iceberg import java
from calve.iceberg.parquet import Written

DATA, POSITIONS, EQUALITY = "data", "position-deletes", "equality-deletes"
_PARSER = java.Statics("org.apache.iceberg.ContentFileParser")


def about(file: Any, spec: Any) -> dict[str, Any]:
    """All that Java knows of a file."""
    told: dict[str, Any] = json.loads(_PARSER.toJson(file, spec))
    return told


def described(file: Written, content: str = DATA, spec_id: int = 0) -> dict[str, Any]:
    """What is said of a file that Arrow wrote."""
    return {
        "spec-id": spec_id,
        "content": content,
        "file-path": file.location,
        "file-format": "parquet",
        "partition": file.partition,
        "file-size-in-bytes": file.bytes,
        "record-count": file.rows,
        **({"split-offsets": file.splits} if file.splits else {}),
        **file.metrics,
    }


def files(told: Iterable[Mapping[str, Any]], specs: Any) -> tuple[Any, ...]:
    """Files as Java has them, of what is said of each."""
    listed = java.json_node(list(told))
    return tuple(_PARSER.fromJson(listed.get(index), specs) for index in range(listed.size()))
