"""Tables that programs open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import calve
from tests.lake import Lake


def append(lake: Lake, name: str, ids: Sequence[int]) -> None:
    """Add rows as any engine would."""
    lake.rows(ids).writeTo(f"`{lake.catalog.name}`.{name}").append()


@pytest.fixture
def orders(lake: Lake) -> Any:
    """A table that two snapshots gave three rows."""
    table = calve.open_catalog(lake.declaration, spark=lake.spark).create_table(
        "shop.orders", "id BIGINT NOT NULL, name STRING"
    )
    append(lake, "shop.orders", [1, 2])
    append(lake, "shop.orders", [3])
    return table


@pytest.fixture
def sink(lake: Lake) -> Callable[..., Any]:
    """A program's sink; each call is another life of it."""

    def make(**keys: Any) -> Any:
        place = {"catalog": lake.declaration, "namespace": "shop", "table": "t", "sink_id": "loader"}
        return calve.IcebergSink(**{**place, **keys})

    return make
