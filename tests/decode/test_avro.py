"""Avro records become rows."""

import datetime
import decimal
import json
import math
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from calve.decode.avro import AvroDecoder
from calve.decode.schemas import UNKNOWN_FOR, SchemaRegistry
from calve.errors import BadRecord, ConfigurationError, NotPermitted, Unavailable
from calve.schema import Schema, parse
from calve.schema.avro import columns, load
from tests.subjects import Subjects, datum, headed, record

UTC = datetime.timezone.utc
INNER = record(("a", "int"), ("b", ["null", "string"]), name="Inner")
FIXED = {"type": "fixed", "name": "Four", "size": 4}
ID = {"type": "fixed", "name": "Ident", "size": 16, "logicalType": "uuid"}
KINDS: list[tuple[str, Any, Any, Any]] = [
    ("BOOLEAN", "boolean", True, True),
    ("INT", "int", -(2**31), -(2**31)),
    ("TINYINT", "int", 127, 127),
    ("BIGINT", "int", 5, 5),
    ("BIGINT", "long", 2**63 - 1, 2**63 - 1),
    ("INT", "long", 7, 7),
    ("FLOAT", "float", 0.5, 0.5),
    ("DOUBLE", "float", 0.5, 0.5),
    ("DOUBLE", "double", 1e300, 1e300),
    ("DOUBLE", "double", math.inf, math.inf),
    ("BINARY", "bytes", b"\0\xff", b"\0\xff"),
    ("BINARY", FIXED, b"abcd", b"abcd"),
    ("STRING", "string", "größe", "größe"),
    ("STRING", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    (
        "DECIMAL(12,2)",
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        decimal.Decimal("-1234.50"),
        decimal.Decimal("-1234.50"),
    ),
    (
        "DECIMAL(12,4)",
        {**FIXED, "logicalType": "decimal", "precision": 8, "scale": 2},
        decimal.Decimal("3.25"),
        decimal.Decimal("3.2500"),
    ),
    ("DATE", {"type": "int", "logicalType": "date"}, datetime.date(1969, 7, 20), datetime.date(1969, 7, 20)),
    (
        "STRING",
        {"type": "int", "logicalType": "time-millis"},
        datetime.time(1, 2, 3, 4000),
        "01:02:03.004000",
    ),
    ("STRING", {"type": "long", "logicalType": "time-micros"}, datetime.time(23, 59, 59), "23:59:59"),
    ("BIGINT", {"type": "long", "logicalType": "time-micros"}, datetime.time(0, 0, 1), 1_000_000),
    *(
        (
            "TIMESTAMP",
            {"type": "long", "logicalType": f"timestamp-{unit}"},
            datetime.datetime(1960, 1, 1, 0, 0, 0, 123000, tzinfo=UTC),
            datetime.datetime(1960, 1, 1, 0, 0, 0, 123000, tzinfo=UTC),
        )
        for unit in ("millis", "micros")
    ),
    (
        "TIMESTAMP_NTZ",
        {"type": "long", "logicalType": "local-timestamp-micros"},
        datetime.datetime(2026, 1, 1, 0, 0, 0, 1),
        datetime.datetime(2026, 1, 1, 0, 0, 0, 1),
    ),
    (
        "TIMESTAMP",
        {"type": "long", "logicalType": "timestamp-nanos"},
        1_700_000_000_000_001_000,
        datetime.datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC),
    ),
    (
        "TIMESTAMP",
        {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"},
        "2026-01-01T00:00:00+01:00",
        datetime.datetime(2025, 12, 31, 23, tzinfo=UTC),
    ),
    ("STRING", {"type": "string", "logicalType": "uuid"}, str(uuid.UUID(int=7)), str(uuid.UUID(int=7))),
    ("STRING", ID, uuid.UUID(int=7).bytes, str(uuid.UUID(int=7))),
    ("STRUCT<b: STRING, a: BIGINT>", INNER, {"a": 1, "b": None}, {"b": None, "a": 1}),
    ("ARRAY<INT>", {"type": "array", "items": ["null", "int"]}, [1, None, 3], [1, None, 3]),
    (
        "MAP<STRING, STRUCT<a: INT>>",
        {"type": "map", "values": INNER},
        {"k": {"a": 1, "b": "x"}},
        [("k", {"a": 1})],
    ),
]


def place(index: int) -> str:
    return f"record {index}"


def rows(decoder: AvroDecoder, *records: bytes | None) -> list[dict[str, Any]]:
    batch = decoder.decode(pa.array(list(records), pa.binary()), place)
    batch.validate(full=True)
    return batch.to_pylist()


def plain(schema: Any, ddl: str | None = None) -> AvroDecoder:
    text = json.dumps(schema)
    return AvroDecoder(columns(load(text)) if ddl is None else parse(ddl), own=text)


def reason(decoder: AvroDecoder, *records: bytes | None) -> str:
    with pytest.raises(BadRecord) as caught:
        rows(decoder, *records)
    assert caught.value.place == f"record {len(records) - 1}"
    return caught.value.reason


@pytest.mark.parametrize(
    ("ddl", "type_", "value", "expected"), KINDS, ids=[f"{k[0]}-{n}" for n, k in enumerate(KINDS)]
)
def test_a_value_of_each_type_is_read(ddl: str, type_: Any, value: Any, expected: Any) -> None:
    one = record(("x", type_))
    assert rows(plain(one, f"x {ddl} NOT NULL"), datum(one, {"x": value})) == [{"x": expected}]
    several = record(("skipped", ["int", "string"]), ("x", ["null", type_]))
    records = [datum(several, {"skipped": "s", "x": one}) for one in (value, None, value)]
    assert rows(plain(several, f"x {ddl}"), *records) == [{"x": expected}, {"x": None}, {"x": expected}]


@pytest.mark.parametrize(
    ("ddl", "type_"),
    [
        ("INT", "string"),
        ("STRING", "int"),
        ("FLOAT", "double"),
        ("DOUBLE", "long"),
        ("BOOLEAN", "int"),
        ("TIMESTAMP", "long"),
        ("TIMESTAMP_NTZ", {"type": "long", "logicalType": "timestamp-micros"}),
        ("TIMESTAMP", {"type": "long", "logicalType": "local-timestamp-micros"}),
        ("DECIMAL(12,2)", "double"),
        ("BINARY", {"type": "bytes", "logicalType": "decimal", "precision": 3}),
        ("ARRAY<INT>", "int"),
        ("STRUCT<a: INT>", {"type": "map", "values": "int"}),
        ("MAP<INT, INT>", {"type": "map", "values": "int"}),
    ],
)
def test_a_type_that_does_not_fit_its_column_is_refused(ddl: str, type_: Any) -> None:
    assert "which is not a" in reason(plain(record(("x", type_)), f"x {ddl}"), b"\0")


@pytest.mark.parametrize(
    ("ddl", "type_", "value", "why"),
    [
        ("TINYINT", "int", 128, "128"),
        ("INT", "long", 2**31, "2147483648"),
        (
            "DECIMAL(4,1)",
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            b"\x01\x01",
            "data loss",
        ),
        ("DECIMAL(2,0)", {"type": "bytes", "logicalType": "decimal", "precision": 9}, b"\x7f", "precision"),
        ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-nanos"}, 1, "finer than a microsecond"),
        ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-micros"}, 2**62, "calendar"),
        ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-millis"}, 2**62, "overflow"),
        ("DATE", {"type": "int", "logicalType": "date"}, 2**31 - 1, "calendar"),
        ("STRING", {"type": "int", "logicalType": "time-millis"}, 86_400_001, "no time of a day"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_column(
    ddl: str, type_: Any, value: Any, why: str
) -> None:
    written = (
        {key: one for key, one in type_.items() if key != "logicalType"} if isinstance(type_, dict) else type_
    )
    good = datum(record(("x", written)), {"x": b"\0" if isinstance(value, bytes) else 0})
    bad = datum(record(("x", written)), {"x": value})
    told = reason(plain(record(("x", type_)), f"x {ddl}"), good, bad)
    assert told.startswith("column 'x': ")
    assert why in told


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a record of the schema"),
        (b"\x02", "not a record of the schema"),
        (b"\x02\x02a\x00", "1 bytes are left over"),
        (b"\x02\x02\xff", "a text is not valid UTF-8"),
        (b"\x00\x00\x00\x00\x07\x02\x02a", "declare schema.registry"),
        (None, "the value is null"),
    ],
)
def test_bytes_that_are_no_record_are_refused(data: bytes | None, why: str) -> None:
    schema = record(("id", "long"), ("name", "string"))
    good = datum(schema, {"id": 1, "name": "a"})
    assert why in reason(plain(schema), good, data)


def test_a_null_where_there_must_be_none_is_refused() -> None:
    schema = record(("x", ["null", "int"]))
    assert reason(plain(schema, "x INT NOT NULL"), datum(schema, {"x": None})) == "column 'x': NULL"
    assert "not in the schema of the writer" in reason(
        plain(schema, "y INT NOT NULL"), datum(schema, {"x": 1})
    )
    assert rows(plain(schema, "y INT"), datum(schema, {"x": 1})) == [{"y": None}]


def test_a_bad_record_among_many_is_found() -> None:
    schema = record(("x", "long"))
    records = [datum(schema, {"x": number}) for number in range(1000)]
    records[700] = b"\x80"
    with pytest.raises(BadRecord) as caught:
        rows(plain(schema), *records)
    assert caught.value.place == "record 700"


@pytest.fixture
def subjects() -> Iterator[Subjects]:
    with Subjects() as running:
        yield running


def registered(subjects: Subjects, schema: Schema, **more: Any) -> AvroDecoder:
    return AvroDecoder(schema, registry=SchemaRegistry(subjects.url), **more)


def test_each_record_is_read_with_the_schema_it_was_written_with(subjects: Subjects) -> None:
    first, second = record(("id", "int")), record(("name", ["null", "string"]), ("id", "long"))
    old, new = (subjects.register("t-value", schema) for schema in (first, second))
    records = [headed(old, datum(first, {"id": n})) for n in range(5)]
    records[2] = headed(new, datum(second, {"id": 2**40, "name": "n"}))
    found = rows(registered(subjects, parse("id BIGINT NOT NULL, name STRING")), *records)
    assert [row["id"] for row in found] == [0, 1, 2**40, 3, 4]
    assert [row["name"] for row in found] == [None, None, "n", None, None]


def test_a_schema_is_asked_for_once(subjects: Subjects) -> None:
    schema = record(("id", "int"))
    number = subjects.register("t-value", schema)
    for _ in range(3):
        rows(registered(subjects, parse("id INT")), *[headed(number, datum(schema, {"id": 1}))] * 200)
    assert subjects.asked == [f"/schemas/ids/{number}"]


def test_a_default_of_the_reader_stands_for_a_field_that_the_writer_did_not_have(subjects: Subjects) -> None:
    old = record(("id", "int"), ("called", "string"))
    new = record(
        ("id", "int"),
        {"name": "name", "type": "string", "aliases": ["called"]},
        {"name": "count", "type": "int", "default": 7},
    )
    number = subjects.register("t-value", old)
    reader = load(json.dumps(new))
    decoder = registered(subjects, columns(reader), reader=reader)
    found = rows(decoder, headed(number, datum(old, {"id": 1, "called": "x"})))
    assert found == [{"id": 1, "name": "x", "count": 7}]


def test_references_are_followed(subjects: Subjects) -> None:
    inner = record(("a", "int"), name="shop.Inner")
    outer = record(("x", "shop.Inner"), name="shop.Outer")
    subjects.register("shop.Inner", inner)
    number = subjects.register("t-value", outer, references=["shop.Inner"])
    body = headed(number, datum(inner, {"a": 5}))
    assert rows(registered(subjects, parse("x STRUCT<a: INT>")), body) == [{"x": {"a": 5}}]


def test_an_id_that_nobody_registered_is_a_bad_record(subjects: Subjects) -> None:
    told = reason(registered(subjects, parse("x INT")), headed(9, b"\0"))
    assert told == "the schema registry has no schema of id 9"
    assert "does not begin with the id" in reason(registered(subjects, parse("x INT")), b'{"x": 1}')
    number = subjects.register("p", "syntax = 'proto3';", kind="PROTOBUF")
    assert "PROTOBUF" in reason(registered(subjects, parse("x INT")), headed(number, b"\0"))


def test_a_registry_that_is_away_or_refuses_is_no_bad_record(subjects: Subjects) -> None:
    schema = record(("id", "int"))
    one = headed(subjects.register("t-value", schema), datum(schema, {"id": 1}))
    subjects.failing = 1
    with pytest.raises(Unavailable, match="it answers 503"):
        rows(registered(subjects, parse("id INT")), one)
    subjects.authorization = "Bearer secret"
    with pytest.raises(NotPermitted, match="it answers 401"):
        rows(registered(subjects, parse("id INT")), one)
    let_in = SchemaRegistry(subjects.url, "Bearer secret")
    assert "secret" not in repr(let_in)
    assert rows(AvroDecoder(parse("id INT"), registry=let_in), one) == [{"id": 1}]
    with pytest.raises(Unavailable, match="Cannot reach the schema registry"):
        rows(AvroDecoder(parse("id INT"), registry=SchemaRegistry("http://127.0.0.1:1")), one)


def test_credentials_go_to_no_other_address(subjects: Subjects) -> None:
    with Subjects("Bearer secret") as other:
        schema = record(("id", "int"))
        one = headed(other.register("t-value", schema), datum(schema, {"id": 1}))
        subjects.moved_to = other.url
        with pytest.raises(ConfigurationError, match="it answers 302"):
            rows(AvroDecoder(parse("id INT"), registry=SchemaRegistry(subjects.url, "Bearer secret")), one)
        assert other.asked == []


def test_an_id_that_nobody_registered_is_asked_for_once_a_minute(
    subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = registered(subjects, parse("x INT"))
    for _ in range(5):
        assert reason(decoder, headed(9, b"\0")) == "the schema registry has no schema of id 9"
    assert subjects.asked == ["/schemas/ids/9"]
    later = time.monotonic() + UNKNOWN_FOR + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    reason(decoder, headed(9, b"\0"))
    assert subjects.asked == ["/schemas/ids/9"] * 2


def test_a_404_that_is_not_the_registrys_own_is_no_bad_record(subjects: Subjects) -> None:
    subjects.missing = {"detail": "no such route"}
    with pytest.raises(ConfigurationError, match="does not answer like one: it answers 404"):
        rows(registered(subjects, parse("x INT")), headed(9, b"\0"))


def test_references_in_a_circle_are_refused(subjects: Subjects) -> None:
    subjects.register("a", record(("x", "int"), name="a"), references=["b"])
    subjects.register("b", record(("x", "int"), name="b"), references=["a"])
    number = subjects.register("t-value", record(("x", "int")), references=["a"])
    with pytest.raises(ConfigurationError, match="references of subject 'a' form a circle"):
        rows(registered(subjects, parse("x INT")), headed(number, b"\0"))


def test_each_reference_is_asked_for_once(subjects: Subjects) -> None:
    names = [f"r{number}" for number in range(12)]
    for number, name in enumerate(names):
        below = names[max(0, number - 2) : number]
        subjects.register(name, record(("x", "int"), name=name), references=below)
    number = subjects.register("t-value", record(("x", "int")), references=names[-2:])
    assert rows(registered(subjects, parse("x INT")), headed(number, b"\2")) == [{"x": 1}]
    assert len(subjects.asked) == len(names) + 1


def test_a_registry_gets_no_more_than_a_fixed_number_of_requests_for_references(subjects: Subjects) -> None:
    names = [f"r{number}" for number in range(300)]
    for name in names:
        subjects.register(name, record(("x", "int"), name=name))
    number = subjects.register("t-value", record(("x", "int")), references=names)
    with pytest.raises(ConfigurationError, match="more than 200 references"):
        rows(registered(subjects, parse("x INT")), headed(number, b"\0"))
    assert len(subjects.asked) == 201


def test_a_proxy_of_the_environment_does_not_get_the_credentials(
    subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Subjects() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        schema = record(("id", "int"))
        one = headed(subjects.register("t-value", schema), datum(schema, {"id": 1}))
        assert rows(registered(subjects, parse("id INT")), one) == [{"id": 1}]
        assert proxy.asked == []
