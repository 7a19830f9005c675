"""A SELECT over a batch: what it may do, what it may not, what is warned about."""

import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession

from calve.errors import ConfigurationError
from calve.transforms.sql import SqlTransform


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session of its own, with a view that transforms must not read."""
    own = spark.newSession()
    own.range(3).createOrReplaceTempView("other")
    return own


@pytest.fixture(scope="module")
def rows(session: SparkSession) -> DataFrame:
    return session.createDataFrame([(1, "a", [1, 2]), (2, None, [])], "id BIGINT, s STRING, l ARRAY<INT>")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id + 1 AS id, upper(s) AS s FROM input", [(2, "A"), (3, None)]),
        ("SELECT id FROM input WHERE s IS NOT NULL;", [(1,)]),
        ("SELECT id, x FROM input LATERAL VIEW explode(l) t AS x", [(1, 1), (1, 2)]),
        ("SELECT explode(l) AS x FROM input", [(1,), (2,)]),
        ("WITH a AS (SELECT id FROM input) SELECT * FROM a", [(1,), (2,)]),
        ("SELECT id FROM input UNION ALL SELECT id * 10 FROM input", [(1,), (2,), (10,), (20,)]),
        ("SELECT q.id FROM (SELECT * FROM input) AS q", [(1,), (2,)]),
    ],
)
def test_what_makes_rows_of_one_row_each_is_allowed(
    rows: DataFrame, sql: str, expected: list[object]
) -> None:
    assert sorted(tuple(row) for row in SqlTransform(sql=sql).apply(rows).collect()) == expected


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT count(*) FROM input", "it aggregates"),
        ("SELECT s, sum(id) FROM input GROUP BY s", "it aggregates"),
        ("SELECT s FROM input GROUP BY s HAVING count(*) > 1", "it aggregates"),
        ("WITH a AS (SELECT max(id) FROM input) SELECT * FROM a", "it aggregates"),
        ("SELECT DISTINCT s FROM input", "it removes duplicates"),
        ("SELECT id FROM input UNION SELECT id FROM input", "it removes duplicates"),
        ("SELECT row_number() OVER (ORDER BY id) FROM input", "it uses a window function"),
        ("SELECT a.id FROM input a JOIN input b ON a.id = b.id", "it joins"),
        ("SELECT input.id FROM input, other", "it joins"),
        ("SELECT id FROM input INTERSECT SELECT id FROM input", "it intersects"),
        ("SELECT id FROM input EXCEPT SELECT id FROM input", "it subtracts"),
        ("SELECT id FROM input ORDER BY id", "it sorts"),
        ("SELECT id FROM input LIMIT 1", "it limits the rows"),
        ("SELECT id FROM input OFFSET 1", "it limits the rows"),
        ("SELECT id FROM input TABLESAMPLE (50 PERCENT)", "it samples"),
        ("SELECT id FROM input WHERE id = (SELECT max(id) FROM input)", "it has a subquery"),
        ("SELECT id FROM input WHERE id IN (SELECT id FROM other)", "it has a subquery"),
        ("SELECT id FROM input WHERE EXISTS (SELECT 1 FROM other)", "it has a subquery"),
        ("SELECT id FROM other", "it reads something else than 'input'"),
        ("SELECT id FROM input UNION ALL SELECT id FROM other", "it reads something else than 'input'"),
        ("WITH a AS (SELECT id FROM other) SELECT id FROM a", "it reads something else than 'input'"),
        ("SELECT * FROM VALUES (1)", "it reads something else than 'input'"),
        ("SELECT * FROM range(3)", "it reads something else than 'input'"),
        ("SELECT 1", "it does not read 'input'"),
        ("DROP VIEW other", "it is not a SELECT"),
        ("INSERT INTO other SELECT id FROM input", "it is not a SELECT"),
        ("SET x = 1", "it is not a SELECT"),
        ("SELECT nope FROM input", "A column, variable, or function parameter with name `nope` cannot be"),
        ("SELEC id FROM input", "Syntax error at or near 'SELEC'"),
        ("SELECT id FROM input; DROP VIEW other", "Syntax error"),
        ("SELECT id FROM nowhere", "The table or view `nowhere` cannot be found"),
        ("SELECT `reflect`('java.lang.System', 'getenv', 'HOME') FROM input", "it calls Java methods"),
        ("SELECT transform(l, x -> `try_reflect`('a.B', 'c')) FROM input", "it calls Java methods"),
        ("SELECT IDENTIFIER('java_' || 'method')('java.lang.Math', 'random') FROM input", "it calls Java"),
    ],
)
def test_anything_else_is_refused_in_one_line_and_not_run(
    session: SparkSession, rows: DataFrame, sql: str, why: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SqlTransform(sql=sql).apply(rows)
    assert str(caught.value).startswith(f"Cannot run the SQL of a transform: {why}")
    assert "\n" not in str(caught.value)
    assert session.catalog.tableExists("other")


def test_a_transform_may_follow_another(rows: DataFrame) -> None:
    first = SqlTransform(sql="SELECT id, s FROM input").apply(rows)
    assert SqlTransform(sql="SELECT id FROM input").apply(first).columns == ["id"]


def test_the_plan_is_looked_at_again_when_the_columns_change(rows: DataFrame) -> None:
    transform = SqlTransform(sql="SELECT s FROM input")
    transform.apply(rows)
    with pytest.raises(ConfigurationError, match="`s` cannot be resolved"):
        transform.apply(rows.select("id"))


def test_what_differs_when_a_batch_is_read_again_is_warned_about() -> None:
    sql = "SELECT rand() AS r, CURRENT_TIMESTAMP, now ( ) AS n, uuid() AS u FROM input -- randn()"
    names = [line.partition("(")[0] for line in SqlTransform(sql=sql).warnings()]
    assert names == ["current_timestamp", "now", "rand", "uuid"]


def test_names_in_texts_and_columns_are_no_reason_to_warn() -> None:
    sql = "SELECT 'rand()' AS a, `uuid()` AS b, random, brand(x), current_timestamps /* now() */ FROM input"
    assert SqlTransform(sql=sql).warnings() == []


def test_no_sql_is_a_problem() -> None:
    with pytest.raises(ValidationError, match="must not be empty"):
        SqlTransform(sql="  ")


@pytest.mark.parametrize("call", ["reflect(", "JAVA_METHOD (", "try_reflect/**/("])
def test_a_call_of_a_java_method_is_a_problem(call: str) -> None:
    with pytest.raises(ValidationError, match="it calls Java methods"):
        SqlTransform(sql=f"SELECT {call}'java.lang.System', 'getenv', 'HOME') FROM input")


def test_a_column_or_text_with_the_name_of_such_a_function_is_none() -> None:
    assert SqlTransform(sql="SELECT reflect, 'reflect(1)' AS java_method, reflects(1) FROM input").sql
