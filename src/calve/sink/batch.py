"""The changes of a batch as a DataFrame: which one of each key counts, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from calve import changes, gateway
from calve.changes import Operations
from calve.errors import ConfigurationError
from calve.iceberg.name import quoted
from calve.model import suggestion

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ARRIVAL = "_calve_arrival"
_GONE = "_calve_gone"
_OLD = "_calve_old"
_KNOWN = "_calve_known"
_NUMBER = "_calve_number"
NEWEST = "_calve_newest"
"""The column that tells the greatest order a key has had, where there is `order_by`."""

OWN = (_ARRIVAL, _GONE, NEWEST)
"""What columns of changes are joined by while a batch is folded."""


def with_changes(frame: DataFrame, said: Operations | None = None) -> DataFrame:
    """Rows as changes, of which later ones come later: upserts all of them, or what one column says."""
    from pyspark.sql import functions as f

    word = f.lit(changes.UPDATE) if said is None else _operation(frame, said)
    made = changes.expressions(word, f.lit(0), f.monotonically_increasing_id())
    values = [quoted(name) for name in frame.columns if said is None or name != said.column]
    return frame.select(*values, *made)


_YEARS = {
    "date": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "timestamp": ("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
}


def readable(frame: DataFrame) -> DataFrame:
    """`frame`, in which a day or a time out of the years 1 to 9999 is an error: few can read it."""
    from pyspark.sql import functions as f

    dated = [one for one in frame.schema.fields if one.dataType.typeName() in _YEARS]
    if not dated:
        return frame
    checked = f.lit(True)
    for one in dated:
        first, last = map(f.expr, _YEARS[one.dataType.typeName()])
        value = f.col(quoted(one.name))
        told = f"Cannot write the rows: column '{one.name}': "
        message = f.concat(f.lit(told), value.cast("string"), f.lit(" is not in the years 1 to 9999"))
        refusal = gateway.refusal_in_spark(message).cast("boolean")
        checked = f.when(value.isNull() | value.between(first, last), checked).otherwise(refusal)
    return frame.where(checked)


def _operation(frame: DataFrame, said: Operations) -> Column:
    """The operation that a row says; an error where it says none."""
    from pyspark.sql import functions as f

    column = next((one for one in frame.schema.fields if one.name == said.column), None)
    if column is None:
        meant = suggestion(said.column, frame.columns)
        raise ConfigurationError(
            f"Cannot write the rows: they have no column '{said.column}', which 'operation' names{meant}"
        )
    if column.dataType.typeName() != "string":
        kind = column.dataType.simpleString().upper()
        raise ConfigurationError(
            f"Cannot write the rows: column '{said.column}', which 'operation' names, is {kind}; it must "
            "be a STRING"
        )
    text = f.col(quoted(said.column))
    word = f.coalesce(f.concat(f.lit("'"), text, f.lit("'")), f.lit("NULL"))
    message = f.concat(
        f.lit(f"Cannot write the rows: column '{said.column}': "),
        word,
        f.lit(f" is none of the operations {said}; nothing of this write was committed"),
    )
    code: Column = gateway.refusal_in_spark(message)
    for letter in dict.fromkeys(said.codes.values()):
        words = [one for one, meant in said.codes.items() if meant == letter]
        code = f.when(text.isin(*words), letter).otherwise(code)
    return code


def is_kept() -> Column:
    """Whether a change leaves a row in the table."""
    from pyspark.sql import functions as f

    return ~f.col(changes.OPERATION).isin(changes.DELETE, changes.TRUNCATE)


def is_whole() -> Column:
    """Whether a change knows all columns."""
    from pyspark.sql import functions as f

    return f.coalesce(f.size(changes.UNKNOWN) <= 0, f.lit(True))


def is_truncate() -> Column:
    """Whether a change empties the table."""
    from pyspark.sql import functions as f

    return f.col(changes.OPERATION) == changes.TRUNCATE


def counts() -> list[Column]:
    """How many changes leave a row, take one out, do not know all columns, and empty the table."""
    from pyspark.sql import functions as f

    is_delete = f.col(changes.OPERATION) == changes.DELETE
    return [
        f.count_if(is_kept()).alias("rows"),
        f.count_if(is_delete).alias("deletes"),
        f.count_if((f.size(changes.UNKNOWN) > 0) & is_kept()).alias("unknown"),
        f.count_if(is_truncate()).alias("truncated"),
    ]


def is_row(frame: DataFrame, keeps_changes: bool) -> Column:
    """Whether a row of `frame` becomes a row of a table to which rows are only added."""
    from pyspark.sql import functions as f

    return f.lit(True) if keeps_changes or changes.OPERATION not in frame.columns else is_kept()


def as_rows(frame: DataFrame, keeps_changes: bool) -> DataFrame:
    """`frame` without the columns of changes, or with those that a table of changes keeps."""
    from pyspark.sql import functions as f

    if not keeps_changes:
        return frame.drop(*changes.NAMES)
    place = f.coalesce(f.col(changes.ORDER).seq, f.col(changes.ORDER).at)
    told = (f.col(changes.OPERATION), place, f.col(changes.TIME))
    kept = (one.alias(name) for one, name in zip(told, changes.KEPT.names, strict=True))
    return frame.select("*", *kept).drop(*changes.NAMES)


def unkeyed(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """`frame` with NULL in the keys of truncates, which are about all of them."""
    from pyspark.sql import functions as f

    return frame.withColumns({name: f.when(~is_truncate(), f.col(quoted(name))) for name in keys})


def arrived(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """`frame` with the column `_calve_arrival`: of two changes of a key, the later one has the greater.

    In one lane the place decides. Between lanes it is the time, then the place in the log, of the latest of
    the key's changes up to there in its lane, so that neither contradicts the places; then the lane.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    lane, at, part = (f.col(f"{changes.ORDER}.{name}") for name in ("lane", "at", "part"))
    window = Window.partitionBy(*map(quoted, keys)).orderBy(lane, at, part)
    until = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def latest(name: str) -> Column:
        return f.max(f.struct(lane, _order_part(frame, name).alias(name))).over(until)[name].alias(name)

    return frame.withColumn(_ARRIVAL, f.struct(latest("time"), latest("seq"), lane, at, part))


