"""Partitions found with Arrow beside those of PyIceberg, and what Iceberg's specification says."""

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg import transforms, types

from calve.iceberg.partitions import Field, as_json, divided, path
from calve.partitioning import is_divided

DRAWN = random.Random(7)
LONGS = [0, 1, -1, 34, 2**62, -(2**62), None, *(DRAWN.randint(-(2**62), 2**62) for _ in range(50))]
TEXTS = ["", "a", "ab", "abc", "abcd", "iceberg", "größe 🧊", None]
TEXTS += ["".join(DRAWN.choices("abäö🧊", k=DRAWN.randint(0, 30))) for _ in range(50)]
DECIMALS = [Decimal(one) for one in ("14.20", "-0.01", "0.00", "1234567.89", "-1.28", "-1.29", "1.27")]
DAYS = [dt.date(2017, 11, 16), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]
MOMENTS = [
    dt.datetime(2017, 11, 16, 22, 31, 8),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1500, 1, 1),
    None,
]
COLUMNS = {
    types.LongType(): pa.array(LONGS, pa.int64()),
    types.IntegerType(): pa.array([0, 1, -1, 34, 2**31 - 1, 10 - 2**31, None], pa.int32()),
    types.StringType(): pa.array(TEXTS),
    types.BinaryType(): pa.array([b"", b"\x00\x01\x02\x03", None, b"\xff" * 7], pa.binary()),
    types.DecimalType(9, 2): pa.array([*DECIMALS, None], pa.decimal128(9, 2)),
    types.DateType(): pa.array(DAYS),
    types.TimestampType(): pa.array(MOMENTS, pa.timestamp("us")),
    types.TimestamptzType(): pa.array(MOMENTS, pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
}
TRANSFORMS = {
    "bucket": (transforms.BucketTransform, (1, 4, 1000)),
    "truncate": (transforms.TruncateTransform, (1, 3, 10)),
    "year": (transforms.YearTransform, ()),
    "month": (transforms.MonthTransform, ()),
    "day": (transforms.DayTransform, ()),
    "hour": (transforms.HourTransform, ()),
    "identity": (transforms.IdentityTransform, ()),
}


def known():
    for name, (kind, sizes) in TRANSFORMS.items():
        for column, values in COLUMNS.items():
            if is_divided(name, str(column)):
                for size in sizes or (0,):
                    yield pytest.param(name, kind(size) if size else kind(), column, values, size)


def as_iceberg(value):
    """A value as PyIceberg's transforms take and give it."""
    if isinstance(value, dt.datetime):
        return int((value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1))
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    return value


@pytest.mark.parametrize(("name", "transform", "kind", "values", "size"), list(known()))
@pytest.mark.parametrize("first", [0, 2])
def test_rows_are_divided_as_iceberg_says(name, transform, kind, values, size, first):
    rows = pa.RecordBatch.from_arrays([values, pa.array(range(len(values)))], names=["c", "row"]).slice(first)
    found = {}
    for (value,), part in divided(rows, (Field("c", ("c",), name, size),)):
        found |= dict.fromkeys(part.column("row").to_pylist(), as_iceberg(value))
    wanted = transform.transform(kind)
    given = dict(enumerate(map(as_iceberg, values.to_pylist())))
    assert found == {row: wanted(value) for row, value in given.items() if row >= first}


def test_rows_without_partitions_stay_together():
    rows = pa.RecordBatch.from_pydict({"c": [1, 2]})
    assert list(divided(rows, ())) == [((), rows)]


def test_rows_are_divided_by_all_fields_at_once_also_inside_structs():
    rows = pa.RecordBatch.from_pydict({"a": [1, 1, 2, 1], "s": [{"x": "u"}, {"x": "v"}, {"x": "u"}, None]})
    fields = (Field("a", ("a",), "identity"), Field("s.x", ("s", "x"), "identity"))
    assert {values: len(part) for values, part in divided(rows, fields)} == {
        (1, "u"): 1,
        (1, "v"): 1,
        (2, "u"): 1,
        (1, None): 1,
    }


def test_decimals_of_38_digits_keep_all_of_them():
    held = pa.array([Decimal("1234567890123456789012345678.0123456789")], pa.decimal128(38, 10))
    rows = pa.RecordBatch.from_arrays([held], names=["c"])
    (((value,), _),) = divided(rows, (Field("c", ("c",), "truncate", 10),))
    assert str(value) == "1234567890123456789012345678.0123456780"


def test_folders_are_called_as_iceberg_calls_them():
    fields = [
        Field("y", (), "year"), Field("m", (), "month"), Field("d", (), "day"), Field("h", (), "hour"),
        Field("b", (), "bucket", 4), Field("odd name", (), "identity"), Field("f", (), "identity"),
    ]  # fmt: skip
    values = (-1, -1, dt.date(1969, 12, 31), -1, 3, "a/b c=ü", True)
    folders = "y=1969/m=1969-12/d=1969-12-31/h=1969-12-31-23/b=3/odd+name=a%2Fb+c%3D%C3%BC/f=true/"
    assert path(tuple(fields), values) == folders
    assert path((fields[0],), (None,)) == "y=null/"


def test_values_become_json():
    assert list(map(as_json, (None, True, 5, "x", dt.date(2026, 1, 2), Decimal("1.50")))) == [
        None,
        True,
        5,
        "x",
        "2026-01-02",
        "1.50",
    ]


def test_what_is_not_known_is_left_alone():
    assert not is_divided("identity", "timestamp")
    assert not is_divided("void", "int")
    assert is_divided("bucket", "decimal(9, 2)")
