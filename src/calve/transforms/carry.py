"""Transforms over rows that carry more than their values: the columns of changes, and the stream.

A transform sees the values alone. What rows carry besides goes along by itself where the plan shows that each
row is made of one row. In front of an upsert a filter has the meaning that it has in a view: a row that does
not pass is taken out of the table, and of a row that is deleted nothing but its key has to be known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calve import changes, gateway, plans
from calve.errors import ConfigurationError
from calve.gateway import translated
from calve.plans import NotCarried, quoted
from calve.transforms.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PASSES = f"{changes.RESERVED}passes"


@dataclass(frozen=True)
class View:
    """What the table behind the transforms knows rows by."""

    keys: tuple[str, ...]
    """The columns that tell a row and its table from others."""
    also: tuple[str, ...] = ()
    """Columns that a row that is taken out has besides, where they are known."""
    is_bare: bool = True
    """Whether a delete may know no more than its key."""


@dataclass(frozen=True)
class Carried:
    """What rows carry besides their values; with `view`, how a table follows the changes among them."""

    names: tuple[str, ...] = ()
    view: View | None = None


@dataclass(frozen=True)
class Transformed:
    """Rows behind the transforms, and the plain rows that show which columns their values have."""

    frame: DataFrame
    plain: DataFrame


def transformed(transforms: Sequence[Transform], frame: DataFrame, carried: Carried) -> Transformed:
    """`frame` behind all `transforms`; raises ConfigurationError where one of them cannot be kept to."""
    if not transforms:
        return Transformed(frame, frame)
    with translated("run the transforms"):
        if carried.names:
            return _Carrying(carried).over(transforms, frame)
        for transform in transforms:
            frame = transform.apply(frame)
        _refuse_doubles(frame.columns)
    return Transformed(frame, frame)


def _refuse_doubles(columns: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for name in columns:
        if (other := first.setdefault(name.lower(), name)) is not name:
            told = "twice" if other == name else f"beside '{other}', and case does not tell columns apart"
            raise ConfigurationError(f"Cannot run the transforms: they make a column '{name}' {told}")


@dataclass(frozen=True)
class _Query:
    """Transforms in a row as one query over values, and what it does not see of the rows below."""

    plain: DataFrame
    hidden: tuple[str, ...]


class _Carrying:
    """The way of rows through transforms: queries that what rows carry goes along with."""

    def __init__(self, carried: Carried) -> None:
        self._names = carried.names
        self._view = carried.view

    def over(self, transforms: Sequence[Transform], frame: DataFrame) -> Transformed:
        query: _Query | None = None
        for transform in transforms:
            named = transform.named(self._names)
            hidden = tuple(name for name in self._names if name not in named)
            if not any(name in named for name in changes.NAMES):
                if query is None or query.hidden != hidden:
                    frame = self._joined(query, frame, is_last=False)
                    query = self._begun(frame, hidden)
                made = self._made(transform, query)
                if made is not None:
                    query = _Query(made, hidden)
                    continue
            # A statement that names columns of changes, or code whose plan does not show what becomes of a
            # row, says itself which changes it makes.
            frame = transform.apply(self._joined(query, frame, is_last=False))
            self._refuse_lost(frame.columns, self._names)
            query = None
        return Transformed(self._joined(query, frame, is_last=True), query.plain if query else frame)

    def _begun(self, frame: DataFrame, hidden: Collection[str]) -> _Query:
        values = [name for name in frame.columns if name not in hidden]
        return _Query(plans.given(frame, values), tuple(hidden))

    def _made(self, transform: Transform, query: _Query) -> DataFrame | None:
        """The next transform over the values; None where it has to pass on what rows carry by itself."""
        try:
            made = transform.apply(query.plain)
        except ConfigurationError as error:
            if transform.is_code and changes.RESERVED in str(error):
                return None
            raise
        if transform.is_code:
            try:
                self._carry(_Query(made, query.hidden), is_last=False)
            except NotCarried:
                return None
        return made

    def _joined(self, query: _Query | None, frame: DataFrame, is_last: bool) -> DataFrame:
        """The rows of a query with what they carry; `frame` where there is none."""
        if query is None:
            return frame
        _refuse_doubles(query.plain.columns)
        self._refuse_lost(query.plain.columns, [name for name in self._names if name not in query.hidden])
        try:
            return self._carry(query, is_last)
        except NotCarried as error:
            raise self._refused(str(error)) from None

    def _carry(self, query: _Query, is_last: bool) -> DataFrame:
        if self._view is not None and changes.OPERATION in query.hidden:
            return _as_view(query, self._view, is_last)
        return plans.carried(query.plain, query.hidden)

    def _refused(self, kind: str) -> ConfigurationError:
        why = {
            "Generate": "they make several rows of one, and which of them an update leaves behind",
            "Union": "they make several rows of one, and which of them an update leaves behind",
        }.get(kind, f"what becomes of a row in a step of kind {kind}")
        return ConfigurationError(
            f"Cannot run the transforms: {why}, cannot be told; name {', '.join(self._names)} in them to say "
            "which changes they make"
        )

    def _refuse_lost(self, columns: Collection[str], needed: Collection[str]) -> None:
        """Raise ConfigurationError where a transform that names what rows carry drops some of it."""
        lost = [name for name in needed if name not in columns]
        if lost:
            raise ConfigurationError(
                f"Cannot run the transforms: they drop {', '.join(lost)}, which every row needs; "
                f"select them too, as in SELECT …, {', '.join(needed)} FROM input"
            )


def _as_view(query: _Query, view: View, is_last: bool) -> DataFrame:
    """The changes of a view: what does not pass its filters is a delete, and a delete needs its key alone."""
    from pyspark.sql import functions as f

    columns = query.plain.columns
    # What a transform that follows makes of the columns is not known here.
    needed = {*view.keys, *view.also} if is_last else set(columns)
    is_kept = ~f.col(changes.OPERATION).isin(changes.DELETE, changes.TRUNCATE)
    found = plans.filtered(query.plain, needed, query.hidden, _PASSES, is_kept, _passes)
    keys = [name for name in columns if name in view.keys]
    for name in found.loose if is_last and view.is_bare else ():
        if name in view.keys:
            raise ConfigurationError(
                f"Cannot run the transforms: they make the key column '{name}' of columns that a delete may "
                "not have; make it of the source's key alone, by functions that are NULL where one of it is"
            )
    rows, operation = found.frame, f.col(changes.OPERATION)
    if found.has_filter:
        # What does not pass and has no key was never in the table.
        no_key = f.lit(False)
        for name in keys:
            no_key = no_key | f.col(quoted(name)).isNull()
        rows = rows.where(f.col(_PASSES) | ~no_key)
        operation = f.when(is_kept & ~f.col(_PASSES), changes.DELETE).otherwise(operation)
    told = {changes.OPERATION: operation, changes.UNKNOWN: _unknown(found.origins)}
    hidden = (told.get(name, f.col(name)).alias(name) for name in query.hidden)
    return rows.select(*map(quoted, columns), *hidden)


def _passes(condition: Column, looked_at: frozenset[str]) -> Column:
    """Whether a change has passed the filters so far, and passes one more.

    A delete passes unless it is sure that its row does not.
    """
    from pyspark.sql import functions as f

    operation, so_far = f.col(changes.OPERATION), f.col(_PASSES)
    passes = f.coalesce(condition, f.lit(False))
    if looked_at:
        what = f"a filter of a transform looks at {', '.join(sorted(looked_at))}"
        why = "a change leaves values out that did not change; have the source send whole rows"
        refusal = gateway.refusal_in_spark(f.lit(f"Cannot run the transforms: {what}, and {why}"))
        is_unknown = f.arrays_overlap(f.col(changes.UNKNOWN), f.array(*map(f.lit, sorted(looked_at))))
        passes = f.when(is_unknown, refusal.cast("boolean")).otherwise(passes)
    surely_not = plans.tried(condition).eqNullSafe(f.lit(False))
    return (
        f.when(operation == changes.TRUNCATE, f.lit(True))
        .when(~so_far, f.lit(False))
        .when(operation == changes.DELETE, ~surely_not)
        .otherwise(passes)
    )


def _unknown(origins: Mapping[str, frozenset[str]]) -> Column:
    """The columns of the view that are made of columns which a change does not know."""
    from pyspark.sql import functions as f

    unknown = f.col(changes.UNKNOWN)
    if all(names <= {name} for name, names in origins.items()):
        return unknown
    lacking = [
        f.when(f.arrays_overlap(unknown, f.array(*map(f.lit, sorted(names)))), f.lit(name))
        for name, names in origins.items()
        if names
    ]
    if not lacking:
        return f.lit(None).cast("array<string>")
    made = f.filter(f.array(*lacking), lambda name: name.isNotNull())
    return f.when(unknown.isNotNull(), made)
