"""Tables that others have written are read right: what they hold, and what each of their snapshots did."""

from __future__ import annotations

import uuid
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog as Client

from calve import gateway
from calve.iceberg import java
from calve.iceberg.changeset import changes_between
from calve.iceberg.lookup import known_at
from calve.iceberg.name import TableName
from calve.iceberg.travel import between
from calve.sources.iceberg import IcebergSource
from tests import duck
from tests.folding import collected, folded
from tests.lake import Lake

COLUMNS = "id INT, region STRING, amount INT"
ARROW = pa.schema([("id", pa.int32()), ("region", pa.string()), ("amount", pa.int32())])

Row = tuple[Any, ...]


@pytest.fixture
def rest(spark, rest_catalog) -> Lake:
    return Lake.rest(spark, rest_catalog.uri)


@pytest.fixture
def name(rest) -> TableName:
    found = rest.name("t", f"others_{uuid.uuid4().hex[:8]}")
    rest.catalog.create_namespace(found.namespace)
    return found


def check(lake: Lake, name: TableName, expected: Sequence[Row]) -> None:
    """The source reads `expected`, and the changes of all snapshots, one after the other, lead there."""
    gateway.activate(lake.spark)
    source = IcebergSource.model_validate(
        {"catalog": lake.declaration, "namespace": ".".join(name.namespace), "table": name.table}
    )
    source.identity()
    begin = source.start()
    read = source.read(lake.spark, begin, {"snapshot": begin["snapshot"]})
    assert Counter(tuple(row) for row in read.collect()) == Counter(expected)
    table = lake.catalog.load(name)
    history = table.metadata().history(str(name))
    found, rows = collected(changes_between(lake.spark, table, None)), Counter()
    for one in between(history, None, begin["snapshot"]):
        rows = folded(rows, [(values, kind) for values, kind, _, at in found if at == one.id])
        state = known_at(lake.spark, table, one.id)
        assert rows == Counter(tuple(row) for row in state.collect()), one.operation
    assert rows == Counter(expected)


def arrow(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in rows], schema=ARROW)


@pytest.mark.rest
def test_a_table_of_pyiceberg(rest, rest_catalog, name):
    client = Client("rest", uri=rest_catalog.uri)
    table = client.create_table(f"{name.namespace[0]}.t", ARROW)
    with table.update_spec() as spec:
        spec.add_identity("region")
    with warnings.catch_warnings():
        # It says that it rewrites files where others would write deletes.
        warnings.simplefilter("ignore")
        table.append(arrow((1, "eu", 10), (2, "us", 20), (3, None, 30), (3, None, 30)))
        table.upsert(arrow((1, "eu", 11), (4, "us", 40)), join_cols=["id"])
        table.delete("id = 2")
        table.dynamic_partition_overwrite(arrow((5, "eu", 50), (1, "eu", 11)))
        table.overwrite(arrow((6, "asia", 60)), overwrite_filter="region = 'us'")
    check(
        rest,
        name,
        [(3, None, 30), (3, None, 30), (5, "eu", 50), (1, "eu", 11), (6, "asia", 60)],
    )


@pytest.mark.rest
def test_a_table_of_duckdb(rest, rest_catalog, name):
    connection = duck.connect()
    connection.execute(
        f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{rest_catalog.uri}', AUTHORIZATION_TYPE 'none')"
    )
    place = f"lake.{name.namespace[0]}.t"
    for statement in (
        f"CREATE TABLE {place} ({COLUMNS})",
        f"INSERT INTO {place} VALUES (1, 'eu', 10), (2, 'us', 20), (3, NULL, 30), (4, 'us', 40)",
        f"UPDATE {place} SET amount = amount + 1 WHERE id < 3",
        f"DELETE FROM {place} WHERE id = 4",
        f"INSERT INTO {place} VALUES (5, 'asia', 50)",
        f"DELETE FROM {place} WHERE id = 1",
    ):
        connection.execute(statement)
    expected = [(2, "us", 21), (3, None, 30), (5, "asia", 50)]
    assert sorted(connection.execute(f"SELECT * FROM {place}").fetchall()) == expected
    check(rest, name, expected)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_table_of_spark(lake, version, mode):
    name = lake.name()
    lake.catalog.create_namespace(name.namespace)
    modes = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("delete", "update", "merge"))
    for statement in (
        f"CREATE TABLE {name.sql()} ({COLUMNS}) USING iceberg PARTITIONED BY (region) "
        f"TBLPROPERTIES ('format-version' = '{version}', {modes})",
        f"INSERT INTO {name.sql()} VALUES (1, 'eu', 10), (2, 'us', 20), (3, NULL, 30), (4, 'us', 40)",
        f"UPDATE {name.sql()} SET amount = amount + 1 WHERE id < 3",
        f"DELETE FROM {name.sql()} WHERE id = 4",
        f"MERGE INTO {name.sql()} t USING (SELECT 1 AS id UNION ALL SELECT 5 AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, region, amount) VALUES (s.id, 'asia', 50)",
        f"INSERT OVERWRITE {name.sql()} PARTITION (region = 'eu') SELECT 6, 60",
    ):
        lake.spark.sql(statement).collect()
    check(lake, name, [(2, "us", 21), (3, None, 30), (5, "asia", 50), (6, "eu", 60)])


