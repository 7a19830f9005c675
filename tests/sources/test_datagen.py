"""Generated rows: what is declared, how they are paced, and that they are always the same."""

import time
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from calve.sources.datagen import DatagenSource
from calve.sources.source import Limits

LIMITS = Limits(1_000_000)
EVERY = {
    "id": {"type": "sequence", "start": 10, "step": 5},
    "small": {"type": "int", "min": -3, "max": 3},
    "large": {"type": "bigint", "min": -(2**61), "max": 2**61},
    "ratio": {"type": "double", "min": 2.0, "max": 4.0},
    "price": {"type": "decimal", "precision": 18, "scale": 18, "max": "0.5"},
    "units": {"type": "decimal", "precision": 5, "scale": 0, "min": -20, "max": -10},
    "colour": {"type": "choice", "values": ["red", "green"], "weights": [9, 1]},
    "level": {"type": "choice", "values": [1, 2, 3]},
    "code": {"type": "string", "length": 20},
    "user": {"type": "string", "template": "user-{}", "distinct": 7},
    "flag": {"type": "boolean", "probability": 1.0},
    "at": {"type": "timestamp", "start": "2024-01-01T00:00:00Z", "step": "10s"},
    "some_time": {"type": "timestamp", "start": "2024-01-01", "end": "2024-01-02"},
    "day": {"type": "date", "start": "2024-01-01", "end": "2024-01-03"},
    "key": "uuid",
    "maybe": {"type": "int", "nulls": 0.5},
}


def source(**keys: Any) -> DatagenSource:
    return DatagenSource.model_validate(keys)


def test_without_fields_it_makes_orders() -> None:
    assert source().columns().ddl() == (
        "id BIGINT NOT NULL, customer STRING NOT NULL, status STRING NOT NULL, "
        "amount DECIMAL(12,2) NOT NULL, region STRING NOT NULL, order_date TIMESTAMP NOT NULL"
    )


def test_bounded_rows_are_there_at_once_and_then_it_has_ended() -> None:
    bounded = source(rows=10)
    assert bounded.start() == {"row": 0}
    first = bounded.latest({"row": 0}, Limits(6))
    assert (first.to, first.rows, first.more, first.ended) == ({"row": 6}, 6, True, False)
    last = bounded.latest(first.to, Limits(6))
    assert (last.to, last.rows, last.more, last.ended) == ({"row": 10}, 4, False, True)
    assert bounded.latest(last.to, Limits(6)).rows == 0


def test_endless_rows_turn_up_by_the_second_the_first_second_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    endless = source(rows_per_second=50)
    assert endless.latest({"row": 0}, LIMITS).to == {"row": 50}
    clock[0] += 2
    waiting = endless.latest({"row": 50}, LIMITS)
    assert (waiting.to, waiting.ended) == ({"row": 150}, False)


def test_after_a_restart_the_time_it_was_down_is_not_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1e6)
    assert source().latest({"row": 5000}, LIMITS).to == {"row": 6000}


def test_bounded_rows_can_be_paced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    paced = source(rows=120, rows_per_second=100)
    assert paced.latest({"row": 0}, LIMITS).rows == 100
    clock[0] += 5
    assert paced.latest({"row": 100}, LIMITS).to == {"row": 120}


def test_another_seed_is_another_source() -> None:
    assert source(seed=1).identity() != source(seed=2).identity()


def test_check_tells_how_much_there_is() -> None:
    assert source(rows=5).check() == ["5 rows of 6 fields"]
    assert source().check() == ["endless rows of 6 fields"]


@pytest.mark.parametrize(
    "field",
    [
        "nothing",
        {"type": "int", "min": 2, "max": 1},
        {"type": "int", "max": 2**31},
        {"type": "decimal", "precision": 2, "max": 100},
        {"type": "choice", "values": []},
        {"type": "choice", "values": [1, "a"]},
        {"type": "choice", "values": [1, 2], "weights": [1]},
        {"type": "choice", "values": [1, 2], "weights": [0, 0]},
        {"type": "string", "template": "user"},
        {"type": "timestamp", "step": "1s", "end": "2030-01-01"},
        {"type": "timestamp", "end": "2000-01-01"},
        {"type": "date", "start": "2024-01-02", "end": "2024-01-01"},
        {"type": "boolean", "nulls": 2},
        {"type": "boolean", "minimum": 2},
    ],
)
def test_a_generator_that_cannot_be_is_a_problem(field: Any) -> None:
    with pytest.raises(ValidationError):
        source(fields={"a": field})


def test_two_fields_of_one_name_are_a_problem() -> None:
    with pytest.raises(ValidationError, match="same name"):
        source(fields={"a": "uuid", "A": "uuid"})


@pytest.mark.spark
def test_rows_have_the_declared_columns_and_keep_within_their_bounds(spark: SparkSession) -> None:
    made = source(fields=EVERY)
    frame = made.read(spark, {"row": 0}, {"row": 2000})
    columns = {field["name"]: field for field in frame.schema.jsonValue()["fields"]}
    assert [columns[name] for name in frame.columns] == made.columns().to_spark_json()["fields"]
    rows = frame.collect()
    assert [row.id for row in rows[:3]] == [10, 15, 20]
    assert {row.small for row in rows} == set(range(-3, 4))
    assert all(2 <= row.ratio < 4 and Decimal(0) <= row.price <= Decimal("0.5") for row in rows)
    assert {row.units for row in rows} == {Decimal(number) for number in range(-20, -9)}
    assert 1700 < sum(row.colour == "red" for row in rows) < 1900
    assert {row.level for row in rows} == {1, 2, 3}
    assert all(len(row.code) == 20 and row.flag and len(row.key) == 36 for row in rows)
    assert {row.user for row in rows} == {f"user-{number}" for number in range(7)}
    assert len({row.key for row in rows}) == 2000
    assert (rows[1].at - rows[0].at).total_seconds() == 10
    assert {row.day.day for row in rows} == {1, 2, 3}
    assert 900 < sum(row.maybe is None for row in rows) < 1100


@pytest.mark.spark
def test_a_row_is_the_same_however_it_is_read(spark: SparkSession) -> None:
    made = source(fields=EVERY, seed=7)
    whole = made.read(spark, {"row": 0}, {"row": 1000}).collect()
    parts = [made.read(spark, {"row": at}, {"row": at + 250}).repartition(3) for at in range(0, 1000, 250)]
    again = sorted((row for part in parts for row in part.collect()), key=lambda row: row.id)
    assert again == whole
    assert source(fields=EVERY, seed=8).read(spark, {"row": 0}, {"row": 1000}).collect() != whole
