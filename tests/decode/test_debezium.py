"""Debezium's envelopes become changes."""

import base64
import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from calve import changes
from calve.decode.changes import Records
from calve.decode.connect import Hints
from calve.decode.debezium import DebeziumDecoder
from calve.decode.placeholder import AS_UUID, ENCODED, TEXT
from calve.errors import BadRecord
from calve.schema import Schema, parse

ORDERS = "id BIGINT NOT NULL, name STRING NOT NULL, note STRING"
UTC = datetime.timezone.utc
POSTGRES = {"connector": "postgresql", "lsn": 500, "ts_ms": 1_700_000_000_123}
Value = dict[str, Any] | bytes | str | None


def place(index: int) -> str:
    return f"record {index}"


def encoded(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def changed(schema: str | Schema, *records: tuple[Value, Value], **keys: Any) -> list[dict[str, Any]]:
    """The changes of pairs of a key and a value, in partition 3 from offset 10 on."""
    schema = parse(schema) if isinstance(schema, str) else schema
    fields = keys.pop("key_fields", None)
    decoder = DebeziumDecoder(schema, Hints(**keys), fields)
    count = len(records)
    there = Records(pa.array([3] * count, pa.int64()), pa.array(range(10, 10 + count), pa.int64()), place)
    names, values = ([encoded(pair[side]) for pair in records] for side in (0, 1))
    batch, origins = decoder.changes(pa.array(names, pa.binary()), pa.array(values, pa.binary()), there)
    batch.validate(full=True)
    assert batch.schema.names == [*schema.names, *changes.NAMES]
    assert len(origins) == batch.num_rows
    return batch.to_pylist()


def envelope(op: str, **members: Any) -> dict[str, Any]:
    return {"before": None, "after": None, "op": op, "source": POSTGRES, **members}


def reason(schema: str, key: Value, value: Value, **keys: Any) -> str:
    good = ({"id": 0}, envelope("t"))
    with pytest.raises(BadRecord) as caught:
        changed(schema, good, (key, value), **keys)
    assert caught.value.place == "record 1"
    return caught.value.reason


def values(row: dict[str, Any]) -> list[Any]:
    return [value for name, value in row.items() if name not in changes.NAMES]


def part(type_: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": type_, "optional": True, **({"name": name} if name else {}), **more}


def wrapped(payload: dict[str, Any], columns: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A record with its schema part."""
    row = {"type": "struct", "fields": [{"field": name, **told} for name, told in columns.items()]}
    fields = [{"field": "before", **row}, {"field": "after", **row}, {"field": "op", "type": "string"}]
    return {"schema": {"type": "struct", "fields": fields, "name": "shop.Envelope"}, "payload": payload}


@pytest.mark.parametrize(("op", "code"), [("c", "i"), ("r", "i"), ("u", "u")])
def test_a_row_that_is_there_is_what_it_is_after_the_change(op: str, code: str) -> None:
    [row] = changed(ORDERS, ({"id": 1}, envelope(op, after={"id": 1, "name": "a", "other": 7})))
    assert row == {
        "id": 1,
        "name": "a",
        "note": None,
        "_calve_op": code,
        "_calve_order": {"seq": 500, "lane": 3, "at": 10, "part": 0, "time": None},
        "_calve_ts": datetime.datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "_calve_unknown": None,
    }


def test_the_schema_part_may_be_there_or_not_in_one_topic() -> None:
    payload = envelope("c", after={"id": 1, "name": "a"})
    columns = {"id": part("int64"), "name": part("string"), "note": part("string")}
    records = [payload, wrapped(payload, columns), {"schema": None, "payload": payload}]
    assert [values(row) for row in changed(ORDERS, *((None, one) for one in records))] == [[1, "a", None]] * 3


def test_tombstones_and_messages_are_no_changes() -> None:
    message = {"op": "m", "message": {"prefix": "x"}}
    rows = changed(
        ORDERS,
        ({"id": 1}, None),
        (None, message),
        (None, {"schema": None, "payload": None}),
        (None, envelope("c", after={"id": 2, "name": "b"})),
    )
    assert [(row["id"], row["_calve_order"]["at"]) for row in rows] == [(2, 13)]


def test_a_truncate_has_no_values() -> None:
    [row] = changed(ORDERS, (None, envelope("t")))
    assert (values(row), row["_calve_op"]) == ([None] * 3, "t")


def test_a_delete_needs_no_more_than_its_key() -> None:
    rows = changed(
        ORDERS,
        ({"id": 1}, envelope("d", before={"id": 1, "name": "a", "note": "n"})),
        ({"id": 2}, envelope("d", before={"id": 2, "name": None})),
        ({"id": 3}, envelope("d")),
        ({"schema": {"type": "struct", "fields": []}, "payload": {"id": 4}}, envelope("d")),
        (None, envelope("d", before={"id": 5})),
    )
    assert [values(row) for row in rows] == [
        [1, "a", "n"],
        [2, None, None],
        [3, None, None],
        [4, None, None],
        [5, None, None],
    ]
    assert {row["_calve_op"] for row in rows} == {"d"}


def test_a_delete_without_a_key_is_refused() -> None:
    why = "a delete whose key is neither in 'before' nor in the key of the record"
    assert reason(ORDERS, None, envelope("d")) == why
    assert reason(ORDERS, None, envelope("d", before={"name": "x"}), key_fields=("id",)) == why
    assert reason(ORDERS, {"id": None}, envelope("d")) == why
    assert reason(ORDERS, {"id": 1}, envelope("d", before={"id": 1}), key_fields=("name",)) == why


def test_a_row_that_is_there_must_have_what_is_not_null() -> None:
    assert "column 'name': missing" in reason(ORDERS, {"id": 1}, envelope("u", after={"id": 1}))
    assert "column 'name': NULL" in reason(ORDERS, {"id": 1}, envelope("c", after={"id": 1, "name": None}))


def test_an_update_that_changes_the_key_is_a_delete_and_a_new_row() -> None:
    old, new = {"id": 1, "name": "a", "note": TEXT}, {"id": 2, "name": "b"}
    gone, there = changed(ORDERS, ({"id": 2}, envelope("u", before=old, after=new)))
    assert (values(gone), gone["_calve_op"], gone["_calve_order"]["part"]) == ([1, "a", None], "d", 0)
    assert (values(there), there["_calve_op"], there["_calve_order"]["part"]) == ([2, "b", None], "u", 1)
    assert gone["_calve_unknown"] is there["_calve_unknown"] is None


@pytest.mark.parametrize("before", [None, {"id": 2, "name": "other"}, {"id": None}, {}])
def test_an_update_that_keeps_its_key_is_one_change(before: dict[str, Any] | None) -> None:
    after = {"id": 2, "name": "b"}
    assert len(changed(ORDERS, ({"id": 2}, envelope("u", before=before, after=after)))) == 1


def test_key_fields_count_before_the_key_of_the_record() -> None:
    change = envelope("u", before={"id": 1, "name": "a"}, after={"id": 1, "name": "b"})
    assert len(changed(ORDERS, ({"id": 1}, change))) == 1
    gone, there = changed(ORDERS, ({"id": 1}, change), key_fields=("name",))
    assert (gone["name"], there["name"]) == ("a", "b")


def test_a_key_that_is_no_object_or_not_of_the_schema_is_told() -> None:
    gone = envelope("d", before={"id": 1})
    assert reason(ORDERS, b"\xff", gone) == "the key of the record: not valid UTF-8 at byte 1"
    assert reason(ORDERS, "17", gone) == "the key of the record: not a JSON object but a number"
    assert "'other' of the record's key is not a column" in reason(ORDERS, {"other": 1}, gone)
    assert "is not a column" in reason("s STRUCT<x: INT>", {"s.x": 1}, gone)
    assert changed(ORDERS, (b"\xff", gone), key_fields=("id",))[0]["id"] == 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "the value is empty"),
        ("[]", "not a JSON object but an array"),
        ("{", "not valid JSON"),
        ({"id": 1}, "no envelope of Debezium: it has no 'op'"),
        (envelope("x"), "'x' is no operation of Debezium"),
        ({"op": 1}, "'1' is no operation of Debezium"),
        (envelope("c"), "there is no 'after'"),
        (envelope("u", after=[1]), "'after' is an array, not an object"),
        (envelope("c", after={"id": 1, "name": "a"}, source=7), "'source' is a number, not an object"),
        (envelope("c", after={"id": 1, "name": "a"}, source={"lsn": "x"}), "'lsn' is 'x'"),
        (envelope("c", after={"id": 1, "name": "a"}, source={"lsn": 1 << 63}), "out of range"),
        (envelope("c", after={"id": "1", "name": "a"}), "column 'id': '1' is not a BIGINT"),
        ({"schema": {"type": "string"}, "payload": envelope("c", after={})}, "the schema part is no struct"),
        ('{"op": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
)
def test_what_is_no_change_is_refused_in_words(value: Value, why: str) -> None:
    assert why in reason(ORDERS, {"id": 1}, value)


TOASTED = (
    "id BIGINT, s STRING NOT NULL, b BINARY, d DECIMAL(9,2), a ARRAY<STRING>, n ARRAY<INT>, f ARRAY<DOUBLE>, "
    "x ARRAY<BINARY>, e ARRAY<DECIMAL(9,2)>, m MAP<STRING, STRING>"
)


def test_values_that_were_not_sent_are_null_and_named() -> None:
    digits = [base64.b64encode(bytes([byte])).decode() for byte in TEXT.encode()]
    sent = {"s": TEXT, "b": ENCODED, "d": ENCODED, "a": [TEXT], "n": list(TEXT.encode())}
    sent |= {"f": [float(byte) for byte in TEXT.encode()], "x": [ENCODED], "e": digits, "m": {TEXT: TEXT}}
    [row] = changed(TOASTED, (None, envelope("u", after={"id": 1, **sent})))
    assert values(row) == [1] + [None] * 9
    assert row["_calve_unknown"] == list("sbdanfxem")
    hstore = json.dumps({TEXT: TEXT}, separators=(",", ":"))
    more = {"s": hstore, "d": TEXT, "a": [AS_UUID], "b": "AAH/"}
    [row] = changed(TOASTED, (None, envelope("u", after={"id": 1, **more})))
    assert (row["b"], row["_calve_unknown"]) == (b"\x00\x01\xff", ["s", "d", "a"])


def test_what_only_looks_like_the_placeholder_is_a_value() -> None:
    sent = {"s": f"{TEXT} ", "a": [TEXT, "x"], "n": list(TEXT.encode())[:-1], "m": {TEXT: "x"}}
    [row] = changed(TOASTED, (None, envelope("u", after={"id": 1, **sent})))
    assert row["_calve_unknown"] is None
    assert (row["s"], row["a"], row["m"]) == (sent["s"], sent["a"], [(TEXT, "x")])
    assert changed("s STRING", (None, envelope("c", after={"s": ENCODED})))[0]["s"] == ENCODED


def test_a_key_that_was_not_sent_is_refused() -> None:
    change = envelope("u", before={"id": 1, "name": "a"}, after={"id": 1, "name": TEXT})
    assert "part of the key" in reason(ORDERS, {"name": "a"}, change)
    assert "part of the key" in reason(ORDERS, {"id": 1}, {**change, "before": None}, key_fields=("name",))


@pytest.mark.parametrize(
    ("source", "sequence"),
    [
        ({"lsn": 24023128, "ts_ms": 5}, 24023128),
        ({"lsn": None, "ts_ms": 5}, None),
        ({"file": "binlog.000003", "pos": 154, "ts_ms": 5}, 3 << 40 | 154),
        ({"file": "mysql-bin.2.000010", "pos": 4}, 10 << 40 | 4),
        ({"file": "", "pos": 0}, None),
        ({"ts_ms": 5, "change_lsn": "0001:0002"}, 5),
        ({}, None),
        (None, None),
    ],
)
def test_the_order_is_that_of_the_databases_log(source: Any, sequence: int | None) -> None:
    [row] = changed("id INT", (None, envelope("c", after={"id": 1}, source=source)))
    assert row["_calve_order"] == {"seq": sequence, "lane": 3, "at": 10, "part": 0, "time": None}


def test_a_later_binlog_is_later_whatever_the_position() -> None:
    sources = [{"file": "b.000009", "pos": (1 << 40) - 1}, {"file": "b.000010", "pos": 0}]
    rows = changed("id INT", *((None, envelope("c", after={"id": 1}, source=one)) for one in sources))
    assert rows[0]["_calve_order"]["seq"] < rows[1]["_calve_order"]["seq"]
    far = envelope("c", after={"id": 1}, source={"file": "b.000001", "pos": 1 << 40})
    assert "out of range" in reason("id INT", None, far)


@pytest.mark.parametrize(
    ("source", "more", "micros"),
    [
        ({"ts_ms": 2, "ts_us": 2500, "ts_ns": 2_500_999}, {"ts_ms": 9}, 2500),
        ({"ts_ms": 2, "ts_ns": 2_500_999}, {}, 2500),
        ({"ts_ms": 2}, {"ts_us": 9}, 2000),
        ({}, {"ts_ms": 9}, 9000),
        ({}, {}, None),
    ],
)
def test_the_time_is_that_of_the_change_as_finely_as_it_is_known(
    source: Any, more: Any, micros: int | None
) -> None:
    [row] = changed("id INT", (None, envelope("c", after={"id": 1}, source=source, **more)))
    expected = micros if micros is None else datetime.datetime.fromtimestamp(micros / 1e6, UTC)
    assert row["_calve_ts"] == expected


def typed(ddl: str, told: dict[str, Any], found: Any) -> Any:
    record = wrapped(envelope("c", after={"v": found}), {"v": told})
    return values(changed(f"v {ddl}", (None, record))[0])[0]


AT = datetime.datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
EPOCH = datetime.date(1970, 1, 1)
MICROS = 1_714_564_800_250_000
DECIMAL = part("bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})
VARIABLE = part("struct", "io.debezium.data.VariableScaleDecimal")


@pytest.mark.parametrize(
    ("ddl", "told", "found", "value"),
    [
        ("TIMESTAMP", part("int64", "io.debezium.time.Timestamp"), MICROS // 1000, AT),
        ("TIMESTAMP", part("int64", "org.apache.kafka.connect.data.Timestamp"), MICROS // 1000, AT),
        ("TIMESTAMP", part("int64", "io.debezium.time.MicroTimestamp"), MICROS, AT),
        ("TIMESTAMP_NTZ", part("int64", "io.debezium.time.MicroTimestamp"), MICROS, AT.replace(tzinfo=None)),
        ("TIMESTAMP", part("int64", "io.debezium.time.NanoTimestamp"), MICROS * 1000, AT),
        ("TIMESTAMP", part("string", "io.debezium.time.ZonedTimestamp"), "2024-05-01T14:00:00.25+02:00", AT),
        ("STRING", part("string", "io.debezium.time.ZonedTimestamp"), "2024-05-01T12:00:00Z", ...),
        ("DATE", part("int32", "io.debezium.time.Date"), 19844, AT.date()),
        ("DATE", part("int32", "org.apache.kafka.connect.data.Date"), -1, datetime.date(1969, 12, 31)),
        ("STRING", part("int32", "io.debezium.time.Time"), 43_200_250, "12:00:00.250000"),
        ("STRING", part("int64", "io.debezium.time.MicroTime"), 86_400_000_000, "24:00:00"),
        ("STRING", part("int64", "io.debezium.time.NanoTime"), 1000, "00:00:00.000001"),
        ("BIGINT", part("int64", "io.debezium.time.MicroTime"), 5, 5),
        ("DECIMAL(12,2)", DECIMAL, "BOI=", decimal.Decimal("12.50")),
        ("DECIMAL(12,4)", DECIMAL, "+x4=", decimal.Decimal("-12.50")),
        ("DECIMAL(12,2)", DECIMAL, "1234", decimal.Decimal("-26588.24")),
        ("DECIMAL(12,2)", VARIABLE, {"scale": 1, "value": "fQ=="}, decimal.Decimal("12.5")),
        ("DECIMAL(12,2)", part("string"), "1234", decimal.Decimal("1234")),
        ("DECIMAL(12,2)", part("double"), 12.5, decimal.Decimal("12.5")),
        ("STRING", part("string", "io.debezium.data.Uuid"), "5f2c…", ...),
        ("STRING", part("string", "io.debezium.data.Json"), '{"a": 1}', ...),
        ("STRING", part("string", "io.debezium.data.Enum"), "red", ...),
        ("BOOLEAN", part("boolean"), True, ...),
        ("BIGINT", part("int32"), 7, ...),
        ("DOUBLE", part("float"), 0.5, ...),
        ("BINARY", part("bytes"), "AAH/", b"\x00\x01\xff"),
        ("ARRAY<DATE>", part("array", items=part("int32", "io.debezium.time.Date")), [0], [EPOCH]),
    ],
)
def test_the_schema_part_says_how_a_value_is_written(
    ddl: str, told: dict[str, Any], found: Any, value: Any
) -> None:
    assert typed(ddl, told, found) == (found if value is ... else value)


def test_the_schema_part_counts_inside_structs_and_keys_too() -> None:
    at = part("int64", "io.debezium.time.Timestamp")
    told = part("struct", fields=[{"field": "at", **at}])
    assert typed("STRUCT<at: TIMESTAMP>", told, {"at": MICROS // 1000}) == {"at": AT}
    key = {"schema": {"type": "struct", "fields": [{"field": "v", **at}]}, "payload": {"v": MICROS // 1000}}
    assert changed("v TIMESTAMP", (key, envelope("d")))[0]["v"] == AT


@pytest.mark.parametrize(
    ("ddl", "told", "found", "why"),
    [
        ("TIMESTAMP", part("int64"), 5, "the record's schema says int64, which is not a TIMESTAMP"),
        ("DATE", part("int64", "io.debezium.time.Timestamp"), 5, "which is not a DATE"),
        ("BIGINT", part("int64", "io.debezium.time.MicroTimestamp"), 5, "which is not a BIGINT"),
        ("FLOAT", part("double"), 0.1, "the record's schema says double, which is not a FLOAT"),
        ("DOUBLE", part("int64"), 5, "the record's schema says int64, which is not a DOUBLE"),
        ("STRING", DECIMAL, "BOI=", "which is not a STRING"),
        ("STRING", part("bytes"), "AA==", "the record's schema says bytes, which is not a STRING"),
        ("BINARY", part("string"), "beef", "the record's schema says string, which is not a BINARY"),
        ("DECIMAL(9,2)", part("int32", "io.debezium.time.Date"), 5, "which is not a DECIMAL(9,2)"),
        ("DECIMAL(9,2)", part("bytes", DECIMAL["name"]), "AA==", "says no scale of the decimal"),
        ("ARRAY<INT>", part("string"), "x", "the record's schema says string, which is not a ARRAY<INT>"),
        ("TINYINT", part("int32"), 300, "column 'v': '300' is not a TINYINT: out of range"),
        ("TIMESTAMP", part("int64", "io.debezium.time.NanoTimestamp"), 1, "finer than a microsecond"),
        ("TIMESTAMP", part("int64", "io.debezium.time.MicroTimestamp"), 1 << 62, "out of range"),
        ("TIMESTAMP", part("int64", "io.debezium.time.MicroTimestamp"), "5", "not a number"),
        ("DATE", part("int32", "io.debezium.time.Date"), 1 << 31, "out of range"),
        ("STRING", part("int32", "io.debezium.time.Time"), -1, "no time of a day"),
        ("DECIMAL(3,2)", DECIMAL, "BOI=", "out of range"),
        ("DECIMAL(9,1)", part("bytes", DECIMAL["name"], parameters={"scale": "2"}), "BOM=", "out of range"),
        ("DECIMAL(9,2)", DECIMAL, "", "not a number"),
        ("DECIMAL(9,2)", DECIMAL, "B!I=", "not base64"),
        ("DECIMAL(9,2)", DECIMAL, 12.5, "not base64"),
        ("DECIMAL(9,2)", VARIABLE, {"scale": 99999, "value": "AQ=="}, "not a DECIMAL(9,2)"),
        ("DECIMAL(9,2)", VARIABLE, "AQ==", "not a scale and a value"),
        ("TIMESTAMP_NTZ", part("string"), "2024-05-01T12:00:00Z", "it has a time zone"),
    ],
)
def test_what_does_not_fit_is_refused_and_not_made_to(
    ddl: str, told: dict[str, Any], found: Any, why: str
) -> None:
    record = wrapped(envelope("c", after={"v": found}), {"v": told})
    assert why in reason(f"v {ddl}", None, record)


@pytest.mark.parametrize(
    ("ddl", "told", "found", "code"),
    [
        ("TINYINT", part("int32"), 300, "out_of_range"),
        ("TIMESTAMP", part("int64", "io.debezium.time.NanoTimestamp"), 1, "out_of_range"),
        ("TIMESTAMP", part("int64", "io.debezium.time.MicroTimestamp"), 1 << 62, "out_of_range"),
        ("TIMESTAMP", part("int64", "io.debezium.time.MicroTimestamp"), "5", "wrong_type"),
        ("DATE", part("int32", "io.debezium.time.Date"), 1 << 31, "out_of_range"),
        ("STRING", part("int32", "io.debezium.time.Time"), -1, "out_of_range"),
        ("STRING", part("int64", "io.debezium.time.NanoTime"), 1, "out_of_range"),
        ("DECIMAL(9,2)", VARIABLE, {"scale": 99999, "value": "AQ=="}, "out_of_range"),
        ("DECIMAL(38,18)", part("string"), "1111111111111111111111111111", "out_of_range"),
        ("DECIMAL(38,18)", part("double"), 1e30, "out_of_range"),
        ("DECIMAL(9,2)", DECIMAL, "", "wrong_type"),
    ],
)
def test_a_value_that_its_type_cannot_hold_has_the_same_reason_as_in_other_formats(
    ddl: str, told: dict[str, Any], found: Any, code: str
) -> None:
    record = wrapped(envelope("c", after={"v": found}), {"v": told})
    there = Records(pa.array([3], pa.int64()), pa.array([10], pa.int64()), place)
    key, value = pa.nulls(1, pa.binary()), pa.array([json.dumps(record).encode()], pa.binary())
    _, _, bad = DebeziumDecoder(parse(f"v {ddl}"), Hints()).sift(key, value, there)
    assert [one.reason for one in bad] == [code]


@pytest.mark.parametrize(
    ("ddl", "found", "hints", "value"),
    [
        ("TIMESTAMP", MICROS, {}, AT),
        ("TIMESTAMP", MICROS // 1000, {"timestamps": "ms"}, AT),
        ("TIMESTAMP", MICROS * 1000, {"timestamps": "ns"}, AT),
        ("TIMESTAMP", "2024-05-01T12:00:00.25Z", {"timestamps": "ms"}, AT),
        ("DATE", 19844, {}, AT.date()),
        ("DATE", "2024-05-01", {}, AT.date()),
        ("DECIMAL(12,2)", "BOI=", {}, decimal.Decimal("12.50")),
        ("DECIMAL(12,2)", "12.5", {}, decimal.Decimal("12.50")),
        ("DECIMAL(12,2)", "-5", {}, decimal.Decimal(-5)),
        ("DECIMAL(12,2)", 12.5, {}, decimal.Decimal("12.50")),
        ("DECIMAL(12,2)", {"scale": 1, "value": "fQ=="}, {}, decimal.Decimal("12.5")),
        ("DECIMAL(12,2)", "1234", {"decimals": "string"}, decimal.Decimal(1234)),
        ("DECIMAL(12,2)", "1234", {"decimals": "base64"}, decimal.Decimal("-26588.24")),
    ],
)
def test_without_a_schema_part_the_declaration_says_how_a_value_is_written(
    ddl: str, found: Any, hints: dict[str, str], value: Any
) -> None:
    assert values(changed(f"v {ddl}", (None, envelope("c", after={"v": found})), **hints)[0]) == [value]


@pytest.mark.parametrize("text", ["1234", "12345678", "1e10", "0000"])
def test_a_decimal_that_may_be_base64_or_a_number_is_not_guessed(text: str) -> None:
    record = envelope("c", after={"v": text})
    assert "say it with debezium.decimals" in reason("v DECIMAL(38,2)", None, record)


def test_the_first_bad_record_is_the_one_that_is_named() -> None:
    good = (None, envelope("c", after={"id": 1}))
    with pytest.raises(BadRecord) as caught:
        changed("id INT", *[good] * 700, (None, "x"), (None, "y"))
    assert caught.value.place == "record 700"
