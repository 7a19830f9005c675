"""What is told of columns beside what PyIceberg and Iceberg read from the same files."""

import datetime as dt
import io
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.iceberg import arrow, java, metrics
from calve.iceberg.metrics import COUNTS, ID, WHOLE, leaves
from calve.iceberg.parquet import Format, writer

LAST = "\U0010ffff"
KEY = pa.field("key", pa.string(), False, {ID: b"6"})
DRAWN = random.Random(11)


def column(name, kind, number):
    return pa.field(name, kind, True, {ID: str(number).encode()})


def told(kind, groups, length=16, nans=None):
    """What is told of a column with field id 7, of which each of `groups` is a row group."""
    schema = pa.schema([column("c", kind, 7)])
    out, footers = io.BytesIO(), []
    with pq.ParquetWriter(out, schema, store_decimal_as_integer=True, metadata_collector=footers) as made:
        for values in groups:
            made.write_table(pa.table([pa.array(values, kind)], schema=schema))
    lengths = {} if length is None else {7: length}
    found = metrics.told(footers[0], leaves(schema), lengths, nans or {})
    return {name: dict(zip(*both.values(), strict=True)).get(7) for name, both in found.items()}


def bounds(kind, *groups, length=16):
    found = told(kind, groups, length)
    return tuple(one and bytes.fromhex(one) for one in (found["lower-bounds"], found["upper-bounds"]))


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.bool_(), [True, None, False], (b"\x00", b"\x01")),
        (pa.int32(), [-2, 1, None], (b"\xfe\xff\xff\xff", b"\x01\x00\x00\x00")),
        (pa.int64(), [5], (b"\x05" + 7 * b"\x00",) * 2),
        (pa.float32(), [1.5, float("nan")], (b"\x00\x00\xc0\x3f",) * 2),
        (pa.float64(), [1.5], (b"\x00" * 6 + b"\xf8\x3f",) * 2),
        (pa.date32(), [dt.date(1969, 12, 31)], (b"\xff\xff\xff\xff",) * 2),
        (pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1)], (8 * b"\x00",) * 2),
        (pa.decimal128(9, 2), [Decimal("-1.28"), Decimal("1.27")], (b"\x80", b"\x7f")),
        (pa.decimal128(38, 2), [Decimal("-1.29"), Decimal("1.28")], (b"\xff\x7f", b"\x00\x80")),
        (pa.string(), ["größe", "🧊"], ("größe".encode(), "🧊".encode())),
        (pa.binary(), [b"\x00", b"\xff"], (b"\x00", b"\xff")),
    ],
)
def test_bounds_are_as_iceberg_writes_them(kind, values, expected):
    assert bounds(kind, values) == expected


@pytest.mark.parametrize(
    ("text", "upper"),
    [
        ("abc", "abc"),
        ("abcd", "abd"),
        ("ab\ud7ffx", "ab\ue000"),
        (f"ab{LAST}x", "ac"),
        (f"{LAST * 3}x", None),
        ("äöü🧊", "äöý"),
    ],
)
def test_long_texts_are_shortened_to_something_behind_them(text, upper):
    found = bounds(pa.string(), [text], length=3)
    assert found == (text[:3].encode(), upper and upper.encode())
    assert upper is None or upper >= text


@pytest.mark.parametrize(
    ("raw", "upper"), [(b"\x01\xff\xff", b"\x02"), (b"\xff\xff\xff", None), (b"a", b"a")]
)
def test_long_bytes_are_shortened_to_something_behind_them(raw, upper):
    assert bounds(pa.binary(), [raw], length=2) == (raw[:2], upper)


def test_row_groups_have_bounds_together():
    assert bounds(pa.string(), ["b"], [None], ["a", "c"]) == (b"a", b"c")
    found = told(pa.string(), (["b"], [None], ["a", "c"]))
    assert (found["value-counts"], found["null-value-counts"]) == (4, 1)


def test_a_row_group_without_bounds_is_not_hidden_by_the_others():
    long = 5_000 * "x"
    assert bounds(pa.string(), ["a"], [long]) == (None, None)
    assert bounds(pa.string(), [long], [None], ["a"]) == (None, None)


