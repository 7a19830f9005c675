"""Plans of Spark: what a query does to the rows that it was given, and the same query with more columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calve.gateway import jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MARK = "_calve_input"
_PASS_THROUGH = ("SubqueryAlias", "View")
_HARMLESS = ("AttributeReference", "Literal", "GetStructField")
"""Expressions that never raise."""
_NULL_IN_NULL_OUT = ("AttributeReference", "Literal", "Concat")
"""Expressions that are NULL where one of their parts is, besides those that say so."""


class NotCarried(Exception):
    """A plan through which columns cannot be carried; the argument is the kind of the node that stops it."""


def given(frame: DataFrame, names: Sequence[str], mark: str = _MARK) -> DataFrame:
    """The columns `names` of `frame` as the input of a query, which can be found again in its plan."""
    return frame.select(*map(quoted, names)).alias(mark)


@dataclass(frozen=True)
class Shape:
    """What a query is made of, above the rows that it was given."""

    nodes: frozenset[str]
    """The kinds of the nodes that read the given rows, or what was made of them."""
    others: frozenset[str]
    """The kinds of the leaves that are read besides."""
    reads_input: bool
    joins_input_to_itself: bool


def shape(query: DataFrame, mark: str = _MARK) -> Shape:
    """What `query` is made of, above what `given` gave it."""
    found = _Shape(mark)
    reads = found.visit(_plan(query))
    return Shape(frozenset(found.nodes), frozenset(found.others), reads, found.joins_itself)


class _Shape:
    def __init__(self, mark: str) -> None:
        self._mark = mark
        self.nodes: set[str] = set()
        self.others: set[str] = set()
        self.joins_itself = False

    def visit(self, node: Any) -> bool:
        """Whether the given rows are read below `node`."""
        if _is_mark(node, self._mark):
            return True
        below = [self.visit(child) for child in _each(node.children())]
        kind = _kind(node)
        if not below:
            self.others.add(kind)
        if any(below):
            self.nodes.add(kind)
        self.joins_itself |= kind == "Join" and all(below)
        return any(below)


def carried(query: DataFrame, names: Sequence[str]) -> DataFrame:
    """`query` with the columns `names`, which its input had before `given` left them out."""
    plan = _carried(_plan(query), names)
    return _frame(query, plan)


def _carried(node: Any, names: Sequence[str]) -> Any:
    """The same plan with the columns behind its own."""
    kind = _kind(node)
    if _is_mark(node):
        return node.child().child()
    if kind == "Union":
        children = node.children()
        for index, child in enumerate(_each(node.children())):
            made = _carried(child, names)
            children = children.updated(index, _project(child.output().toSeq(), made, names))
        return node.withNewChildren(children)
    if kind not in ("Project", "Filter", "Generate", *_PASS_THROUGH):
        raise NotCarried(kind)
    child = _carried(node.child(), names)
    if kind == "Project":
        return _project(node.projectList(), child, names)
    # A view says which columns it has.
    return child if kind in _PASS_THROUGH else node.withNewChildren(node.children().updated(0, child))


def _project(expressions: Any, child: Any, names: Sequence[str]) -> Any:
    for one in _each(child.output()):
        if one.name() in names:
            expressions = expressions.appended(one)
    return jvm().org.apache.spark.sql.catalyst.plans.logical.Project(expressions, child)


@dataclass(frozen=True)
class Filtered:
    """A query whose filters leave no row out but tell of each row whether it passes."""

    frame: DataFrame
    """The columns of the query, those that its input had besides, and `passes`."""
    origins: Mapping[str, frozenset[str]]
    """The columns of the input of which each column of the query is made."""
    has_filter: bool
    loose: tuple[str, ...]
    """Those of the needed columns that may be made of NULL and not be NULL."""


def filtered(
    query: DataFrame,
    needed: Collection[str],
    carried: Collection[str],
    passes: str,
    is_whole: Column,
    decided: Callable[[Column, frozenset[str]], Column],
) -> Filtered:
    """`query`, made of projections and filters alone, with its filters as a column called `passes`.

    The columns `needed` are made of every row, as far as it can be done; others are NULL where `is_whole` is
    not true or the row does not pass. `decided` makes of a filter's condition, and of the columns that it
    looks at, whether a row passes. The columns `carried` of the input, which `given` left out, go along.
    """
    from pyspark.sql import functions as f

    steps, mark = _chain(_plan(query))
    outputs = list(_each(_plan(query).output()))
    ids, loose = _needed(steps, outputs, needed)
    frame = _frame(query, mark.child().child()).withColumn(passes, f.lit(True))
    origins = {_id(one): frozenset((one.name(),)) for one in _each(mark.output())}
    has_filter = False
    for step in reversed(steps):
        if _kind(step) == "Filter":
            has_filter = True
            looked_at = _origins(step.condition(), origins)
            frame = frame.withColumn(passes, decided(_column(step.condition()), looked_at))
            continue
        whole = is_whole & f.col(passes)
        made = [_made(one, ids, whole, has_filter) for one in _each(step.projectList())]
        origins |= {_id(one): _origins(one, origins) for one in _each(step.projectList())}
        frame = frame.select(*made, *map(f.col, (*carried, passes)))
    frame = frame.select(*map(_column, outputs), *map(f.col, (*carried, passes)))
    return Filtered(frame, {one.name(): origins[_id(one)] for one in outputs}, has_filter, loose)


def _chain(plan: Any) -> tuple[list[Any], Any]:
    """The projections and filters of a plan, the last one first, and its input."""
    found = []
    while not _is_mark(plan):
        kind = _kind(plan)
        if kind in ("Project", "Filter"):
            found.append(plan)
        elif kind not in _PASS_THROUGH:
            raise NotCarried(kind)
        plan = plan.child()
    return found, plan


def _needed(
    steps: Sequence[Any], outputs: Sequence[Any], names: Collection[str]
) -> tuple[set[int], tuple[str, ...]]:
    """The ids of all columns on the way to `names`, and those of `names` that NULL does not make NULL."""
    every: set[int] = set()
    loose = []
    for output in outputs:
        if output.name() not in names:
            continue
        ids, strict = {_id(output)}, True
        for step in steps:
            for one in _each(step.projectList()) if _kind(step) == "Project" else ():
                if _id(one) in ids and _kind(one) == "Alias":
                    ids |= {_id(part) for part in _each(one.references().toSeq())}
                    strict &= _is_strict(one.child())
        every |= ids
        if not strict:
            loose.append(output.name())
    return every, tuple(loose)


def _is_strict(expression: Any) -> bool:
    """Whether an expression is NULL where a column in it is."""
    if _kind(expression) not in _NULL_IN_NULL_OUT and not expression.nullIntolerant():
        return False
    return all(_is_strict(part) for part in _each(expression.children()))


def _made(one: Any, needed: Collection[int], whole: Column, has_filter: bool) -> Column:
    """An expression of a projection; what is needed of every row is NULL where a row lacks what it takes."""
    from pyspark.sql import functions as f

    if _kind(one) != "Alias" or _kind(one.child()) in _HARMLESS:
        return _column(one)
    value = _column(one.child())
    if _id(one) not in needed:
        return _same(one, f.when(whole, value))
    if not has_filter:
        return _column(one)
    tried = jvm().org.apache.spark.sql.catalyst.expressions.TryEval(one.child())
    return _same(one, f.when(whole, value).otherwise(_column(tried)))


def tried(column: Column) -> Column:
    """`column`, NULL where it raises."""
    return _column(jvm().org.apache.spark.sql.catalyst.expressions.TryEval(_expression(column)))


def _same(alias: Any, value: Column) -> Column:
    """Another value under the name and the id of `alias`."""
    return _column(alias.withNewChildren(alias.children().updated(0, _expression(value))))


def _origins(expression: Any, known: Mapping[int, frozenset[str]]) -> frozenset[str]:
    found = (known.get(_id(part), frozenset()) for part in _each(expression.references().toSeq()))
    return frozenset(name for names in found for name in names)


def is_empty(frame: DataFrame) -> bool:
    """Whether Spark sees beforehand that there will be no row, and would read nothing."""
    plan: Any = frame
    optimized = plan._jdf.queryExecution().optimizedPlan()
    return all(_is_empty_leaf(leaf) for leaf in _each(optimized.collectLeaves()))


def _is_empty_leaf(leaf: Any) -> bool:
    return _kind(leaf) == "LocalRelation" and bool(leaf.data().isEmpty())


def _plan(frame: Any) -> Any:
    """The analyzed plan, in which each use of a common table expression stands for itself."""
    plan = frame._jdf.queryExecution().analyzed()
    return jvm().org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False).apply(plan)


def _frame(like: Any, plan: Any) -> DataFrame:
    session = like.sparkSession
    rows = jvm().org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    made: DataFrame = type(like)(rows, session)
    return made


def _column(expression: Any) -> Column:
    from pyspark.sql.classic.column import Column

    made: Column = Column(jvm().org.apache.spark.sql.classic.ExpressionUtils.column(expression))
    return made


def _expression(column: Any) -> Any:
    return jvm().org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)


def _is_mark(node: Any, mark: str = _MARK) -> bool:
    return _kind(node) == "SubqueryAlias" and node.alias() == mark


def _id(named: Any) -> int:
    return int(named.exprId().id())


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName()).rstrip("$")


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))


def quoted(name: str) -> str:
    """A column's name as Spark takes it."""
    return f"`{name.replace('`', '``')}`"
