"""What rows carry besides their values, behind transforms."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from calve import changes
from calve.errors import ConfigurationError, DataRefused
from calve.gateway import translated
from calve.transforms.carry import Carried, View, transformed
from calve.transforms.sql import SqlTransform

ORDER = "STRUCT<seq: BIGINT, lane: BIGINT, at: BIGINT, part: INT, time: BIGINT>"
COLUMNS = f"""id BIGINT, body STRING, size INT,
    _calve_op STRING, _calve_order {ORDER}, _calve_ts TIMESTAMP, _calve_unknown ARRAY<STRING>"""
UPSERT = Carried(changes.NAMES, View(("id",)))


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


def frame(session: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    told = [
        (id, body, size, op, (None, 0, at, 0, None), None, unknown)
        for at, (op, id, body, size, unknown) in enumerate(rows)
    ]
    return session.createDataFrame(told, COLUMNS)


def over(rows: DataFrame, *queries: str, carried: Carried = UPSERT) -> list[tuple[Any, ...]]:
    made = transformed([SqlTransform(sql=one) for one in queries], rows, carried).frame
    with translated("read"):
        return sorted(made.collect(), key=lambda row: row._calve_order.at)


def test_unknown_columns_are_known_by_their_new_names(session: SparkSession) -> None:
    rows = frame(session, ("u", 1, None, 5, ["body"]), ("u", 2, "b", 5, None), ("u", 3, "c", None, ["size"]))
    found = over(rows, "SELECT id, upper(body) AS text, concat(body, size) AS both, 1 AS one FROM input")
    assert [row._calve_unknown for row in found] == [["text", "both"], None, ["both"]]
    found = over(rows, "SELECT id, body FROM input")
    assert [row._calve_unknown for row in found] == [["body"], None, ["size"]]


def test_a_filter_over_a_column_that_a_change_does_not_know_is_refused(session: SparkSession) -> None:
    rows = frame(session, ("u", 1, None, 5, ["body"]))
    with pytest.raises(DataRefused, match="a filter of a transform looks at body"):
        over(rows, "SELECT id FROM input WHERE body <> 'x'")
    assert len(over(rows, "SELECT id FROM input WHERE size > 1")) == 1


def test_a_truncate_passes_every_filter(session: SparkSession) -> None:
    [row] = over(frame(session, ("t", None, None, None, None)), "SELECT * FROM input WHERE id > 5")
    assert (row._calve_op, row.id) == ("t", None)


def test_what_does_not_pass_and_has_no_key_was_never_there(session: SparkSession) -> None:
    rows = frame(session, ("i", 1, "7", 1, None), ("i", 2, "x", 1, None), ("d", 3, "y", 1, None))
    found = over(rows, "SELECT CAST(body AS BIGINT) AS id FROM input WHERE body RLIKE '^[0-9]+$'")
    assert [(row.id, row._calve_op) for row in found] == [(7, "i")]


def test_transforms_in_a_row_are_one_view(session: SparkSession) -> None:
    rows = frame(session, ("u", 1, "a", 1, None), ("u", 2, "b", 2, None), ("u", 3, "c", 3, None))
    found = over(
        rows, "SELECT id, size * 2 AS n FROM input WHERE size > 1", "SELECT * FROM input WHERE n < 6"
    )
    assert [(row.id, row.n, row._calve_op) for row in found] == [(1, None, "d"), (2, 4, "u"), (3, 6, "d")]


def test_a_struct_of_all_columns_has_the_values_alone(session: SparkSession) -> None:
    [row] = over(frame(session, ("u", 1, "a", 1, None)), "SELECT id, to_json(struct(*)) AS j FROM input")
    assert row.j == '{"id":1,"body":"a","size":1}'


def test_columns_are_carried_through_what_makes_several_rows_where_rows_are_only_added(
    session: SparkSession,
) -> None:
    rows = frame(session, ("i", 1, "a", 1, None), ("d", 2, "b", 1, None))
    sql = "WITH a AS (SELECT id FROM input) SELECT id FROM a UNION ALL SELECT id + 10 FROM a"
    found = over(rows, sql, carried=Carried(changes.NAMES))
    assert sorted((row.id, row._calve_op) for row in found) == [(1, "i"), (2, "d"), (11, "i"), (12, "d")]


def test_a_statement_that_names_one_column_of_changes_must_have_all_of_them(session: SparkSession) -> None:
    rows = frame(session, ("i", 1, "a", 1, None))
    with pytest.raises(ConfigurationError, match="they drop _calve_order, _calve_ts, _calve_unknown"):
        over(rows, "SELECT id, `_calve_op` FROM input")
    assert len(over(rows, "SELECT id, '_calve_op' AS body FROM input -- _calve_op")) == 1
