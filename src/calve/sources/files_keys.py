"""What a declaration says of files, and what is wrong with it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from calve.model import Duration, Flaw, Location, is_uri
from calve.schema import Column, Primitive, Schema
from calve.sources.csv_options import CsvFormat, nested_in_csv
from calve.sources.inferring import Inferring, OrInferred
from calve.sources.operation import Operation, operation_flaws
from calve.sources.written_schema import WrittenSchema

_OF_CSV = ("header", "delimiter", "quote", "escape", "null_value")
_OF_LINES = ("compression",)
_Compression = Literal["auto", "none", "gzip", "bzip2", "zstd", "lz4", "xz"]


class FilesOptions(CsvFormat):
    """How the files are written, and when they count."""

    header: bool = False
    """CSV: the first line of each file names its fields, and columns are found by these names."""

    multi_line: bool = False
    """JSON: a file holds an object, an array or objects over several lines. CSV: so do quoted fields."""

    compression: _Compression = "auto"
    """How files are compressed; `auto` goes by the ending .gz, .bz2, .zst, .lz4 or .xz."""

    min_file_age: Duration = 0.0
    """A file counts once it has not been written to for so long; for writers that do not rename when done."""

    ignore_suffixes: list[str] = [".tmp", ".part", ".partial", ".crdownload", ".swp", "._COPYING_", "~"]
    """Files whose names end so are still being written. Names that begin with '.' or '_' never count."""

    follow_symlinks: bool = False
    """Whether symbolic links below `path` are read. Whoever may write to the folder can then have any file
    read that Calve may read."""


class FilesKeys(Inferring):
    """The keys of the source, and the columns that they tell."""

    path: Location
    """A file, a directory with all below it, or a pattern such as `in/*.json`."""

    format: Literal["json", "csv", "parquet", "avro", "text"] = "json"
    """What the files hold: a JSON object a line, CSV, Parquet, Avro, or lines of text."""

    schema_: OrInferred = Field(default=None, alias="schema")
    """The columns, as DDL or in a file. Left out or `infer`: those that the records of a batch have (json,
    and csv with `header`), or its files (parquet, avro)."""

    operation: Operation | None = None
    """The column that says what a row does to the table; left out: rows are new or take another's place."""

    max_files_per_batch: int = Field(default=1000, ge=1, le=1000)
    """How many files a batch takes at the most."""

    max_file_age: Duration = 7 * 86400.0
    """How much older than the newest file that was read a file may turn up and still be read."""

    options: FilesOptions = FilesOptions()
    """How the files are written, and when they count."""

    def flaws(self) -> list[Flaw]:
        found = [*self._path_flaws(), *self._schema_flaws(), *self._option_flaws()]
        return [*found, *operation_flaws(self.operation, self.format, self.declared, ("text",))]

    def _path_flaws(self) -> list[Flaw]:
        if is_uri(self.path) and not self.path.startswith("file:"):
            scheme = self.path.partition(":")[0]
            return [Flaw(("path",), f"'{scheme}:' is not available yet; files are read from local folders")]
        return []

    @property
    def declared(self) -> Schema | None:
        """The columns that rows have by the declaration."""
        return self.schema_.told() if isinstance(self.schema_, WrittenSchema) else self.schema_

    def _schema_flaws(self) -> list[Flaw]:
        if isinstance(self.schema_, WrittenSchema):
            found = self._written_flaws(self.schema_)
            if found:
                return [flaw.under("schema") for flaw in found]
        if self.declared is None:
            if self.format == "text" and "schema_" in self.model_fields_set:
                return [Flaw(("schema",), "has no effect with format text: its one column is 'value'")]
            nameless = self.format == "csv" and not self.options.header
            return [Flaw(("schema",), "needed by format csv without 'header: true'")] if nameless else []
        if self.format == "text":
            return [Flaw(("schema",), "has no effect with format text: its one column is 'value'")]
        if self.format == "csv":
            return [Flaw(("schema",), line) for line in nested_in_csv(self.declared)]
        return []

    def _written_flaws(self, written: WrittenSchema) -> list[Flaw]:
        if written.registry is not None:
            return [Flaw(("registry",), "rows of files do not tell the id of a schema; use a file")]
        if written.columns is not None:
            return [Flaw(("columns",), "has no effect: the file gives the columns")]
        return written.flaws()

    def _option_flaws(self) -> list[Flaw]:
        given = self.options.model_fields_set
        useless = [name for name in _OF_CSV if self.format != "csv"]
        useless += [name for name in _OF_LINES if self.format in ("parquet", "avro")]
        useless += ["multi_line"] if self.format not in ("csv", "json") else []
        why = f"has no effect with format {self.format}"
        found = [Flaw(("options", name), why) for name in useless if name in given]
        return found + [flaw.under("options") for flaw in self.options.flaws()]

    def columns(self) -> Schema | None:
        if self.format == "text":
            return Schema((Column("value", Primitive("string"), False),))
        if self.operation is not None and self.declared is not None:
            return self.operation.left(self.declared)
        return self.declared
