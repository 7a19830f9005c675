"""Random values of all formats and types: the fast way, the slow way and a reference of its own agree.

`make test` runs some of them, `make test-all` 300,000.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import io
import json
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from calve.decode.avro import AvroDecoder
from calve.decode.changes import Records
from calve.decode.connect import Hints
from calve.decode.csv import CsvDecoder
from calve.decode.debezium import DebeziumDecoder
from calve.decode.dialect import Dialect
from calve.decode.division import Division, Mismatch
from calve.decode.exact import exact_column, takes
from calve.decode.json import JsonDecoder
from calve.schema import parse
from tests.decode import reference
from tests.decode.reference import BITS, Exact
from tests.decode.values import RANGE, Refused

DECIMALS = [
    "DECIMAL(38,18)",
    "DECIMAL(38,0)",
    "DECIMAL(38,10)",
    "DECIMAL(37,17)",
    "DECIMAL(10,2)",
    "DECIMAL(18,2)",
]
KINDS = [
    *BITS,
    "FLOAT",
    "DOUBLE",
    "BOOLEAN",
    *DECIMALS,
    "STRING",
    "BINARY",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
]
COUNTS = [pytest.param(150, id="some"), pytest.param(8_000, marks=pytest.mark.full, id="many")]
SEED = 20261118


def digits(chance: random.Random, most: int) -> str:
    count = chance.randint(1, most)
    return str(chance.randrange(10 ** (count - 1), 10**count))


def number(chance: random.Random, kind: str) -> str:
    """A number as JSON writes it, near to where types end."""
    sign = chance.choice(["", "", "-"])
    way = chance.random()
    if kind in BITS and way < 0.5:
        return sign + str(max(0, 2 ** (BITS[kind] - 1) + chance.randint(-3, 3)))
    if way < 0.25:
        return sign + digits(chance, 45)
    if way < 0.6:
        behind = digits(chance, 24).rjust(chance.randint(1, 24), "0")
        return f"{sign}{chance.choice(['0', digits(chance, 24)])}.{behind}{'0' * chance.randint(0, 4)}"
    if way < 0.8:
        return f"{sign}{digits(chance, 20)}e{chance.choice(['', '+', '-'])}{chance.randint(0, 90)}"
    if way < 0.9:
        return chance.choice(
            ["0", "-0", "0.0", "1e400", "-1e400", "1e-400", "3.5e38", "1e999999999", "1" * 400]
        )
    return sign + digits(chance, 12)


def text(chance: random.Random, kind: str) -> str:
    """A text that stands for a value of the kind, or nearly."""
    if kind == "BINARY":
        made = base64.b64encode(chance.randbytes(chance.randint(0, 9))).decode()
        return made if chance.random() < 0.7 else made[:-1] + chance.choice(["", "=", "!", "é"])
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        return time(chance, is_day=kind == "DATE")
    if kind.startswith("DECIMAL") and chance.random() < 0.8:
        return number(chance, kind)
    return chance.choice(
        ["", "a", "é", "😀", "null", "true", "1", "x,y", 'say "x"', "0x10", "1_0", " 1", "NaN", "inf"]
    )


def time(chance: random.Random, is_day: bool) -> str:
    year = chance.choice([chance.randint(1, 9999), 1582, 1970, 2026, 0, 1, 9999])
    month, day = chance.choice(
        [(chance.randint(1, 12), chance.randint(1, 28)), (2, 29), (13, 1), (6, 31), (12, 31)]
    )
    date = f"{year:04}-{month:02}-{day:02}"
    if is_day and chance.random() < 0.9:
        return date
    now = (chance.randint(0, 23), chance.randint(0, 59), chance.randint(0, 59))
    hour, minute, second = chance.choice([now, now, now,
                                          (24, 0, 0), (23, 59, 60)])  # fmt: skip
    fraction = chance.choice(["", "", f".{chance.randint(0, 999999):06}", ".5", ".123456000", ".1234567"])
    zone = chance.choice(["", "", "Z", "+05:30", "-0330", "+01", "-23:59", "+24:00", " Z"])
    return f"{date}{chance.choice('T ')}{hour:02}:{minute:02}:{second:02}{fraction}{zone}"


def tokens(chance: random.Random, kind: str, count: int) -> Iterator[str]:
    for _ in range(count):
        way = chance.random()
        is_number = kind in BITS or kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL")
        if way < 0.05:
            yield chance.choice(
                ["null", "true", "false", "[]", "{}", "[1]", '{"a": 1}', "NaN", "01", '"\\ud83d"']
            )
        elif is_number and way < 0.85:
            yield number(chance, kind)
        elif kind == "BOOLEAN" and way < 0.8:
            yield chance.choice(["true", "false"])
        elif way < 0.9:
            yield json.dumps(text(chance, kind), ensure_ascii=chance.random() < 0.5)
        else:
            yield number(chance, kind)


def fields(chance: random.Random, kind: str, count: int) -> Iterator[str]:
    for _ in range(count):
        way = chance.random()
        if kind == "BOOLEAN" and way < 0.8:
            yield chance.choice(["true", "FALSE", "1", "0"])
        elif way < 0.5 and kind not in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "STRING"):
            yield number(chance, kind)
        else:
            yield text(chance, kind)


def is_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, Exact):
        return (
            isinstance(found, Decimal)
            and Fraction(found) == expected.value
            and -found.as_tuple().exponent == expected.scale
        )
    if isinstance(expected, float):
        return isinstance(found, float) and found.hex() == expected.hex()
    if isinstance(found, dt.datetime) and isinstance(expected, int):
        begin = dt.datetime(1970, 1, 1, tzinfo=found.tzinfo)
        return (found - begin) // dt.timedelta(microseconds=1) == expected
    if isinstance(found, dt.date) and isinstance(expected, int):
        return found.toordinal() - dt.date(1970, 1, 1).toordinal() == expected
    return type(found) is type(expected) and found == expected


def agree(decoder: Any, records: list[bytes], expected: list[Any], chance: random.Random) -> int:
    """Compare both ways with what is expected, however records are cut; how many were compared."""
    at = 0
    while at < len(records):
        size = chance.choice([1, 3, 40, 400, 5000])
        part, wanted = records[at : at + size], expected[at : at + size]
        rows, bad = decoder.sift(pa.array(part, pa.binary()))
        rows.validate(full=True)
        compare(part, rows.column("v").to_pylist(), {one.at: one.reason for one in bad}, wanted)
        at += size
    for record, value in zip(records, expected, strict=True):
        # Alone, and by a decoder that has seen no bad ones yet: nothing else leads the fast way astray.
        decoder._division = Division()
        rows, bad = decoder.sift(pa.array([record], pa.binary()))
        compare([record], rows.column("v").to_pylist(), {one.at: one.reason for one in bad}, [value])
        try:
            found = {0: pa.array([decoder.record(record)[0]], rows.schema.field("v").type)[0].as_py()}
            compare([record], [found[0]], {}, [value])
        except Mismatch as error:
            compare([record], [], {0: error.reason}, [value])
    fitting = [at for at, value in enumerate(expected) if not isinstance(value, Refused)]
    rows = decoder.decode(pa.array([records[at] for at in fitting], pa.binary()), str)
    compare(
        [records[at] for at in fitting], rows.column("v").to_pylist(), {}, [expected[at] for at in fitting]
    )
    return 3 * len(records)


def compare(records: list[bytes], rows: list[Any], bad: dict[int, str], expected: list[Any]) -> None:
    left = iter(rows)
    for at, (record, value) in enumerate(zip(records, expected, strict=True)):
        if isinstance(value, Refused):
            assert bad.get(at) == value.reason, (record, value)
        else:
            assert at not in bad, (record, bad.get(at), value)
            found = next(left)
            assert is_same(found, value), (record, found, value)
    assert next(left, None) is None


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_json_is_what_the_reference_says(kind: str, count: int) -> None:
    chance = random.Random(f"{SEED} json {kind}")
    values = list(tokens(chance, kind, count))
    records = [f'{{"v": {token}}}'.encode() for token in values]
    expected = [reference.of_json(token, kind) for token in values]
    assert agree(JsonDecoder(parse(f"v {kind}")), records, expected, chance) == 3 * count


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_csv_is_what_the_reference_says(kind: str, count: int) -> None:
    chance = random.Random(f"{SEED} csv {kind}")
    values = list(fields(chance, kind, count))
    records = ['"{}"'.format(one.replace('"', '""')).encode() for one in values]
    expected = [reference.of_csv(one, kind) for one in values]
    assert agree(CsvDecoder(parse(f"v {kind}"), Dialect()), records, expected, chance) == 3 * count


def scaled(value: int, scale: int, kind: str) -> Any:
    """What a decimal of digits and a scale is under a declared type."""
    precision, wanted = (int(part) for part in kind[8:-1].split(","))
    exact = Fraction(value, 10**scale)
    whole = exact * 10**wanted
    return Exact(exact, wanted) if whole.denominator == 1 and abs(whole) < 10**precision else RANGE


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", DECIMALS)
def test_decimals_of_avro_debezium_and_arrow_are_what_the_reference_says(kind: str, count: int) -> None:
    chance = random.Random(f"{SEED} decimals {kind}")
    scales = [chance.choice([0, 2, 10, 18, 30]) for _ in range(8)]
    for scale in scales:
        numbers = [int(chance.choice(["", "-"]) + digits(chance, 38)) for _ in range(count // len(scales))]
        expected = [scaled(one, scale, kind) for one in numbers]
        _avro_decimals(kind, scale, numbers, expected, chance)
        _debezium_decimals(kind, scale, numbers, expected)
        _arrow_decimals(kind, scale, numbers, expected)


def _unscaled(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _avro_decimals(
    kind: str, scale: int, numbers: list[int], expected: list[Any], chance: random.Random
) -> None:
    kinds = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": scale}
    told = {"type": "record", "name": "R", "fields": [{"name": "v", "type": kinds}]}
    plain = {"type": "record", "name": "R", "fields": [{"name": "v", "type": "bytes"}]}
    records = [_datum(plain, {"v": _unscaled(one)}) for one in numbers]
    agree(AvroDecoder(parse(f"v {kind}"), json.dumps(told)), records, expected, chance)


def _datum(schema: Any, row: Any) -> bytes:
    held = io.BytesIO()
    fastavro.schemaless_writer(held, schema, row)
    return held.getvalue()


def _debezium_decimals(kind: str, scale: int, numbers: list[int], expected: list[Any]) -> None:
    name = "org.apache.kafka.connect.data.Decimal"
    ways: list[tuple[dict[str, Any], Callable[[int], Any]]] = [
        ({"type": "bytes", "name": name, "parameters": {"scale": str(scale)}},
         lambda one: base64.b64encode(_unscaled(one)).decode()),
        ({"type": "string"}, lambda one: str(Decimal(one).scaleb(-scale, _WIDE))),
    ]  # fmt: skip
    for part, write in ways:
        fields_ = [{"field": "after", "type": "struct", "fields": [{**part, "field": "v"}]}]
        schema = {"type": "struct", "fields": fields_}
        payloads = [{"op": "c", "after": {"v": write(one)}} for one in numbers]
        records = [json.dumps({"schema": schema, "payload": payload}) for payload in payloads]
        values = pa.array([one.encode() for one in records], pa.binary())
        ats = pa.array(range(len(values)), pa.int64())
        made = DebeziumDecoder(parse(f"v {kind}"), Hints()).sift(
            pa.nulls(len(values), pa.binary()), values, Records(ats, ats, str)
        )
        bad = {one.at: one.reason for one in made[2]}
        compare([one.encode() for one in records], made[0].column("v").to_pylist(), bad, expected)


_WIDE = decimal.Context(prec=200)


def _arrow_decimals(kind: str, scale: int, numbers: list[int], expected: list[Any]) -> None:
    column = parse(f"v {kind}").columns[0]
    for one, value in zip(numbers, expected, strict=True):
        array = pa.array([Decimal(one).scaleb(-scale, _WIDE)], pa.decimal128(38, scale))
        _arrow_value(array, column, value)


def _arrow_value(array: Any, column: Any, expected: Any) -> None:
    assert takes(array.type, column.type)
    if isinstance(expected, Refused):
        with pytest.raises(Mismatch) as caught:
            exact_column(array, column)
        assert caught.value.reason == expected.reason, (array, expected)
    else:
        found = exact_column(array, column)
        found.validate(full=True)
        assert is_same(found[0].as_py(), expected), (array, expected)


WIDTHS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", [*BITS, "DOUBLE", "FLOAT", "DECIMAL(18,2)", "DECIMAL(20,0)"])
def test_whole_numbers_of_parquet_and_arrow_are_what_the_reference_says(kind: str, count: int) -> None:
    chance, column = random.Random(f"{SEED} whole {kind}"), parse(f"v {kind}").columns[0]
    for _ in range(count):
        width: Any = chance.choice(WIDTHS)
        low = 0 if str(width).startswith("u") else -(2 ** (width.bit_width - 1))
        high = low + 2**width.bit_width - 1
        near = chance.choice(
            [0, low, high, *(sign * 2**bits for bits in (7, 15, 24, 31, 53, 63) for sign in (1, -1))]
        )
        value = min(high, max(low, near + chance.randint(-2, 2)))
        _arrow_value(pa.array([value], width), column, _of_whole(value, kind))


def _of_whole(value: int, kind: str) -> Any:
    if kind in BITS:
        return reference.of_csv(str(value), kind)
    if kind.startswith("DECIMAL"):
        return scaled(value, 0, kind)
    limit = 2 ** (53 if kind == "DOUBLE" else 24)
    return float(value) if abs(value) <= limit else RANGE


UNITS = {"s": 10**6, "ms": 1000, "us": 1, "ns": None}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_times_of_parquet_and_arrow_are_what_the_reference_says(kind: str, count: int) -> None:
    chance, column = random.Random(f"{SEED} times {kind}"), parse(f"v {kind}").columns[0]
    for _ in range(count):
        unit = chance.choice(list(UNITS))
        anything = chance.randint(-(2**63), 2**63 - 1)
        usual = [chance.randint(-(2**40), 2**40), chance.randint(-(10**15), 10**15) * 1000]
        value = chance.choice([anything, *usual, -62135596800, 253402300799, 253402300800])
        micros = Fraction(value, 1000) if unit == "ns" else Fraction(value * int(UNITS[unit] or 0))
        fits = micros.denominator == 1 and -62135596800000000 <= micros <= 253402300799999999
        zone = chance.choice([None, "UTC", "Europe/Berlin"]) if kind == "TIMESTAMP" else None
        array = pa.array([value], pa.int64()).view(pa.timestamp(unit, zone))
        _arrow_value(array, column, int(micros) if fits else RANGE)


@pytest.mark.parametrize("count", COUNTS)
def test_texts_of_parquet_and_arrow_are_what_the_reference_says(count: int) -> None:
    chance, column = random.Random(f"{SEED} texts"), parse("v STRING").columns[0]
    for _ in range(count):
        data = chance.choice(
            [chance.randbytes(3), "aé😀".encode()[: chance.randint(0, 7)], b"\xed\xa0\x80", b"\xc0\x80"]
        )
        try:
            expected: Any = data.decode("utf-8")
        except UnicodeDecodeError:
            expected = Refused("not_utf8")
        array = pa.array([data], pa.binary())
        _arrow_value(chance.choice([array, array.view(pa.string())]), column, expected)
