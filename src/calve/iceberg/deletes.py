"""Delete files: position deletes, deletion vectors and equality deletes, written but not committed."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calve import gateway
from calve.iceberg import arrow, content, durable, java
from calve.iceberg.failures import translated
from calve.iceberg.lookup import Hits, Keys
from calve.iceberg.name import quoted
from calve.iceberg.parquet import Written
from calve.iceberg.stage import stage
from calve.iceberg.table import Metadata, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES = java.Statics("org.apache.iceberg.FileMetadata")
_IN_MEMORY = "memory:positions"
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
"""The field ids that Iceberg reserves for the columns of position deletes."""


@dataclass(frozen=True)
class Deletes:
    """Delete files that a commit adds, and those that they replace."""

    added: tuple[Any, ...] = ()
    removed: tuple[Any, ...] = ()
    rows: int = 0


NONE = Deletes()


def position_deletes(table: Table, hits: Sequence[Hits]) -> Deletes:
    """Position delete files for format 2, one for each data file, instead of those about that file alone."""
    with translated(f"write delete files of table '{table.name}'"):
        specs = table.java.specs()
        written = [_position_delete(table, specs, hit) for hit in hits]
        durable.flush(str(one["file-path"]) for one in written)
        added = content.files(written, specs)
    removed = tuple(old for hit in hits if hit.deleted is not None for old in hit.deletes if _is_of(old, hit))
    return Deletes(added, removed, sum(len(hit.positions) for hit in hits))


def _position_delete(table: Table, specs: Any, hit: Hits) -> dict[str, Any]:
    """Write a delete file; what is said of it."""
    gone = hit.gone()
    held = _parquet(hit.path, gone)
    spec = specs.get(hit.file.specId())
    about = content.about(hit.file, spec)
    partition = hit.file.partition() if about["partition"] else None
    location = arrow.new_location(table, spec, partition, f"{uuid.uuid4()}-deletes.parquet")
    arrow.put(table, location, held)
    # Bounds of the path, from which readers know that a delete file is about one data file.
    bounds = {"keys": [_PATH_ID], "values": [hit.path.encode().hex().upper()]}
    metrics = {"lower-bounds": bounds, "upper-bounds": bounds}
    told = Written(location, about["partition"], len(gone), len(held), metrics=metrics)
    return {
        **content.described(told, content.POSITIONS, about["spec-id"]),
        "referenced-data-file": hit.path,
    }


def _parquet(path: str, positions: Any) -> bytearray:
    """A file that says of each of `positions` that it is in the file at `path`."""
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.parquet as pq

    compute: Any = pyarrow.compute
    make: Any = pa.field
    # The path is written once and not for every row.
    paths = pa.DictionaryArray.from_arrays(_zeros(len(positions)), pa.array([path]))
    schema = pa.schema(
        [
            make("file_path", paths.type, False, {"PARQUET:field_id": str(_PATH_ID)}),
            make("pos", pa.int64(), False, {"PARQUET:field_id": str(_POSITION_ID)}),
        ]
    )
    ordered = compute.take(positions, compute.sort_indices(positions))
    out = io.BytesIO()
    rows = pa.Table.from_arrays([paths, ordered], schema=schema)
    pq.write_table(rows, out, compression="zstd", store_schema=False)
    return bytearray(out.getvalue())


def _zeros(count: int) -> Any:
    import pyarrow as pa

    return pa.nulls(count, pa.int32()).fill_null(0)


def deletion_vectors(table: Table, hits: Sequence[Hits]) -> Deletes:
    """Deletion vectors in one Puffin file, each merged with what its data file had, for format 3."""
    iceberg = gateway.jvm().org.apache.iceberg
    with translated(f"write deletion vectors of table '{table.name}'"):
        factory = iceberg.io.OutputFileFactory.builderFor(table.java, 0, 0)
        files = factory.format(iceberg.FileFormat.PUFFIN).operationId(str(uuid.uuid4())).build()
        # What a data file had is merged by us, so that it is read once.
        writer = iceberg.deletes.BaseDVFileWriter(files, java.function(lambda path: None))
        rows = 0
        for hit in hits:
            index = _vector(table, hit)
            rows += len(hit.positions)
            writer.delete(hit.path, index, table.java.specs().get(hit.file.specId()), hit.file.partition())
        writer.close()
        added = tuple(java.each(writer.result().deleteFiles()))
        # All vectors of a batch are in one file.
        durable.flush({str(added[0].location())} if added else ())
    return Deletes(added, tuple(old for hit in hits for old in hit.deletes if _is_of(old, hit)), rows)


def _vector(table: Table, hit: Hits) -> Any:
    """All positions of the data file that are deleted: those found now, and those of the deletes it has."""
    iceberg = gateway.jvm().org.apache.iceberg
    gone = hit.gone()
    written = _parquet(hit.path, gone)
    held = iceberg.inmemory.InMemoryInputFile(hit.path, written)
    builder = _FILES.deleteFileBuilder(iceberg.PartitionSpec.unpartitioned()).ofPositionDeletes()
    builder = builder.withPath(_IN_MEMORY).withFormat("parquet").withFileSizeInBytes(len(written))
    found = builder.withRecordCount(len(gone)).withReferencedDataFile(hit.path).build()
    loader = iceberg.data.BaseDeleteLoader(java.function(lambda file: _input(table, file, held)))
    index = loader.loadPositionDeletes(java.object_list([found]), hit.path)
    for one in hit.deletes if hit.deleted is None else ():
        index.merge(loader.loadPositionDeletes(java.object_list([one]), hit.path))
    return index


def _input(table: Table, file: Any, held: Any) -> Any:
    location = file.location()
    return held if location == _IN_MEMORY else table.java.io().newInputFile(location)


def _is_of(deletes: Any, hit: Hits) -> bool:
    """Whether `deletes` is about this data file alone; what is about others as well must stay."""
    return bool(deletes.referencedDataFile() == hit.path)


def equality_deletes(spark: SparkSession, table: Table, keys: Keys, options: Mapping[str, str]) -> Deletes:
    """A file of the keys, which take every older row with such a key out of the table."""
    schema = table.java.operations().current().schema().select(java.string_array(keys.names))
    ids = [schema.findField(name).fieldId() for name in keys.names]
    told = _with_arrow(table, keys, schema) or _with_spark(spark, table, keys, schema, options)
    said = {"spec-id": unpartitioned(table).specId(), "content": content.EQUALITY, "equality-ids": ids}
    return Deletes(content.files([{**one, **said} for one in told], table.java.specs()), rows=keys.count)


def _with_arrow(table: Table, keys: Keys, schema: Any) -> list[dict[str, Any]] | None:
    """What is said of the files of keys, where Arrow can write them."""
    if keys.values is None:
        return None
    try:
        return [content.described(one) for one in arrow.write_keys(table, keys.values, schema)]
    except arrow.Unsupported:
        return None


def _with_spark(
    spark: SparkSession, table: Table, keys: Keys, schema: Any, options: Mapping[str, str]
) -> list[dict[str, Any]]:
    only = _keys_only(table, table.java.operations().current(), schema)
    frame = keys.in_spark(spark).select(*map(quoted, keys.names))
    written = stage(Table(table.name, only), frame, options)
    return [content.about(file, only.spec()) for file in written.files]


def _keys_only(table: Table, base: Any, schema: Any) -> Any:
    """A table in memory that has the key columns of `table`, with their field ids, and its store."""
    iceberg = gateway.jvm().org.apache.iceberg
    builder = iceberg.TableMetadata.buildFromEmpty(2).assignUUID().setLocation(base.location())
    builder = builder.setCurrentSchema(schema, base.lastColumnId())
    builder = builder.setDefaultPartitionSpec(iceberg.PartitionSpec.unpartitioned())
    builder = builder.setDefaultSortOrder(iceberg.SortOrder.unsorted()).setProperties(base.properties())
    operations = iceberg.StaticTableOperations(
        builder.discardChanges().build(), table.java.io(), table.java.locationProvider()
    )
    return iceberg.BaseTable(operations, "keys")


def unpartitioned(table: Table) -> Any:
    """The table's spec without fields, which makes a delete file one for all partitions; added if missing."""
    if (known := _without_fields(table)) is not None:
        return known
    # An update of a spec is made for the version that was read last; another writer may have gone on.
    table.refresh()
    if _without_fields(table) is None:
        with translated(f"add a spec to table '{table.name}'"):
            transaction = table.java.newTransaction()
            base = Metadata(transaction.startMetadata())
            update = transaction.updateSpec()
            for field in java.each(base.java.spec().fields()):
                update = update.removeField(field.name())
            update.addNonDefaultSpec().commit()
            table.commit(base, transaction.currentMetadata())
            table.refresh()
    return _without_fields(table)


def _without_fields(table: Table) -> Any:
    return next((spec for spec in _specs(table) if spec.isUnpartitioned()), None)


def _specs(table: Table) -> Iterable[Any]:
    return java.each(table.java.specs().values())
