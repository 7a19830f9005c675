"""Lines of CSV → rows; the fields are in the order of the columns."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv

from calve.decode.arrow import Values, arrow_schema, compute, is_primitive
from calve.decode.decoder import Decoder, batch_of, column_of, lines_of, shown, utf8
from calve.decode.dialect import Dialect
from calve.decode.division import Doubts, Mismatch, doubtful, where
from calve.decode.scalars import EXACT, INTEGERS, OutOfRange, cast, is_rounded, parse, reason_of
from calve.schema import Column, Decimal, Primitive, Schema, Type

_ENDS = "\r\n"
_MARK = "\ufeff"
_FEW_NAMES = 5
_OTHER_NUMBER = "^[+-]?0[0-9]"


class CsvDecoder(Decoder):
    """Each record is one line of CSV, in which quoted fields may hold line ends.

    Where the columns were inferred, other texts for a value are refused than those that it is inferred from:
    `007` may be a number that somebody declared, and was not one when nobody did.
    """

    def __init__(
        self,
        schema: Schema,
        dialect: Dialect,
        names: tuple[str, ...] | None = None,
        is_inferred: bool = False,
    ) -> None:
        super().__init__(schema)
        self.dialect = dialect
        self.names = schema.names if names is None else names
        self.is_inferred = is_inferred

    def with_header(self, line: str) -> CsvDecoder:
        """The decoder for files whose first line is `line`: columns are found by their name in it."""
        names = tuple(_fields(line, self.dialect))
        for name in self.schema.names:
            if names.count(name) > 1:
                raise Mismatch(f"the header names column '{name}' twice")
        if not self.is_inferred:
            _refuse_other_names(names, self.schema.names)
        elif "" in names:
            raise Mismatch(f"the header has no name for field {names.index('') + 1}; declare 'schema'")
        for column in self.schema.columns:
            if column.name not in names and not column.nullable:
                raise Mismatch(f"the header does not name column '{column.name}', which is NOT NULL")
        return CsvDecoder(self.schema, self.dialect, names, self.is_inferred)

    def texts(self, values: Values) -> dict[str, Values]:
        """The fields as they are written, by name; raises ArrowInvalid or Mismatch."""
        read, count = self._lines(values), len(values)
        columns = {name: read.column(at).slice(0, count) for at, name in enumerate(self.names)}
        return {name: self._with_nulls(column) for name, column in columns.items()}

    def _lines(self, values: Values) -> pa.Table:
        last = self.dialect.delimiter.join(["0"] * len(self.names))
        lines = lines_of(values)
        try:
            read = self._read(_joined(lines, last))
        except pa.ArrowInvalid as error:
            raise self._doubts(lines) or error from None
        if read.num_rows != len(values) + 1:
            raise Mismatch("a record holds no line, or more than one")
        return read

    def _doubts(self, lines: Values) -> Doubts | None:
        """The lines that have not as many delimiters as they should, unless these are most of them."""
        counts = compute.count_substring(lines, self.dialect.delimiter)
        places = where(compute.not_equal(counts, len(self.names) - 1))
        return Doubts(places, "other fields") if 0 < len(places) <= len(lines) // 2 else None

    def _fast(self, values: Values) -> pa.RecordBatch:
        read, count = self._lines(values), len(values)
        columns = self.schema.columns
        made = [(partial(self._made, column), self._texts(read, column, count)) for column in columns]
        return batch_of(made, arrow_schema(self.schema))

    def _texts(self, read: pa.Table, column: Column, count: int) -> Values:
        if column.name not in self.names:
            return pa.nulls(count, pa.string())
        return self._with_nulls(read.column(self.names.index(column.name)).slice(0, count))

    def _made(self, column: Column, texts: Values) -> Values:
        if self.is_inferred:
            _suspect(texts, column.type)
        return column_of(cast(texts, column.type), column)

    def _read(self, data: bytes) -> pa.Table:
        names = [str(index) for index in range(len(self.names))]
        reading = pcsv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1)
        parsing = pcsv.ParseOptions(
            delimiter=self.dialect.delimiter,
            quote_char=self.dialect.quote or False,
            double_quote=self.dialect.quote is not None,
            escape_char=self.dialect.escape or False,
            newlines_in_values=True,
        )
        converting = pcsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[])
        return pcsv.read_csv(io.BytesIO(data), reading, parsing, converting)

    def _with_nulls(self, column: Values) -> Values:
        texts = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        is_null = compute.equal(texts, self.dialect.null_value)
        return compute.if_else(is_null, pa.scalar(None, pa.string()), texts)

    def record(self, value: bytes) -> list[Any]:
        fields = list(_fields(utf8(value).rstrip(_ENDS), self.dialect))
        if len(fields) != len(self.names):
            raise Mismatch(f"{len(fields)} fields where {len(self.names)} are expected")
        named = dict(zip(self.names, fields, strict=True))
        return [self._value(named.get(column.name), column) for column in self.schema.columns]

    def _value(self, text: str | None, column: Column) -> Any:
        if text is None or text == self.dialect.null_value:
            if not column.nullable:
                raise Mismatch(f"column '{column.name}': NULL, and the column is NOT NULL", "null")
            return None
        try:
            if self.is_inferred:
                _refuse_other_text(text, column.type)
            return parse(text, column.type)
        except ValueError as error:
            reason = f"{shown(text)} is not a {column.type.ddl()}: {error}"
            raise Mismatch(f"column '{column.name}': {reason}", reason_of(error)) from None


def _refuse_other_names(header: Sequence[str], columns: Sequence[str]) -> None:
    """Raise Mismatch where the header lacks columns and has others: names that do not match.

    A header that only lacks columns is that of a file which does not have them.
    """
    missing = [name for name in columns if name not in header]
    others = [name for name in header if name and name not in columns]
    if not missing or not others:
        return
    alike = {name.strip().lower(): name for name in others}
    twins = [(name, alike[name.strip().lower()]) for name in missing if name.strip().lower() in alike]
    hint = f"; '{twins[0][1]}' is '{twins[0][0]}' but for case or spaces" if twins else ""
    raise Mismatch(
        f"the header does not name {_quoted(missing)} of the schema, and the schema does not have "
        f"{_quoted(others)} of the header{hint}"
    )


def _quoted(names: Sequence[str]) -> str:
    shown_names = [f"'{name}'" for name in names[:_FEW_NAMES]]
    more = [f"{len(names) - _FEW_NAMES} more"] if len(names) > _FEW_NAMES else []
    return ", ".join([*shown_names, *more])


def _suspect(texts: Values, kind: Type) -> None:
    """Raise Doubts for texts that a value of the type was not inferred from."""
    if is_primitive(kind, "boolean"):
        flags = compute.is_in(texts, pa.array(["0", "1"]))
    elif isinstance(kind, Decimal) or is_primitive(kind, *INTEGERS, *EXACT):
        flags = compute.match_substring_regex(texts, _OTHER_NUMBER)
    else:
        return
    if compute.any(flags).as_py():
        raise doubtful(flags, "texts that are no values of an inferred type", "wrong_type")
    if isinstance(kind, Primitive) and kind.name in EXACT:
        limit = pa.scalar(len(str(EXACT[kind.name])), pa.int32())
        flags = compute.greater_equal(compute.binary_length(texts), limit)
        if compute.any(flags).as_py():
            raise doubtful(flags, "numbers that may be whole ones", "out_of_range")


def _refuse_other_text(text: str, kind: Type) -> None:
    """Raise ValueError for a text that a value of the type was not inferred from."""
    if is_primitive(kind, "boolean") and text in ("0", "1"):
        raise ValueError("a number in a column of true and false")
    if (isinstance(kind, Decimal) or is_primitive(kind, *INTEGERS, *EXACT)) and re.match(_OTHER_NUMBER, text):
        raise ValueError("a number is not written with such a zero")
    if is_rounded(text, kind):
        raise OutOfRange("a whole number that would be rounded")


def _joined(lines: Values, last: str) -> bytes:
    """All lines, and one more that a quote left open would swallow.

    No record holds a line end; so, if there is a row more than there are records, each record is one row.
    """
    data = _one_below_another(lines)
    if not _are_bare(data, len(lines)):
        bare = compute.ascii_rtrim(lines, characters=_ENDS)
        for sign in (*_ENDS, _MARK):
            has_sign = compute.match_substring(bare, sign)
            if compute.any(has_sign).as_py():
                raise doubtful(has_sign, "a record holds a line end")
        data = _one_below_another(bare)
    return data + b"\n" + last.encode()


def _one_below_another(lines: Values) -> bytes:
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    data: bytes = compute.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
    return data


def _are_bare(data: bytes, count: int) -> bool:
    """Whether there are no line ends but those between `count` lines; seen at once, and not line by line."""
    return data.count(b"\n") == count - 1 and b"\r" not in data and _MARK.encode() not in data


@lru_cache(maxsize=16)
def _field(dialect: Dialect) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A field (what is quoted, and what is behind it), and the pairs that stand for one character."""
    escape = re.escape(dialect.escape) if dialect.escape else "(?!)"
    plain = rf"((?:[^{re.escape(dialect.delimiter)}{escape if dialect.escape else ''}\r\n]|{escape}.)*)"
    if dialect.quote is None:
        return re.compile(rf"(){plain}", re.S), re.compile(rf"{escape}(.)", re.S)
    quote = re.escape(dialect.quote)
    inside = rf"(?:[^{quote}{escape if dialect.escape else ''}]|{escape}.|{quote}{quote})*"
    quoted = rf"(?:{quote}({inside}){quote}(?!{quote})|(?!{quote}))"
    return re.compile(quoted + plain, re.S), re.compile(rf"{escape}(.)|{quote}({quote})", re.S)


def _fields(line: str, dialect: Dialect) -> Iterator[str]:
    """The fields of a line; a quote counts where a field begins, and behind the closing one it does not."""
    field, _ = _field(dialect)
    at = 0
    while True:
        found = field.match(line, at)
        if found is None:
            raise Mismatch(f"a quote is not closed at character {at + 1}")
        yield _unquoted(found, dialect)
        at = found.end() + 1
        if found.end() == len(line):
            return
        if line[found.end()] != dialect.delimiter:
            raise Mismatch(f"more than one line, or nothing to escape, at character {at}")


def _unquoted(found: re.Match[str], dialect: Dialect) -> str:
    quoted, plain = found[1] or "", found[2]
    _, pair = _field(dialect)
    if dialect.escape:
        plain = re.sub(rf"{re.escape(dialect.escape)}(.)", r"\1", plain, flags=re.S)
    return pair.sub(lambda match: match[match.lastindex or 0], quoted) + plain
