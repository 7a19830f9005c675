"""Fixtures of the faulty parts' own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testing.upstream import Upstream


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()
