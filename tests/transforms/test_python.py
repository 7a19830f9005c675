"""A function of the user over a batch."""

import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession

from calve.errors import BadRecord, CalveError, ConfigurationError
from calve.gateway import translated
from calve.transforms.python import PythonTransform

CODE = """
from pyspark.sql import functions as f

number = 7

def double(rows):
    return rows.withColumn("id", f.col("id") * 2)

def udf(rows):
    plus = f.udf(lambda value: helper(value), "bigint")
    return rows.withColumn("id", plus("id"))

def helper(value):
    return value + number

def fails(rows):
    raise KeyError("a\\nb")

def nothing(rows):
    pass

def missing(rows):
    return rows.select("nope")

def grouped(rows):
    return rows.groupBy("id").count()

def distinct(rows):
    return rows.distinct()

def sampled(rows):
    return rows.sample(0.5)

def limited(rows):
    return rows.limit(1)

def sorted_(rows):
    return rows.orderBy("id")

def windowed(rows):
    from pyspark.sql import Window
    return rows.withColumn("n", f.row_number().over(Window.orderBy("id")))

def joined_to_itself(rows):
    return rows.join(rows.withColumnRenamed("id", "other"), f.col("id") == f.col("other"))

def other(rows):
    return rows.sparkSession.range(3)

def more(rows):
    return rows.union(rows.sparkSession.range(3))

def enriched(rows):
    return rows.join(f.broadcast(rows.sparkSession.range(1, 3)), "id").repartition(2)

def mapped(rows):
    return rows.mapInPandas(lambda parts: parts, "id BIGINT")

def exits(rows):
    import sys
    sys.exit(3)

def fails_in_a_worker(rows):
    return rows.withColumn("id", f.udf(lambda value: 1 // 0, "bigint")("id"))
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    name = f"mine_{uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(CODE)
    yield name
    sys.path[:] = [path for path in sys.path if path != str(tmp_path)]


def transform(tmp_path: Path, function: str) -> PythonTransform:
    return PythonTransform.model_validate({"python": function}, context={"directory": str(tmp_path)})


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.newSession().range(1, 4)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def test_a_function_beside_the_declaration_is_found(tmp_path: Path, module: str, rows: DataFrame) -> None:
    assert ids(transform(tmp_path, f"{module}:double").apply(rows)) == [2, 4, 6]


def test_its_own_functions_travel_to_workers_that_do_not_have_the_module(
    tmp_path: Path, module: str, rows: DataFrame
) -> None:
    assert ids(transform(tmp_path, f"{module}:udf").apply(rows)) == [8, 9, 10]


@pytest.mark.parametrize(("function", "expected"), [("enriched", [1, 2]), ("mapped", [1, 2, 3])])
def test_what_makes_rows_of_one_row_each_is_allowed(
    tmp_path: Path, module: str, rows: DataFrame, function: str, expected: list[int]
) -> None:
    assert ids(transform(tmp_path, f"{module}:{function}").apply(rows)) == expected


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("fails", "KeyError: 'a\\nb'"),
        ("nothing", "it returned nothing, not a DataFrame"),
        ("missing", "A column, variable, or function parameter with name `nope` cannot be resolved"),
        ("absent", "has no function 'absent'"),
        ("exits", "it ends the process, by sys.exit(3); raise an exception instead"),
        ("grouped", "it aggregates, and a batch is not the whole stream"),
        ("distinct", "it removes duplicates"),
        ("sampled", "it samples"),
        ("limited", "it limits the rows"),
        ("sorted_", "it sorts"),
        ("windowed", "it uses a window function"),
        ("joined_to_itself", "it joins the rows to themselves"),
        ("other", "the plan of what it returned does not read the rows that it was given"),
        ("more", "it reads something else than the rows that it was given"),
    ],
)
def test_what_goes_wrong_is_told_in_one_line(
    tmp_path: Path, module: str, rows: DataFrame, function: str, why: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        transform(tmp_path, f"{module}:{function}").apply(rows)
    assert why in str(caught.value)
    assert str(caught.value).startswith(f"Cannot run '{module}:{function}': ")
    assert "\n" not in str(caught.value)


def test_a_module_that_is_not_there_is_told(tmp_path: Path, rows: DataFrame) -> None:
    with pytest.raises(ConfigurationError, match="ModuleNotFoundError: No module named 'not_there'"):
        transform(tmp_path, "not_there:f").apply(rows)


def test_an_error_in_a_worker_is_the_users(tmp_path: Path, module: str, rows: DataFrame) -> None:
    frame = transform(tmp_path, f"{module}:fails_in_a_worker").apply(rows)
    with pytest.raises(CalveError) as caught, translated("write the batch"):
        frame.collect()
    assert type(caught.value) is ConfigurationError
    assert not isinstance(caught.value, BadRecord)
    assert "ZeroDivisionError" in str(caught.value)


@pytest.mark.parametrize("text", ["module", "module:", ":f", "a b:c", "os.path:join:x"])
def test_a_name_that_is_none_is_a_problem(text: str) -> None:
    with pytest.raises(ValidationError):
        PythonTransform(python=text)


def test_it_has_nothing_to_warn_about() -> None:
    assert PythonTransform(python="a:b").warnings() == []
