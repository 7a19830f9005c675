"""Debezium's envelopes in Avro give the changes that the same ones in JSON give."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from calve.decode.changes import Records
from calve.decode.connect import Hints
from calve.decode.debezium import DebeziumDecoder
from calve.decode.placeholder import TEXT
from calve.decode.schemas import SchemaRegistry
from calve.decode.transcoding import RegisteredDebeziumDecoder
from calve.errors import BadRecord
from calve.schema import parse
from calve.schema.avro import envelope_columns, load
from tests.subjects import Subjects, datum, headed, record

UNSCALED = {
    "type": "bytes",
    "scale": 2,
    "precision": 12,
    "connect.name": "org.apache.kafka.connect.data.Decimal",
}
VARIABLE = record(("scale", "int"), ("value", "bytes"), name="Variable") | {
    "connect.name": "io.debezium.data.VariableScaleDecimal"
}
FIELDS: dict[str, Any] = {
    "id": "long",
    "name": "string",
    "small": {"type": "int", "connect.type": "int16"},
    "ratio": "double",
    "flag": "boolean",
    "amount": {**UNSCALED, "logicalType": "decimal"},
    "free": VARIABLE,
    "day": {"type": "int", "connect.name": "io.debezium.time.Date"},
    "placed": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
    "seen": {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"},
    "clock": {"type": "long", "connect.name": "io.debezium.time.MicroTime"},
    "data": "bytes",
    "tags": {"type": "array", "items": ["null", "string"]},
    "stock": {"type": "map", "values": "int"},
}
COLUMNS = (
    "id BIGINT NOT NULL, name STRING, small SMALLINT, ratio DOUBLE, flag BOOLEAN, amount DECIMAL(12,2), "
    "free DECIMAL(20,5), day DATE, placed TIMESTAMP, seen TIMESTAMP, clock STRING, data BINARY, "
    "tags ARRAY<STRING>, stock MAP<STRING, INT>"
)
ROW: dict[str, Any] = {
    "id": 7,
    "name": "größe",
    "small": -3,
    "ratio": 0.1,
    "flag": True,
    "amount": b"\xff\x38",
    "free": {"scale": 3, "value": b"\x04\xd2"},
    "day": -5,
    "placed": 1_700_000_000_123_456,
    "seen": "2026-01-01T00:00:00.5Z",
    "clock": 3_600_000_001,
    "data": b"\0\xff",
    "tags": ["a", None],
    "stock": {"x": 1},
}
NOTHING = dict.fromkeys(FIELDS)
SOURCE = {"lsn": 500, "ts_ms": 1_700_000_000_123}
KEY = record(("id", "long"), name="Key")


def envelope_schema(fields: dict[str, Any] = FIELDS) -> dict[str, Any]:
    row = record(
        *((name, type_ if name == "id" else ["null", type_]) for name, type_ in fields.items()), name="Value"
    )
    source = record(("lsn", ["null", "long"]), ("ts_ms", "long"), name="Source")
    parts = ("before", ["null", row]), ("after", ["null", "Value"]), ("source", source), ("op", "string")
    return record(*parts, ("any", ["null", "int", "string"]), ("ts_ms", ["null", "long"]), name="Envelope")


def envelope(op: str, **members: Any) -> dict[str, Any]:
    return {"before": None, "after": None, "source": SOURCE, "op": op, "any": 1, "ts_ms": None, **members}


def in_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: in_json(one) for key, one in value.items()}
    return [in_json(one) for one in value] if isinstance(value, list) else value


@pytest.fixture
def subjects() -> Iterator[Subjects]:
    with Subjects() as running:
        yield running


def changed(decoder: DebeziumDecoder, pairs: list[tuple[Any, Any]]) -> list[dict[str, Any]]:
    count = len(pairs)
    there = Records(
        pa.array([3] * count, pa.int64()), pa.array(range(count), pa.int64()), lambda i: f"record {i}"
    )
    keys, values = (pa.array([pair[side] for pair in pairs], pa.binary()) for side in (0, 1))
    batch, _ = decoder.changes(keys, values, there)
    batch.validate(full=True)
    return batch.to_pylist()


class Both:
    """The same records in Avro and in JSON without a schema part, which hints replace."""

    def __init__(self, subjects: Subjects, columns: str = COLUMNS) -> None:
        self.number = subjects.register("t-value", envelope_schema())
        self.key = subjects.register("t-key", KEY)
        self.columns, self.registry = parse(columns), SchemaRegistry(subjects.url)

    def avro(self, *envelopes: Any) -> list[dict[str, Any]]:
        schema = envelope_schema()
        pairs = [
            (
                headed(self.key, datum(KEY, {"id": 7})),
                one if one is None else headed(self.number, datum(schema, one)),
            )
            for one in envelopes
        ]
        return changed(RegisteredDebeziumDecoder(self.columns, Hints(), None, self.registry), pairs)

    def json(self, *envelopes: Any) -> list[dict[str, Any]]:
        pairs = [
            (b'{"id": 7}', one if one is None else json.dumps(_clocked(in_json(one))).encode())
            for one in envelopes
        ]
        return changed(DebeziumDecoder(self.columns, Hints("us", "base64"), None), pairs)


def _clocked(told: dict[str, Any]) -> dict[str, Any]:
    """Without a schema part nobody knows a time of day, and a decimal of its own scale is a text."""
    for row in (told["before"], told["after"]):
        if row and row["clock"] is not None:
            row |= {"clock": "01:00:00.000001", "free": {"scale": 3, "value": "BNI="}}
    return told


@pytest.mark.parametrize(
    "envelopes",
    [
        [envelope("c", after=ROW)],
        [envelope("r", after=ROW | {"id": number}) for number in range(200)],
        [envelope("u", before=ROW, after=ROW | {"name": None}), None],
        [envelope("u", before=ROW | {"id": 6}, after=ROW)],
        [envelope("d", before=NOTHING | {"id": 7}), None, envelope("t")],
        [envelope("u", after=ROW | {"name": TEXT, "data": TEXT.encode(), "tags": [TEXT]})],
    ],
    ids=["insert", "snapshot", "update", "key", "delete", "not sent"],
)
def test_the_changes_are_those_of_json(subjects: Subjects, envelopes: list[Any]) -> None:
    without_free = COLUMNS.replace("free DECIMAL(20,5), ", "")
    both = Both(subjects, without_free)
    found = both.avro(*envelopes)
    assert found == both.json(*envelopes)
    assert found


def test_every_type_has_its_value(subjects: Subjects) -> None:
    (row,) = Both(subjects).avro(envelope("c", after=ROW))
    assert str(row["amount"]) == "-2.00"
    assert str(row["free"]) == "1.23400"
    assert (str(row["day"]), row["clock"], row["data"]) == ("1969-12-27", "01:00:00.000001", b"\0\xff")
    assert str(row["placed"]) == "2023-11-14 22:13:20.123456+00:00"
    assert row["_calve_order"] == {"seq": 500, "lane": 3, "at": 0, "part": 0, "time": None}


def test_the_columns_come_from_the_envelope() -> None:
    fields = {name: type_ for name, type_ in FIELDS.items() if name != "free"}
    found = envelope_columns(load(json.dumps(envelope_schema(fields))))
    expected = COLUMNS.replace("free DECIMAL(20,5), ", "").replace("placed TIMESTAMP", "placed TIMESTAMP_NTZ")
    assert found == parse(expected.replace("small SMALLINT", "small INT"))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"op": "c"}', "does not begin with the id"),
        (headed(9, b""), "no schema of id 9"),
        (headed(300, b"\x02"), "not a record of schema 300"),
    ],
)
def test_a_record_that_is_none_is_refused(subjects: Subjects, value: bytes, why: str) -> None:
    both = Both(subjects)
    good = headed(both.number, datum(envelope_schema(), envelope("c", after=ROW)))
    decoder = RegisteredDebeziumDecoder(both.columns, Hints(), None, both.registry)
    with pytest.raises(BadRecord, match=why) as caught:
        changed(decoder, [(None, good), (None, value)])
    assert caught.value.place == "record 1"


def test_a_number_that_is_not_finite_is_refused(subjects: Subjects) -> None:
    with pytest.raises(BadRecord, match="not finite"):
        Both(subjects).avro(envelope("c", after=ROW | {"ratio": float("nan")}))


def test_envelopes_in_json_may_have_ids_too(subjects: Subjects) -> None:
    number = subjects.register("t-value", "{}", kind="JSON")
    decoder = RegisteredDebeziumDecoder(parse("id BIGINT"), Hints(), None, SchemaRegistry(subjects.url))
    value = headed(number, json.dumps({"op": "c", "after": {"id": 5}}).encode())
    (row,) = changed(decoder, [(headed(number, b'{"id": 5}'), value)])
    assert (row["id"], row["_calve_op"]) == (5, "i")
