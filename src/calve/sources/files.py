"""Files of a folder as a source."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from pydantic import PrivateAttr

from calve import changes
from calve.gateway import translated
from calve.position import Position
from calve.schema import Schema
from calve.sources import columnar, files_position
from calve.sources.files_keys import FilesKeys
from calve.sources.files_position import START, File, Known, Listing
from calve.sources.folder import Folder
from calve.sources.operation import loose
from calve.sources.source import Limits, Waiting, refuse_clashes, with_changes
from calve.sources.written_schema import WrittenSchema

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

    from calve.decode.bad import Catch
    from calve.decode.changes import RowChanges
    from calve.decode.decoder import Decoder
    from calve.decode.reading import Split
    from calve.decode.undecoded import Undecoded

log = logging.getLogger(__name__)

COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd", ".lz4": "lz4", ".xz": "xz"}
SPLIT = 64 * 1024 * 1024
_SMALL = 4 * 1024 * 1024
_BYTES_OF_A_ROW = {"json": 120, "csv": 60, "text": 80, "parquet": 20, "avro": 40}


class FilesSource(FilesKeys):
    """Files of a folder; each is read once, in the order of their times."""

    connector: ClassVar[str] = "files"
    workers_import: ClassVar[tuple[str, ...]] = ("calve.decode.reading", "calve.iceberg.parquet")

    _reported: set[tuple[str, int]] = PrivateAttr(default_factory=set)
    _read: set[bytes] | None = PrivateAttr(default=None)

    def identity(self) -> str:
        return f"files:{self._where()}:{self.format}"

    def start(self) -> Position:
        self._folder().require()
        return START

    def latest(self, after: Position, limits: Limits) -> Waiting:
        have = files_position.known(after)
        found = files_position.sort(self._folder().files(), have, self.max_file_age)
        self._report(found, have)
        taken = self._taken(found.new, limits)
        if not taken:
            return Waiting(after, 0)
        size = sum(file.size for file in taken)
        to = files_position.moved(have, taken, self.max_file_age, time.time_ns() // 1_000_000)
        rows = sum(map(self._rows, taken))
        return Waiting(to, rows, size, more=len(taken) < len(found.new))

    def _taken(self, new: list[File], limits: Limits) -> list[File]:
        """The oldest files that fit the limits, and at least one."""
        taken: list[File] = []
        rows = 0
        for file in new[: self.max_files_per_batch]:
            rows += self._rows(file)
            if taken and rows > limits.rows:
                break
            taken.append(file)
        return taken

    def _rows(self, file: File) -> int:
        """How many rows a file has, about; Parquet tells."""
        told = _told_rows(self._folder().base, file) if self.format == "parquet" else None
        return max(1, file.size // _BYTES_OF_A_ROW[self.format] if told is None else told)

    def _report(self, found: Listing, have: Known) -> None:
        """Say once of each file that it is not read, and why."""
        for file in found.changed:
            self._warn(file, "was changed after it was read; it is not read again")
        if self._read is None:
            self._report_first(found.late, have)
        self._read = (self._read or set()) | have.entries.keys()
        for file in found.late:
            if file.key not in self._read:
                self._warn(file, "turned up later than max_file_age allows; it is not read")

    def _report_first(self, late: list[File], have: Known) -> None:
        """At a start nobody knows any more which of the old files were read, only how many."""
        if len(late) > have.forgotten:
            count = len(late) - have.forgotten
            log.warning("%d files turned up later than max_file_age allows; they are not read", count)
        self._read = {file.key for file in late}

    def _warn(self, file: File, what: str) -> None:
        if (file.path, file.mtime) not in self._reported:
            self._reported.add((file.path, file.mtime))
            log.warning("file '%s' %s", file.path, what)

    def is_inside(self, after: Position, to: Position, place: Expression) -> Expression:
        from pyspark.sql import functions as f

        base = self._folder().base
        read = [os.path.join(base, file.path) for file in files_position.batch(to)] if to != after else []
        return f.get_json_object(place, "$.file").isin(read)

    def _folder(self) -> Folder:
        options = self.options
        suffixes = tuple(options.ignore_suffixes)
        return Folder(self._where(), suffixes, options.min_file_age, options.follow_symlinks)

    def _where(self) -> str:
        path = self.path.removeprefix("file:")
        return "/" + path.lstrip("/") if path != self.path else path

    @property
    def carries_changes(self) -> bool:
        return self.operation is not None

    def read(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        if self.infers:
            return self._of_batch(spark, after, to).read(spark, after, to)
        if self.carries_changes:
            return self.read_changes(spark, after, to).drop(*changes.NAMES)
        files = self._files(after, to)
        with translated(f"read files of '{self._where()}'"):
            if self.format in ("parquet", "avro"):
                return self._read_columnar(spark, files)
            return self._read_lines(spark, files, self._line_columns(), None)

    @property
    def catches(self) -> bool:
        return self.format in ("json", "csv", "text")

    def read_good(
        self, spark: SparkSession, after: Position, to: Position, bad: Catch, *, as_changes: bool
    ) -> DataFrame:
        if self.infers:
            made = self._of_good(spark, after, to, bad)
            return made.read_good(spark, after, to, bad, as_changes=as_changes)
        columns, changes = self._made(as_changes)
        with translated(f"read files of '{self._where()}'"):
            return self._read_lines(spark, self._files(after, to), columns, changes, bad)

    @property
    def decodes(self) -> bool:
        return True

    def undecoded(
        self, spark: SparkSession, after: Position, to: Position, bad: Catch | None, *, as_changes: bool
    ) -> Undecoded | None:
        if to == after:
            return None
        if self.format in ("parquet", "avro"):
            with translated(f"read files of '{self._where()}'"):
                return self._columnar(spark, self._files(after, to), as_changes)
        if self.infers:
            made = self._of_good(spark, after, to, bad) if bad else self._of_batch(spark, after, to)
            return made.undecoded(spark, after, to, bad, as_changes=as_changes)
        columns, changes = self._made(as_changes)
        with translated(f"read files of '{self._where()}'"):
            return self._lines(spark, self._files(after, to), columns, changes, bad)

    def read_bad(
        self, spark: SparkSession, after: Position, to: Position, bad: Catch, *, as_changes: bool
    ) -> DataFrame:
        from calve.decode.bad import RECORD, Catch

        if self.infers:
            made = self._of_bad(spark, after, to, bad)
            return made.read_bad(spark, after, to, bad, as_changes=as_changes)
        _, changes = self._made(as_changes)
        only = Catch(bad.sieve.only_letters())
        with translated(f"read files of '{self._where()}'"):
            return self._read_lines(spark, self._files(after, to), RECORD, changes, only)

    def read_again(
        self, spark: SparkSession, letters: DataFrame, bad: Catch, *, as_changes: bool
    ) -> DataFrame:
        from pyspark.sql.types import StructType

        from calve.decode.reading import letter_rows

        if self.infers:
            return self._of_letters(letters, bad).read_again(spark, letters, bad, as_changes=as_changes)
        columns, changes = self._made(as_changes)
        types = StructType.fromJson(columns.to_spark_json())
        return letters.mapInArrow(letter_rows(self._decoder(), changes, bad.sieve), types)

    def _made(self, as_changes: bool) -> tuple[Schema, RowChanges | None]:
        if not as_changes:
            return self._line_columns(), None
        return with_changes(self._line_columns(), carried=self.carries_changes), self._row_changes()

    def read_changes(self, spark: SparkSession, after: Position, to: Position) -> DataFrame:
        if self.infers:
            return self._of_batch(spark, after, to).read_changes(spark, after, to)
        files = self._files(after, to)
        with translated(f"read files of '{self._where()}'"):
            if self.format in ("parquet", "avro"):
                return self._read_columnar_changes(spark, files)
            columns = with_changes(self._line_columns(), carried=self.carries_changes)
            return self._read_lines(spark, files, columns, self._row_changes())

    @property
    def infers(self) -> bool:
        return self.schema_ is None and self.format in ("json", "csv")

    def _told(self) -> str:
        return f"files of '{self._where()}'"

    def _is_text(self) -> bool:
        return self.format == "csv"

    def _columns_in(self, spark: SparkSession, after: Position, to: Position) -> Schema:
        from calve.decode.infer import TYPES, file_types, of_parts
        from calve.decode.reading import Layout

        tasks = self._tasks(spark, self._files(after, to))
        layout = Layout(self.options.header, self.options.multi_line)
        numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
        with translated(f"read files of '{self._where()}'"):
            told = numbers.mapInArrow(file_types(self._decoder(), tasks, layout), TYPES).collect()
        return of_parts(told, is_csv=self.format == "csv")

    def _columns_of(self, letters: DataFrame) -> Schema:
        from calve.decode.infer import TYPES, letter_types, of_parts

        told = letters.select("key", "value").mapInArrow(letter_types(self._decoder()), TYPES)
        with translated("read dead letters"):
            return of_parts(told.collect(), is_csv=self.format == "csv")

    def _tasks(self, spark: SparkSession, files: list[File]) -> list[list[Split]]:
        cores = spark.sparkContext.defaultParallelism
        # A few files that are not large give every core something to do.
        step = min(SPLIT, max(_SMALL, -(-sum(file.size for file in files) // cores)))
        splits = [split for number, file in enumerate(files) for split in self._splits(file, number, step)]
        return _shared(splits, cores) if splits else []

    def _files(self, after: Position, to: Position) -> list[File]:
        return [] if to == after else self._folder().unchanged(files_position.batch(to))

    def _line_columns(self) -> Schema:
        columns = self.columns()
        assert columns is not None
        return columns

    def _row_changes(self) -> RowChanges:
        from calve.decode.changes import RowChanges

        if self.operation is None:
            return RowChanges()
        required = [column.name for column in self._line_columns().columns if not column.nullable]
        return RowChanges(self.operation.field, self.operation.codes(), required)

    def _read_lines(
        self,
        spark: SparkSession,
        files: list[File],
        columns: Schema,
        changes: RowChanges | None,
        bad: Catch | None = None,
    ) -> DataFrame:
        from pyspark.sql.types import StructType

        there = self._lines(spark, files, columns, changes, bad)
        if there is not None:
            return there.rows()
        return spark.createDataFrame([], StructType.fromJson(columns.to_spark_json()))

    def _lines(
        self,
        spark: SparkSession,
        files: list[File],
        columns: Schema,
        changes: RowChanges | None,
        bad: Catch | None,
    ) -> Undecoded | None:
        from calve.decode.reading import Layout, file_rows
        from calve.decode.undecoded import Undecoded

        if not files:
            return None
        tasks = self._tasks(spark, files)
        layout = Layout(self.options.header, self.options.multi_line)
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        if bad is not None:
            bad.expected = lambda: sum(map(len, tasks))
        sieve = bad.sieve if bad else None
        return Undecoded(numbers, file_rows(self._decoder(), tasks, layout, changes, sieve), columns)

    def _columnar(self, spark: SparkSession, files: list[File], as_changes: bool) -> Undecoded | None:
        """Parquet and Avro files for Python workers; None where Spark has to read one, or there is none."""
        from calve.decode import avro_files, parquet
        from calve.decode.undecoded import Undecoded

        columns = self._file_columns(files)
        if columns is None:
            return None
        tasks = self._tasks(spark, files)
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        changes = self._row_changes() if as_changes else None
        read = columns if self.operation is None else loose(columns)
        if self.format == "avro":
            work = avro_files.avro_rows(tasks, read, changes, self._avro_schema())
        else:
            work = parquet.parquet_rows(tasks, read, changes)
        left = columns if self.operation is None else self.operation.left(columns)
        made = with_changes(left, carried=self.carries_changes) if as_changes else columns
        return Undecoded(numbers, work, made)

    def _file_columns(self, files: list[File]) -> Schema | None:
        """The columns of Parquet and Avro files; None where Spark has to read one, or there is none."""
        from calve.decode import avro_files, parquet

        paths = [file.path for file in files]
        if not paths:
            return None
        if self.format == "avro":
            return avro_files.columns_of(avro_files.headers(paths), self.declared, self._avro_schema())
        footers = parquet.footers(paths)
        columns = parquet.columns_of(footers, self.declared)
        return None if any(footer.is_old for footer in footers) else columns

    def _avro_schema(self) -> str | None:
        """The Avro schema that the columns are declared by, whose defaults and aliases count."""
        written = self.schema_ if isinstance(self.schema_, WrittenSchema) else None
        return written.text() if written is not None and written.is_avro else None

    def _old_parquet(self, spark: SparkSession, files: list[File]) -> tuple[DataFrame, Schema]:
        """Parquet files with times of the old form, which Spark reads, and their columns."""
        from calve.decode import parquet

        paths = [file.path for file in files]
        columns = parquet.columns_of(parquet.footers(paths), self.declared)
        return columnar.loaded(spark, paths, columns), columns

    def _read_columnar(self, spark: SparkSession, files: list[File]) -> DataFrame:
        from pyspark.sql.types import StructType

        if not files:
            return spark.createDataFrame(
                [], StructType.fromJson((self.declared or Schema(())).to_spark_json())
            )
        rows = self._columnar(spark, files, as_changes=False)
        return rows.rows() if rows else columnar.rows(*self._old_parquet(spark, files))

    def _read_columnar_changes(self, spark: SparkSession, files: list[File]) -> DataFrame:
        from pyspark.sql.types import StructType

        if not files:
            columns = with_changes(self.columns() or Schema(()), carried=self.carries_changes)
            return spark.createDataFrame([], StructType.fromJson(columns.to_spark_json()))
        rows = self._columnar(spark, files, as_changes=True)
        if rows is not None:
            return rows.rows()
        found, columns = self._old_parquet(spark, files)
        refuse_clashes(columns)
        return columnar.read_changes(found, [file.path for file in files], columns, self.operation)

    def _splits(self, file: File, number: int = 0, step: int = SPLIT) -> Iterator[Split]:
        """The parts that can be read side by side: what is compressed or over several lines is one."""
        from calve.decode.reading import Split

        compression = self._compression(file.path)
        whole = compression is not None or self.options.multi_line or self.format == "avro"
        for start in range(0, 1 if whole else max(1, file.size), step):
            end = file.size if whole else min(file.size, start + step)
            yield Split(file.path, start, end, file.size, file.mtime, compression, number)

    def _compression(self, path: str) -> str | None:
        if self.options.compression == "auto":
            return COMPRESSIONS.get(os.path.splitext(path)[1].lower())
        return None if self.options.compression == "none" else self.options.compression

    def _decoder(self) -> Decoder:
        from calve.decode.csv import CsvDecoder
        from calve.decode.json import JsonDecoder
        from calve.decode.text import TextDecoder

        if self.format == "text":
            return TextDecoder()
        declared = self.declared or Schema(())
        schema = declared if self.operation is None else loose(declared)
        if self.format == "csv":
            is_inferred = self.schema_ is None or self._watch is not None
            return CsvDecoder(schema, self.options.dialect(), is_inferred=is_inferred)
        return JsonDecoder(schema, self._watch)

    def check(self) -> list[str]:
        self._folder().require()
        files = list(self._folder().files())
        return [f"'{self._where()}': {len(files)} files, {sum(file.size for file in files)} bytes"]


@lru_cache(maxsize=10_000)
def _told_rows(folder: str, file: File) -> int | None:
    """How many rows the footer of a Parquet file tells; None if it cannot be read, which reading will say."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(os.path.join(folder, file.path)).num_rows)
    except (OSError, pa.ArrowException):
        return None


def _shared(splits: list[Split], parallelism: int) -> list[list[Split]]:
    """The splits in about equal parts, the largest first."""
    size = sum(split.end - split.start for split in splits)
    count = 1 if size < _SMALL and len(splits) < 16 else max(parallelism, -(-size // SPLIT))
    tasks: list[list[Split]] = [[] for _ in range(min(count, len(splits)))]
    loads = [0] * len(tasks)
    for split in sorted(splits, key=lambda split: split.start - split.end):
        least = loads.index(min(loads))
        tasks[least].append(split)
        loads[least] += split.end - split.start + 1
    return tasks
