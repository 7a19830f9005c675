"""A SELECT over the rows of a batch."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, PrivateAttr

from calve.errors import ConfigurationError
from calve.gateway import analyzed_nodes, called_functions, parsed_nodes, translated
from calve.transforms.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "input"

ROW_BY_ROW = {
    *("Project", "Filter", "SubqueryAlias", "Generate", "Union", "View", "LogicalRDD"),
    *("WithCTE", "CTERelationDef", "CTERelationRef"),
    *("UnresolvedRelation", "UnresolvedSubqueryColumnAliases", "UnresolvedWith"),
}
"""The parts of a query that make rows of one row each."""

_STATEFUL = {
    *("Aggregate", "UnresolvedHaving", "Distinct", "Deduplicate", "Join"),
    *("UnresolvedEventTimeWatermark", "EventTimeWatermark", "UnresolvedTableValuedFunction"),
    *("UnresolvedInlineTable", "LocalRelation"),
}
"""The parts of a query that Structured Streaming runs besides, as far as the query is only parsed."""

WORDS = {
    "Aggregate": "it aggregates, and a batch is not the whole stream",
    "UnresolvedHaving": "it aggregates, and a batch is not the whole stream",
    "Pivot": "it aggregates, and a batch is not the whole stream",
    "Distinct": "it removes duplicates, and a batch is not the whole stream",
    "Deduplicate": "it removes duplicates, and a batch is not the whole stream",
    "Window": "it uses a window function, and a batch is not the whole stream",
    "WithWindowDefinition": "it uses a window function, and a batch is not the whole stream",
    "Join": "it joins; only 'input' can be read",
    "LateralJoin": "it joins; only 'input' can be read",
    "AsOfJoin": "it joins; only 'input' can be read",
    "Intersect": "it intersects, and a batch is not the whole stream",
    "Except": "it subtracts, and a batch is not the whole stream",
    "Sort": "it sorts; the order of rows is the sink's sort_by",
    "GlobalLimit": "it limits the rows, and which ones are left would depend on the batch",
    "LocalLimit": "it limits the rows, and which ones are left would depend on the batch",
    "Tail": "it limits the rows, and which ones are left would depend on the batch",
    "Offset": "it limits the rows, and which ones are left would depend on the batch",
    "Sample": "it samples, and would take other rows when the batch is read again",
    "OneRowRelation": "it does not read 'input'",
}
_SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery"}
_OTHER_RELATION = "it reads something else than 'input'"
_RELATION = re.compile(r"Relation|Range|TableValued|InlineTable|LogicalRDD")

_CALLS = (
    *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
    *("current_timestamp", "now", "current_date", "curdate", "current_time", "localtimestamp"),
    *("unix_timestamp", "monotonically_increasing_id", "spark_partition_id", "input_file_name"),
    *("input_file_block_start", "input_file_block_length"),
)
_BARE = ("current_timestamp", "current_date", "current_time", "localtimestamp")
_LITERAL = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.S)
_UNSTEADY = re.compile(rf"\b(?:({'|'.join(_CALLS)})\s*\(|({'|'.join(_BARE)})\b)", re.I)


_REFLECTION = ("reflect", "java_method", "try_reflect")
_REFLECTION_CALL = re.compile(rf"\b({'|'.join(_REFLECTION)})\s*\(", re.I)
_REFLECTION_REFUSED = "it calls Java methods ({}), which is not allowed in a transform"


def _code(sql: str, keeps_names: bool = False) -> str:
    """The statement without comments and with empty literals; names in backticks count as such, or not."""

    def said(found: re.Match[str]) -> str:
        if keeps_names and found[0].startswith("`"):
            return found[0]
        return " " if found[0][0] in "-/" else "''"

    return _LITERAL.sub(said, sql)


def _text(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    if found := _REFLECTION_CALL.search(_code(value)):
        raise ValueError(_REFLECTION_REFUSED.format(found[1]))
    return value.strip().rstrip(";")


class SqlTransform(Transform):
    """A SELECT in which `input` stands for the rows of a batch."""

    sql: Annotated[str, AfterValidator(_text)]
    """A SELECT over `input` that makes its rows from one row each: no GROUP BY, DISTINCT, window or join.
    Over a source of `connector: spark` it may aggregate, remove duplicates and join tables of the catalog."""

    _checked: str | None = PrivateAttr(default=None)

    def named(self, names: Collection[str]) -> set[str]:
        code = _code(self.sql, keeps_names=True).lower()
        return {name for name in names if re.search(rf"\b{name}\b", code)}

    def apply(self, rows: DataFrame) -> DataFrame:
        with translated("run the SQL of a transform"):
            if rows.isStreaming:
                return self._over_stream(rows)
            self._check(rows)
            return self._over(rows)

    def _over_stream(self, rows: DataFrame) -> DataFrame:
        """Spark itself refuses what a stream cannot do; here it is made sure that nothing is done at once."""
        self._refuse_reflection(rows.sparkSession)
        nodes, _ = parsed_nodes(rows.sparkSession, self.sql)
        _refuse(nodes - _STATEFUL, "it is not a SELECT that a stream can run")
        made = self._over(rows)
        _, expressions = analyzed_nodes(made)
        _refuse_java_calls(expressions)
        if not made.isStreaming:
            raise ConfigurationError("Cannot run the SQL of a transform: it does not read 'input'")
        return made

    def _over(self, rows: DataFrame) -> DataFrame:
        rows.createOrReplaceTempView(VIEW)
        return rows.sparkSession.sql(self.sql)

    def _check(self, rows: DataFrame) -> None:
        """Look at the plan of the query over no rows: nothing of the source's own plan is in it."""
        columns = rows.schema.json()
        if columns == self._checked:
            return
        nodes, _ = parsed_nodes(rows.sparkSession, self.sql)
        _refuse(nodes, "it is not a SELECT")
        self._refuse_reflection(rows.sparkSession)
        nodes, expressions = analyzed_nodes(self._over(rows.sparkSession.createDataFrame([], rows.schema)))
        _refuse(nodes, _OTHER_RELATION)
        _refuse_java_calls(expressions)
        if expressions & _SUBQUERIES:
            raise ConfigurationError("Cannot run the SQL of a transform: it has a subquery in an expression")
        if "LogicalRDD" not in nodes:
            raise ConfigurationError("Cannot run the SQL of a transform: it does not read 'input'")
        self._checked = columns

    def _refuse_reflection(self, spark: SparkSession) -> None:
        """Refuse calls of Java methods before the analysis, which loads the class that is named."""
        for name in sorted(called_functions(spark, self.sql) & set(_REFLECTION)):
            raise ConfigurationError(f"Cannot run the SQL of a transform: {_REFLECTION_REFUSED.format(name)}")

    def warnings(self) -> list[str]:
        names = {(call or bare).lower() for call, bare in _UNSTEADY.findall(_code(self.sql))}
        return [f"{name}() differs when a batch is read again after a failure" for name in sorted(names)]


def _refuse_java_calls(expressions: set[str]) -> None:
    """Refuse calls of Java methods however they are written, such as by IDENTIFIER('reflect')."""
    if "CallMethodViaReflection" in expressions:
        raise ConfigurationError(
            f"Cannot run the SQL of a transform: {_REFLECTION_REFUSED.format('reflect')}"
        )


def _refuse(nodes: set[str], otherwise: str) -> None:
    for name in sorted(nodes - ROW_BY_ROW):
        why = WORDS.get(name) or (_OTHER_RELATION if _RELATION.search(name) else otherwise)
        raise ConfigurationError(f"Cannot run the SQL of a transform: {why}")
