"""Texts that SQL makes of bytes."""

import pytest
from pyspark.sql import SparkSession

from calve.errors import DataRefused
from calve.gateway import translated
from calve.transforms.texts import with_valid_texts

BAD, GOOD = "CAST(unhex('FFFE') AS STRING)", "CAST(unhex('C3A9') AS STRING)"
SHAPES = [
    "{}",
    "array('a', {})",
    "named_struct('a', {})",
    "map('k', {})",
    "map({}, 1)",
    "array(map('k', array({})))",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_text_that_is_no_utf8_is_refused_wherever_it_is(spark: SparkSession, shape: str) -> None:
    frame = spark.sql(f"SELECT 1 AS id, IF(id = 7, {shape.format(BAD)}, NULL) AS v FROM range(10)")
    why = "Cannot write the rows: column 'v': a text is not valid UTF-8"
    with pytest.raises(DataRefused, match=why), translated("read"):
        with_valid_texts(frame).collect()


def test_other_rows_are_as_they_were(spark: SparkSession) -> None:
    shapes = ", ".join(f"{shape.format(GOOD)} AS `v {number}`" for number, shape in enumerate(SHAPES))
    frame = spark.sql(f"SELECT 1 AS id, CAST(NULL AS STRING) AS n, {shapes} FROM range(3)")
    checked = with_valid_texts(frame)
    assert checked.collect() == frame.collect()
    assert checked.schema == frame.schema
    assert with_valid_texts(frame.select("id")).schema == frame.select("id").schema


def test_what_a_filter_leaves_out_is_not_looked_at(spark: SparkSession) -> None:
    frame = spark.sql(f"SELECT IF(id = 7, {BAD}, 'x') AS v FROM range(10)").where("is_valid_utf8(v)")
    assert with_valid_texts(frame).count() == 9
    assert len(with_valid_texts(frame).collect()) == 9