def _order_part(frame: DataFrame, name: str) -> Column:
    """One part of the order; a transform that makes the order anew may have left it out."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    kind = frame.schema[changes.ORDER].dataType
    has_part = isinstance(kind, StructType) and name in kind.names
    return (f.col(f"{changes.ORDER}.{name}") if has_part else f.lit(None)).cast("bigint")


def behind_truncates(frame: DataFrame) -> DataFrame | None:
    """The changes that came after the last truncate; None where nothing tells which these are.

    A time in an order says that there are several lanes without an order among them.
    """
    from pyspark.sql import functions as f

    lane, at, part = (f.col(f"{changes.ORDER}.{name}") for name in ("lane", "at", "part"))
    place = f.struct(lane, at, part)
    times = f.count(_order_part(frame, "time"))
    found, timed = frame.where(is_truncate()).agg(f.max(place), times).collect()[0]
    if timed:
        return None
    kinds = {"lane": "bigint", "at": "bigint", "part": "int"}
    last = f.struct(*(f.lit(found[name]).cast(kind).alias(name) for name, kind in kinds.items()))
    return frame.where(~is_truncate() & (place > last))


def accepted(frame: DataFrame, keys: Sequence[str], order_by: str) -> DataFrame:
    """The changes of `frame`, which has arrivals, that are not older than one of the batch before them.

    NEWEST is the greatest order up to each. A change without an order is never too old.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    window = Window.partitionBy(*map(quoted, keys)).orderBy(_ARRIVAL)
    until = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    order = f.col(quoted(order_by))
    with_newest = frame.withColumn(NEWEST, f.max(order).over(until))
    return with_newest.where(order.isNull() | (order >= f.col(NEWEST)))


