"""Partition fields and sort fields."""

from __future__ import annotations

import pytest

from calve.partitioning import PartitionField, SortField, partition_field, refusal, sort_fields
from calve.schema import parse


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("region", PartitionField("identity", "region")),
        ("`a b`", PartitionField("identity", "a b")),
        ("address.zip", PartitionField("identity", "address.zip")),
        ("day(order_date)", PartitionField("day", "order_date")),
        ("YEAR( order_date )", PartitionField("year", "order_date")),
        ("month(x)", PartitionField("month", "x")),
        ("hour(x)", PartitionField("hour", "x")),
        ("bucket(16, id)", PartitionField("bucket", "id", 16)),
        ("truncate(4,zip)", PartitionField("truncate", "zip", 4)),
        ("bucket(4, `a``b`)", PartitionField("bucket", "a`b", 4)),
    ],
)
def test_partition_fields_are_read(text: str, field: PartitionField) -> None:
    assert partition_field(text) == field


@pytest.mark.parametrize(
    "text", ["", "a b", "day()", "bucket(id)", "bucket(0, id)", "bucket(id, 16)", "day(a, b)"]
)
def test_what_is_no_partition_field_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a partition field"):
        partition_field(text)


def test_an_unknown_transform_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown transform 'week'; one of year, month, day, hour"):
        partition_field("week(a)")


@pytest.mark.parametrize("text", ["region", "day(a)", "bucket(16, id)", "truncate(4, zip)"])
def test_a_partition_field_is_shown_as_it_is_declared(text: str) -> None:
    assert str(partition_field(text)) == text


def test_sort_fields_are_read() -> None:
    assert sort_fields("order_date desc nulls last, id, `a b` ASC NULLS LAST, c desc nulls first") == (
        SortField("order_date", descending=True, nulls_first=False),
        SortField("id"),
        SortField("a b", nulls_first=False),
        SortField("c", descending=True, nulls_first=True),
    )


def test_a_comma_in_backticks_is_part_of_the_name() -> None:
    assert [field.column for field in sort_fields("`a,b` desc, c, `d``,e`")] == ["a,b", "c", "d`,e"]


def test_nulls_come_first_when_rising_and_last_when_falling() -> None:
    assert [str(field) for field in sort_fields("a, b desc")] == ["a asc nulls first", "b desc nulls last"]


@pytest.mark.parametrize("text", ["", "a down", "a nulls", "a,", "a asc desc"])
def test_what_is_no_sort_field_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a sort field"):
        sort_fields(text)


@pytest.mark.parametrize(
    ("text", "column", "fits"),
    [
        ("day(a)", "a timestamp", True),
        ("day(a)", "a date", True),
        ("hour(a)", "a date", False),
        ("year(a)", "a string", False),
        ("bucket(4, a)", "a decimal(5,2)", True),
        ("bucket(4, a)", "a double", False),
        ("bucket(4, a)", "a varchar(5)", True),
        ("truncate(4, a)", "a string", True),
        ("truncate(4, a)", "a timestamp", False),
        ("day(a)", "a decimal(5,2)", False),
        ("a", "a boolean", True),
        ("a", "a array<int>", False),
    ],
)
def test_a_transform_fits_some_types(text: str, column: str, fits: bool) -> None:
    assert (refusal(partition_field(text), parse(column)) is None) == fits


def test_a_partition_is_not_called_as_a_column_is() -> None:
    message = "cannot partition by 'day(a)': the partition would be called as column 'a_day' is"
    assert refusal(partition_field("day(a)"), parse("a date, a_day int")) == message