class Deltas:
    """Commits as Flink's are: equality deletes in the partitions of the rows, and position deletes of rows
    that the same commit wrote."""

    def __init__(self, lake: Lake, name: TableName, keys: Sequence[str]) -> None:
        self.lake, self.name, self.keys = lake, name, keys

    def commit(self, written: Sequence[Row], gone: Sequence[Row] = (), again: Sequence[int] = ()) -> None:
        """Write `written`, delete what has the keys of `gone` before, and of `written` those at `again`."""
        table = self.lake.catalog.load(self.name).java
        delta = table.newRowDelta()
        for region in dict.fromkeys(row[1] for row in (*written, *gone)):
            writers = self.writers(table, region)
            data = writers("newDataWriter")
            places = {index: place for place, index in enumerate(self.of(region, written))}
            for index in places:
                data.write(self.record(table.schema(), written[index]))
            data.close()
            if places:
                delta.addRows(data.toDataFile())
            delta.addDeletes(self.equality(table, writers, [row for row in gone if row[1] == region]))
            positions = [places[index] for index in again if index in places]
            if positions:
                delta.addDeletes(self.positions(writers, data.toDataFile().location(), positions))
        delta.commit()

    def of(self, region: str, rows: Sequence[Row]) -> list[int]:
        return [index for index, row in enumerate(rows) if row[1] == region]

    def writers(self, table: Any, region: str) -> Any:
        """Makes writers of one partition."""
        formats = java.Statics("org.apache.iceberg.FileFormat")
        parquet = formats.fromString("parquet")
        keys = table.schema().select(java.string_array(self.keys))
        ids = [keys.findField(key).fieldId() for key in self.keys]
        factory = java.new("org.apache.iceberg.data.GenericFileWriterFactory$Builder", table)
        factory = factory.dataFileFormat(parquet).deleteFileFormat(parquet)
        factory = factory.equalityFieldIds(java.int_array(ids)).equalityDeleteRowSchema(keys).build()
        partition = java.new("org.apache.iceberg.PartitionKey", table.spec(), table.schema())
        partition.partition(self.record(table.schema(), (0, region)))
        files = java.Statics("org.apache.iceberg.io.OutputFileFactory").builderFor(table, 1, 1)
        files = files.format(parquet).build()
        return lambda kind: getattr(factory, kind)(
            files.newOutputFile(table.spec(), partition), table.spec(), partition
        )

    def equality(self, table: Any, writers: Any, rows: Sequence[Row]) -> Any:
        writer = writers("newEqualityDeleteWriter")
        names = [field.name() for field in java.each(table.schema().columns())]
        keys = table.schema().select(java.string_array(self.keys))
        for row in rows:
            values = dict(zip(names, row, strict=False))
            writer.write(self.record(keys, [values[key] for key in self.keys]))
        writer.close()
        return writer.toDeleteFile()

    def positions(self, writers: Any, location: str, positions: Sequence[int]) -> Any:
        writer = writers("newPositionDeleteWriter")
        for position in positions:
            one = java.Statics("org.apache.iceberg.deletes.PositionDelete").create()
            writer.write(one.set(location, position))
        writer.close()
        return writer.toDeleteFile()

    def record(self, schema: Any, values: Sequence[Any]) -> Any:
        record = java.Statics("org.apache.iceberg.data.GenericRecord").create(schema)
        for index, value in enumerate(values):
            record.set(index, value)
        return record


def test_a_table_with_equality_deletes_of_partitions(lake):
    name = lake.name()
    lake.catalog.create_namespace(name.namespace)
    lake.spark.sql(
        f"CREATE TABLE {name.sql()} ({COLUMNS}, code STRING) USING iceberg PARTITIONED BY (region) "
        "TBLPROPERTIES ('format-version' = '2')"
    )
    by_id = Deltas(lake, name, ["id", "region"])
    first = [
        (1, "eu", 10, "a"),
        (2, "us", 20, "b"),
        (3, "eu", 30, "c"),
        (4, "us", 40, "d"),
        (1, "us", 0, "e"),
    ]
    by_id.commit(first, first)
    second = [(1, "eu", 11, "a"), (2, "us", 21, "b"), (2, "us", 22, "b")]
    by_id.commit(second, [*second, (3, "eu")], again=[1])
    Deltas(lake, name, ["code"]).commit([], [(0, "us", 0, "d")])
    check(lake, name, [(1, "eu", 11, "a"), (2, "us", 22, "b"), (1, "us", 0, "e")])
    # What deletes look at may be gone from the table.
    lake.spark.sql(f"ALTER TABLE {name.sql()} DROP COLUMN code")
    lake.spark.sql(f"INSERT INTO {name.sql()} VALUES (7, 'eu', 70)")
    check(lake, name, [(1, "eu", 11), (2, "us", 22), (1, "us", 0), (7, "eu", 70)])
