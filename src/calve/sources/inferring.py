"""Sources whose records tell their columns themselves, where the declaration does not."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BeforeValidator, PrivateAttr

from calve.errors import DataRefused
from calve.position import Position
from calve.schema import Array, Column, Map, Primitive, Schema, Struct, Type, parts, storable
from calve.sources.declared import Declared, undecodable
from calve.sources.source import Source
from calve.sources.written_schema import WrittenSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from calve.decode.bad import Catch

OrInferred = Annotated[
    Declared | WrittenSchema | None, BeforeValidator(lambda value: None if value == "infer" else value)
]
"""Columns as DDL, or where their schema is; `infer` or nothing for those that the records have."""

S = TypeVar("S", bound="Inferring")

log = logging.getLogger(__name__)


class Inferring(Source):
    """A source that can leave its columns to the records of a batch.

    All that is read of one batch has the same columns: its rows, and what is bad about it. Where the table is
    known, they are guessed to be its own, and found out in a pass of its own only where a record has others.
    """

    _expected: Schema | None = PrivateAttr(default=None)
    _whole: bool = PrivateAttr(default=False)
    _redirects: bool = PrivateAttr(default=False)
    _close: tuple[Position, Position] | None = PrivateAttr(default=None)
    _empty: set[str] = PrivateAttr(default_factory=set)
    _watch: Any = PrivateAttr(default=None)
    _found: tuple[Position, Position, Schema] | None = PrivateAttr(default=None)
    _good: tuple[Position, Position, Inferring] | None = PrivateAttr(default=None)

    @property
    @abstractmethod
    def infers(self) -> bool:
        """Whether the records themselves tell which columns they have."""

    def expect(self, table: Schema, *, whole: bool = False, redirects: bool = False) -> None:
        self._expected, self._whole, self._redirects = table, whole, redirects

    def look_closely(self, after: Position, to: Position) -> None:
        self._close = (after, to)

    @abstractmethod
    def _told(self) -> str:
        """What is read, in words."""

    @abstractmethod
    def _columns_in(self, spark: SparkSession, after: Position, to: Position) -> Schema:
        """The columns that the records in (after, to] have."""

    @abstractmethod
    def _columns_of(self, letters: DataFrame) -> Schema:
        """The columns that dead letters have."""

    def _of_batch(
        self: S, spark: SparkSession, after: Position, to: Position, keys: Collection[str] = ()
    ) -> S:
        """The same source with the columns that the records of a batch have, or are guessed to have."""
        guess = self._guess(after, to)
        if guess is not None:
            return guess
        if self._found is None or self._found[:2] != (after, to):
            self._found = (after, to, self._columns_in(spark, after, to))
        return self._with(self._found[2], keys)

    def _guess(self: S, after: Position, to: Position) -> S | None:
        """The same source with the columns of the table; None where they are known better, or not at all."""
        is_close = (after, to) in (self._close, self._found and self._found[:2])
        columns = expectable(self._expected) if self._expected and self._whole else None
        if is_close or self._is_text() or columns is None:
            return None
        made = self._watching(columns, is_guess=True)
        # What the last look found and the table still has not, the next records will have again.
        is_likely = self._found is None or made._watch.holds(storable(self._found[2]))
        return made if is_likely and not made.flaws() else None

    def _watching(self: S, columns: Schema, is_guess: bool) -> S:
        from calve.decode.infer import Fields

        made = self.model_copy(update={"schema_": columns})
        made._watch = Fields(columns, is_guess, self._redirects)
        return made

    def _of_good(self: S, spark: SparkSession, after: Position, to: Position, bad: Catch) -> S:
        """That one, and remember it: by the time bad records are read, the table may have changed."""
        made = self._of_batch(spark, after, to, bad.sieve.columns)
        self._good = (after, to, made)
        return made

    def _of_bad(self: S, spark: SparkSession, after: Position, to: Position, bad: Catch) -> S:
        if self._good is not None and self._good[:2] == (after, to):
            return self._good[2]  # type: ignore[return-value]
        return self._of_batch(spark, after, to, bad.sieve.columns)

    def _of_letters(self: S, letters: DataFrame, bad: Catch) -> S:
        return self._with(self._columns_of(letters), bad.sieve.columns)

    def _with(self: S, found: Schema, keys: Collection[str]) -> S:
        self._warn_of_empty(found)
        columns = inferred(
            found,
            self._expected,
            self._told(),
            keys,
            texts_take_all=self._is_text(),
            redirects=self._redirects,
        )
        made = self._watching(columns, is_guess=False)
        for flaw in made.flaws():
            raise DataRefused(f"Cannot infer the schema of {self._told()}: {flaw.message}")
        return made

    def _warn_of_empty(self, found: Schema) -> None:
        """Say once of each field that its values are not kept, because nobody knows its type yet."""
        for path in empty_fields(found, self._expected or Schema(())):
            if path not in self._empty:
                self._empty.add(path)
                log.warning(
                    "field '%s' of %s has only empty arrays or objects so far; it is NULL until a record "
                    "shows what is in them, declare 'schema' to keep them",
                    path,
                    self._told(),
                )

    def _is_text(self) -> bool:
        """Whether every value is written as a text, so that a column of texts can take it."""
        return False


def expectable(table: Schema) -> Schema | None:
    """The columns of a table that whole blocks of records can be read into; None where others are needed."""

    def is_fast(column: Column) -> bool:
        return not any(undecodable(Schema((column,)))) and not _has_map(column.type)

    found = tuple(filter(is_fast, table.columns))
    needed = any(not one.nullable and one not in found for one in table.columns)
    return Schema(found) if found and not needed else None


def empty_fields(found: Schema, table: Schema) -> list[str]:
    """The fields in which records have empty arrays or objects only, and which the table does not have."""
    return list(_empty_in((), Struct(found.columns), Struct(table.columns)))


def _empty_in(path: tuple[str, ...], found: Type, table: Type | None) -> Iterator[str]:
    known = {one.name: one.type for one in parts(table)} if table is not None else {}
    for column in parts(found):
        there, name = known.get(column.name), (*path, column.name)
        if there is None and _is_empty(column.type):
            yield ".".join(name)
        else:
            yield from _empty_in(name, column.type, there)


def _is_empty(kind: Type) -> bool:
    if isinstance(kind, Struct):
        return not kind.columns
    return isinstance(kind, Array) and (kind.element == Primitive("void") or _is_empty(kind.element))


def _has_map(kind: Type) -> bool:
    return isinstance(kind, Map) or any(_has_map(one.type) for one in parts(kind))


def inferred(
    found: Schema,
    table: Schema | None,
    where: str,
    keys: Collection[str] = (),
    texts_take_all: bool = False,
    redirects: bool = False,
) -> Schema:
    """The columns of a batch whose records have `found`, for a table that may be there already.

    What the table has of `keys`, and of what names a row's table, is there even if no record has it: then
    each of them is bad.
    """
    from calve.decode.infer import Mixed, settled

    try:
        columns = settled(storable(found), table, texts_take_all, redirects)
        _refuse_twins((), columns.columns)
    except Mixed as error:
        raise DataRefused(f"Cannot infer the schema of {where}: {error}; declare 'schema'") from None
    if not columns.columns and table is None:
        raise DataRefused(f"Cannot infer the schema of {where}: the records have no fields; declare 'schema'")
    there = table.columns if table else ()
    if not columns.columns:
        return Schema(there)
    missing = (one for one in there if one.name in keys and one.name not in columns.names)
    return Schema((*columns.columns, *missing))


def _refuse_twins(path: tuple[str, ...], columns: Iterable[Column]) -> None:
    from calve.decode.infer import Mixed

    seen: dict[str, str] = {}
    for column in columns:
        name = ".".join((*path, column.name))
        if column.name.lower() in seen:
            raise Mixed(f"fields '{seen[column.name.lower()]}' and '{name}' differ by case only")
        seen[column.name.lower()] = name
        _refuse_twins((*path, column.name), parts(column.type))
