"""Other engines read through the REST catalog what Calve wrote, now and as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from calve.sources.datagen import DatagenSource
from tests.catalogs.lab import Lab, opened
from tests.catalogs.places import PLACES
from tests.catalogs.readers import DuckDb, Polars, PyIceberg, Reader, Trino
from tests.faults.kinds import APPEND, BATCH, KINDS, Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.park import Park

pytestmark = pytest.mark.spark

BATCHES = 3
_, VECTORS, EQUALITY, _ = KINDS
CANNOT = {
    (PyIceberg, EQUALITY.name): "PyIceberg reads no equality deletes",
    (Polars, EQUALITY.name): "Polars reads no equality deletes",
    (Trino, VECTORS.name): "Trino 476 reads no deletion vectors",
}


class Written:
    """Tables behind a REST catalog on S3, one for each way to write, written when first asked for."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._known: dict[str, tuple[str, list[int]]] = {}

    def __getitem__(self, kind: Kind) -> tuple[str, list[int]]:
        """The namespace of the table `t`, and the snapshots of its batches."""
        if kind.name not in self._known:
            sink = self.lab.sink(batch_size=1, max_batch_size=BATCH, **kind.keys)
            self.lab.run(sink, DatagenSource(rows=BATCHES * BATCH), kind.transforms())
            commits = self.lab.table(sink).metadata().snapshots()[1:]
            self._known[kind.name] = sink.namespace, [one.id for one in commits]
        return self._known[kind.name]


@pytest.fixture(scope="module")
def written(park: Park, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    place = next(one for one in PLACES if one.needs == ("rest_on_s3",))
    keys = place.declared(park, tmp_path_factory.mktemp("place"))
    return Written(Lab(place, keys, spark, opened(spark, keys)))


ENGINES = [
    PyIceberg,
    Polars,
    DuckDb,
    # Half a gigabyte to fetch, and half a minute to start.
    pytest.param(Trino, marks=pytest.mark.full),
]


@pytest.fixture(scope="module")
def reader(request: pytest.FixtureRequest, park: Park) -> Any:
    return request.param(park)


@pytest.mark.parametrize("reader", ENGINES, indirect=True, ids=lambda engine: engine.__name__)
@pytest.mark.parametrize("kind", [APPEND, *KINDS], ids=lambda kind: kind.name)
def test_it_reads_what_was_written_and_what_each_commit_left(
    written: Written, reader: Reader, kind: Kind, request: pytest.FixtureRequest
) -> None:
    reason = CANNOT.get((type(reader), kind.name))
    if reason:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    namespace, commits = written[kind]
    assert len(commits) == BATCHES
    for number, snapshot in enumerate([*commits, None], 1):
        rows = kind.expected(min(number, BATCHES) * BATCH)
        expected = [row if isinstance(row, tuple) else (row,) for row in rows]
        assert reader.rows(namespace, kind.columns, snapshot) == expected