def last(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The last change of each key by arrival."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    window = Window.partitionBy(*map(quoted, keys)).orderBy(f.col(_ARRIVAL).desc())
    return frame.withColumn(_NUMBER, f.row_number().over(window)).where(f"{_NUMBER} = 1").drop(_NUMBER)


def folded(frame: DataFrame, keys: Sequence[str], values: Sequence[str]) -> DataFrame:
    """Like `last`, with columns that the last change does not know as the batch knew them before.

    A flag tells that the batch took the row out before, so that the table's own does not count.
    """
    from pyspark.sql import functions as f

    order = f.col(_ARRIVAL)
    own = [name for name in (*changes.NAMES, NEWEST, _ARRIVAL) if name in frame.columns]
    newest = [f.max_by(name, order).alias(name) for name in own]
    # What a delete leaves is known to be nothing.
    tells = {name: ~_is_unknown(name) | ~is_kept() for name in values}
    # Names of their own: in a lambda Spark takes a column for an alias of the same SELECT before the input's.
    known = {name: f"{changes.RESERVED}known_{number}" for number, name in enumerate(values)}
    held = [
        f.max_by(f.when(is_kept(), f.struct(f.col(quoted(n)).alias("value"))), f.when(tells[n], order))
        for n in values
    ]
    gone = f.max(~is_kept()).alias(_GONE)
    named = [column.alias(known[name]) for name, column in zip(values, held, strict=True)]
    rows = frame.groupBy(*map(quoted, keys)).agg(*newest, *named, gone)
    told = [f.col(f"{known[name]}.value").alias(name) for name in values]
    still = f.filter(f.col(changes.UNKNOWN), lambda name: _not_among(name, known))
    marked = [still.alias(name) if name == changes.UNKNOWN else f.col(name) for name in own]
    return rows.select(*map(quoted, keys), *told, *marked, _GONE)


def _is_unknown(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.array_contains(changes.UNKNOWN, name), f.lit(False))


def _not_among(name: Column, known: Mapping[str, str]) -> Column:
    """Whether no change of the batch knew the column called `name`, as the columns `known` tell."""
    from pyspark.sql import functions as f

    is_known = f.lit(False)
    for value, column in known.items():
        is_known = is_known | ((name == f.lit(value)) & f.col(column).isNotNull())
    return ~is_known


def filled(frame: DataFrame, old: DataFrame, keys: Sequence[str], values: Sequence[str]) -> DataFrame:
    """`frame`, which is folded, with what it does not know taken from the rows `old` of the table.

    A row that the table does not have, or that the batch took out, keeps its unknown columns.
    """
    from pyspark.sql import functions as f

    before = old.select(*map(quoted, keys), f.struct(*map(quoted, values)).alias(_OLD))
    joined = frame.join(before, list(keys), "left")
    there = f.col(_OLD).isNotNull() & ~f.col(_GONE)
    told = [
        f.when(_is_unknown(name) & there, f.col(f"{_OLD}.{quoted(name)}"))
        .otherwise(f.col(quoted(name)))
        .alias(name)
        for name in values
    ]
    left = f.when(~there, f.col(changes.UNKNOWN)).alias(changes.UNKNOWN)
    own = [name for name in (*changes.NAMES, NEWEST, _ARRIVAL) if name in frame.columns]
    marked = [left if name == changes.UNKNOWN else f.col(name) for name in own]
    return joined.select(*map(quoted, keys), *told, *marked)


def fresh(frame: DataFrame, known: DataFrame, keys: Sequence[str], order_by: str) -> DataFrame:
    """The accepted changes of `frame` that are not older than the greatest order `known` has for their key.

    NEWEST is then the greatest order that the key has had.
    """
    from pyspark.sql import functions as f

    newest = known.groupBy(*map(quoted, keys)).agg(f.max(quoted(order_by)).alias(_KNOWN))
    joined = frame.join(newest, list(keys), "left")
    is_stale = f.col(quoted(order_by)) < f.col(_KNOWN)
    rest = joined.where(~f.coalesce(is_stale, f.lit(False)))
    return rest.withColumn(NEWEST, f.greatest(NEWEST, _KNOWN)).drop(_KNOWN)


def needs_tombstone(order_by: str) -> Column:
    """Whether the row that a change leaves, if any, does not tell the greatest order of its key."""
    from pyspark.sql import functions as f

    is_told = is_kept() & f.col(quoted(order_by)).isNotNull()
    return ~is_told & f.col(NEWEST).isNotNull()