def test_what_is_not_a_number_is_counted_and_has_no_bounds():
    nan = float("nan")
    assert bounds(pa.float64(), [nan], [0.0])[0] is not None
    found = told(pa.float64(), ([nan, nan],), nans={7: 2})
    assert (found["nan-value-counts"], found["lower-bounds"], found["value-counts"]) == (2, None, 2)


def test_a_table_is_told_what_it_wants_to_know():
    assert set(told(pa.string(), (["a"],), None, {7: 1}).values()) == {None}
    counted = told(pa.string(), (["a", None],), COUNTS)
    assert (counted["value-counts"], counted["lower-bounds"]) == (2, None)
    long = 1_000 * "é"
    assert bounds(pa.string(), [long], length=WHOLE) == (long.encode(),) * 2


def test_of_what_is_inside_lists_and_maps_only_the_size_is_told():
    kind = pa.struct(
        [
            column("x", pa.int32(), 2),
            column("l", pa.list_(column("element", pa.int32(), 4)), 3),
            column(
                "m",
                pa.map_(pa.field("key", pa.string(), False, {ID: b"6"}), column("value", pa.int32(), 7)),
                5,
            ),
        ]
    )
    schema = pa.schema([column("s", kind, 1), column("last", pa.int64(), 8)])
    found = list(leaves(schema))
    assert [(one.number, ".".join(one.path), one.is_repeated) for one in found] == [
        (2, "s.x", False),
        (4, "s.l.element", True),
        (6, "s.m.key", True),
        (7, "s.m.value", True),
        (8, "last", False),
    ]
    out, footers = io.BytesIO(), []
    row = {"s": {"x": 1, "l": [1, 2], "m": [("a", 1)]}, "last": 9}
    rows = pa.Table.from_pylist([row], schema)
    with writer(out, rows, Format("zstd", 2**20), footers) as made:
        made.write_table(rows)
    said = metrics.told(footers[0], found, {one.number: 16 for one in found}, {})
    assert said["column-sizes"]["keys"] == [2, 4, 6, 7, 8]
    assert said["value-counts"]["keys"] == said["lower-bounds"]["keys"] == [2, 8]


def _drawn(kind, count):
    """Some values of `kind`, some of them NULL."""
    make = {
        pa.string(): lambda: "".join(DRAWN.choices(f"aä🧊\ud7ff{LAST}", k=DRAWN.randint(0, 40))),
        pa.binary(): lambda: DRAWN.randbytes(DRAWN.randint(0, 40)),
        pa.int64(): lambda: DRAWN.randint(-(2**62), 2**62),
        pa.float64(): lambda: DRAWN.choice([float("nan"), 0.0, -0.0, DRAWN.gauss(0, 1e9)]),
        pa.decimal128(9, 2): lambda: Decimal(DRAWN.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-2),
        pa.decimal128(38, 2): lambda: Decimal(DRAWN.randint(-(10**27), 10**27)).scaleb(-2),
    }[kind]
    return pa.array([None if DRAWN.random() < 0.2 else make() for _ in range(count)], kind)


@pytest.mark.spark
def test_iceberg_reads_the_same_from_the_files(lake):
    ddl = "t STRING, b BINARY, i BIGINT, f DOUBLE, d DECIMAL(9,2), e DECIMAL(38,2)"
    one = lake.table(columns=ddl)
    schema = arrow.schema_of(one.java.schema())
    util = lake.spark._jvm.org.apache.iceberg.parquet.ParquetUtil
    config = lake.spark._jvm.org.apache.iceberg.MetricsConfig.forTable(one.java)
    for _ in range(25):
        count = DRAWN.randint(1, 40)
        rows = pa.table([_drawn(field.type, count) for field in schema], schema=schema)
        (file,) = arrow.write(one, rows, Format("zstd", 2**20)).files
        read = util.fileMetrics(one.java.io().newInputFile(file.location()), config)
        for name in ("columnSizes", "valueCounts", "nullValueCounts"):
            assert dict(getattr(file, name)()) == dict(getattr(read, name)()), name
        assert _bytes(file.lowerBounds()) == _bytes(read.lowerBounds())
        assert _bytes(file.upperBounds()) == _bytes(read.upperBounds())


def _bytes(bounds):
    plain = java.Statics("org.apache.iceberg.util.ByteBuffers").toByteArray
    return {number: bytes(plain(buffer)) for number, buffer in bounds.items()}
