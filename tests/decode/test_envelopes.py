"""Debezium's envelopes, a block at once: what the fast way accepts, it reads as the slow way does."""

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.decode.bad import Bad
from calve.decode.changes import Records
from calve.decode.connect import Hints
from calve.decode.debezium import DebeziumDecoder, _Block
from calve.decode.division import Mismatch
from calve.decode.placeholder import ENCODED, TEXT
from calve.errors import BadRecord
from calve.schema import parse
from tests.decode.test_debezium import DECIMAL, envelope, part, place, wrapped

Pair = tuple[bytes | None, bytes]
CARE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, Mismatch, RecursionError)


def there(count: int) -> Records:
    return Records(pa.array([3] * count, pa.int64()), pa.array(range(count), pa.int64()), place)


def block(records: list[Pair]) -> _Block:
    keys, values = (pa.array([pair[side] for pair in records], pa.binary()) for side in (0, 1))
    return _Block(keys, values, pa.array(range(len(records)), pa.int64()))


def is_fast(schema: str, *values: Any, key: Any = None, fields: tuple[str, ...] | None = None) -> bool:
    """Whether the fast way takes the records, and if so that the slow way gives the same."""
    decoder = DebeziumDecoder(parse(schema), Hints(), fields)
    name = None if key is None else json.dumps(key).encode()
    pairs = [(name, json.dumps(value).encode()) for value in values]
    return agree(decoder, pairs)


def agree(decoder: DebeziumDecoder, pairs: list[Pair]) -> bool:
    try:
        fast, _ = decoder._fast(block(pairs), there(len(pairs)))
    except CARE:
        return False
    bad: list[Bad] = []
    slow, origins = decoder._slow(block(pairs), there(len(pairs)), bad)
    assert bad == []
    fast.validate(full=True)
    assert fast.schema.equals(slow.schema)
    assert fast.equals(slow), (fast.to_pylist(), slow.to_pylist())
    assert origins.to_pylist() == list(range(len(pairs)))
    return True


ORDERS = "id BIGINT NOT NULL, name STRING NOT NULL, amount DECIMAL(12,2), at TIMESTAMP, day DATE, raw BINARY"
ROW = {"id": 1, "name": "a", "amount": "BOI=", "at": 1_714_564_800_250_000, "day": 19844, "raw": "AAH/"}
TOLD = {
    "id": part("int64"),
    "name": part("string"),
    "amount": DECIMAL,
    "at": part("int64", "io.debezium.time.MicroTimestamp"),
    "day": part("int32", "io.debezium.time.Date"),
    "raw": part("bytes"),
}
GONE = envelope("d", before=ROW)


@pytest.mark.parametrize("source", [{"lsn": 5}, {"file": "binlog.000003", "pos": 7}, {"ts_ms": 9}, None])
def test_the_common_case_is_read_at_once(source: Any) -> None:
    new = envelope("c", after=ROW, source=source)
    same = envelope("u", after=ROW, before={**ROW, "name": "b"}, source=source)
    gone = envelope("d", before={"id": 1, "name": None}, source=source)
    plain = [new, same, gone]
    assert is_fast(ORDERS, *plain, key={"id": 1})
    assert is_fast(ORDERS, *plain, fields=("id",))
    assert is_fast(ORDERS, new, envelope("u", after=ROW, source=source))
    key = {"schema": {"type": "struct", "fields": []}, "payload": {"id": 1}}
    assert is_fast(ORDERS, *(wrapped(one, TOLD) for one in plain), key=key)


def test_times_and_decimals_as_text_are_read_at_once() -> None:
    row = {"t": "2024-05-01T12:00:00Z", "n": 5, "d": "12.5", "e": "BOI="}
    schema = "t TIMESTAMP, n TIMESTAMP, d DECIMAL(9,2), e DECIMAL(9,2)"
    assert is_fast(schema, envelope("c", after={}), envelope("c", after=row))
    assert not is_fast(schema, envelope("c", after=row), envelope("c", after={**row, "t": 5}))


def test_arrays_and_structs_are_read_at_once() -> None:
    schema = "a ARRAY<STRING>, n ARRAY<INT>, s STRUCT<x: INT NOT NULL>"
    assert is_fast(
        schema, envelope("c", after={"a": ["x"], "n": [1], "s": {"x": 1}}), envelope("c", after={})
    )
    assert not is_fast("s STRUCT<t: TIMESTAMP>", envelope("c", after={"s": {"t": 1}}))


@pytest.mark.parametrize(
    "odd",
    [
        envelope("t"),
        envelope("x", after=ROW),
        envelope("c"),
        envelope("d"),
        envelope("d", before={**ROW, "id": None}),
        envelope("u", after=ROW, before={**ROW, "id": 2}),
        envelope("c", after={**ROW, "name": TEXT}),
        envelope("c", after={**ROW, "raw": ENCODED}),
        envelope("c", after={**ROW, "amount": ENCODED}),
        envelope("c", after={**ROW, "name": None}),
        envelope("c", after={**ROW, "amount": "1234"}),
        envelope("c", after={**ROW, "at": 1 << 62}),
        envelope("c", after={**ROW, "day": 1 << 40}),
        envelope("c", after=ROW, source={"lsn": None}),
        envelope("c", after=ROW, source={"lsn": 5, "ts_ms": -1}),
        wrapped(envelope("c", after=ROW), TOLD),
        {"payload": envelope("c", after=ROW), "schema": None},
    ],
)
def test_what_needs_care_is_left_to_the_slow_way(odd: dict[str, Any]) -> None:
    good = envelope("c", after=ROW)
    assert is_fast(ORDERS, good, key={"id": 1})
    assert not is_fast(ORDERS, good, odd, key={"id": 1})


@pytest.mark.parametrize("key", [None, 5, {"id": None}, {"id": 1, "other": 2}])
def test_keys_that_do_not_say_the_fields_are_left_to_the_slow_way(key: Any) -> None:
    assert not is_fast(ORDERS, GONE, key=key)


def test_keys_of_different_fields_are_left_to_the_slow_way() -> None:
    decoder = DebeziumDecoder(parse(ORDERS), Hints())
    value = json.dumps(GONE).encode()
    assert agree(decoder, [(b'{"id": 1}', value)] * 2)
    assert not agree(decoder, [(b'{"id": 1}', value), (b'{"name": "a"}', value)])


def test_what_is_behind_the_payload_is_left_to_the_slow_way() -> None:
    told = json.dumps(wrapped(envelope("c", after=ROW), TOLD)).encode()
    decoder = DebeziumDecoder(parse(ORDERS), Hints())
    assert agree(decoder, [(None, told), (None, told)])
    for more in (b', "payload": {}}', b', "x": {}}', b"} }"):
        assert not agree(decoder, [(None, told), (None, told[:-1] + more)])


def test_a_block_of_both_kinds_is_in_the_order_of_its_records() -> None:
    kinds = [envelope("c", after=ROW), wrapped(envelope("c", after=ROW), TOLD), None, envelope("t"), GONE]
    kinds.append(envelope("u", before=ROW, after={**ROW, "id": 2}))
    values = [
        None if (one := kinds[number % 6]) is None else json.dumps(one).encode() for number in range(999)
    ]
    keys: list[bytes] = [b'{"id": 1}'] * len(values)
    decoder = DebeziumDecoder(parse(ORDERS), Hints())
    made, origins = decoder.changes(pa.array(keys), pa.array(values, pa.binary()), there(len(values)))
    expected = [
        (number, code)
        for number in range(999)
        for code in (("i",), ("i",), (), ("t",), ("d",), ("d", "u"))[number % 6]
    ]
    rows = made.to_pylist()
    assert [(row["_calve_order"]["at"], row["_calve_op"]) for row in rows] == expected
    assert origins.to_pylist() == [number for number, _ in expected]


def test_records_without_values_are_no_rows() -> None:
    decoder = DebeziumDecoder(parse(ORDERS), Hints())
    for count in (0, 3):
        nothing = pa.array([None] * count, pa.binary())
        made, origins = decoder.changes(nothing, nothing, there(count))
        assert (made.num_rows, len(origins), made.schema.names[0]) == (0, 0, "id")


TEXTS = st.sampled_from(["", "a", "é\u0000", TEXT, ENCODED, "1234", "BOI=", "12.50", "null"])
TIMES = st.sampled_from(["2024-05-01T12:00:00Z", "2024-05-01 12:00:00.25", "x"]) | st.integers(-5, 2**63)
BASE64 = st.binary(max_size=5).map(lambda raw: base64.b64encode(raw).decode())
SMALL = st.integers(-(2**40), 2**40)
KINDS: list[tuple[str, dict[str, Any] | None, st.SearchStrategy[Any]]] = [
    ("BIGINT", part("int64"), st.integers(-(2**63), 2**63)),
    ("TINYINT", part("int16"), st.integers(-129, 128)),
    ("BOOLEAN", part("boolean"), st.booleans()),
    ("DOUBLE", part("double"), st.floats(allow_nan=False, allow_infinity=False)),
    ("STRING", part("string"), TEXTS),
    ("BINARY", part("bytes"), BASE64 | TEXTS),
    ("DECIMAL(9,2)", DECIMAL, BASE64),
    ("DECIMAL(9,2)", part("string"), st.decimals(-999, 999, places=2).map(str) | TEXTS),
    ("DECIMAL(9,2)", None, BASE64 | TEXTS | st.integers(-9999, 9999)),
    ("TIMESTAMP", part("int64", "io.debezium.time.Timestamp"), SMALL),
    ("TIMESTAMP_NTZ", part("int64", "io.debezium.time.NanoTimestamp"), SMALL | SMALL.map(lambda n: n * 1000)),
    ("TIMESTAMP", part("string", "io.debezium.time.ZonedTimestamp"), TIMES),
    ("TIMESTAMP", None, TIMES),
    ("DATE", part("int32", "io.debezium.time.Date"), st.integers(-800_000, 3_000_000)),
    ("DATE", None, st.dates().map(str) | st.integers(-9, 9)),
    ("STRING", part("int64", "io.debezium.time.MicroTime"), SMALL),
    ("ARRAY<STRING>", part("array", items=part("string")), st.lists(TEXTS | st.none(), max_size=3)),
    ("ARRAY<INT>", None, st.lists(st.integers(0, 99), max_size=3) | st.just(list(TEXT.encode()))),
    ("STRUCT<x: INT NOT NULL>", None, st.fixed_dictionaries({}, optional={"x": st.integers(0, 9)})),
]


@st.composite
def blocks(draw: st.DrawFn) -> tuple[DebeziumDecoder, list[Pair]]:
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=3))
    required = draw(st.lists(st.booleans(), min_size=3, max_size=3))
    columns = [f"c{at} {ddl}{' NOT NULL' * required[at]}" for at, (ddl, _, _) in enumerate(kinds)]
    schema = parse(", ".join(["id BIGINT NOT NULL", *columns]))
    told = {"id": part("int64"), **{f"c{at}": kind for at, (_, kind, _) in enumerate(kinds) if kind}}
    is_told = draw(st.booleans()) and len(told) == len(schema.columns)
    some = {f"c{at}": values | st.none() for at, (_, _, values) in enumerate(kinds)}
    rows = st.fixed_dictionaries({"id": st.integers(1, 2)}, optional=some)
    records = draw(st.lists(envelopes(rows, told if is_told else None), min_size=1, max_size=4))
    fields = draw(st.sampled_from([None, None, ("id",)]))
    units = draw(st.sampled_from(["ms", "us", "ns"]))
    return DebeziumDecoder(
        schema, Hints(units, draw(st.sampled_from([None, "base64", "string"]))), fields
    ), records


@st.composite
def envelopes(draw: st.DrawFn, rows: st.SearchStrategy[Any], told: dict[str, Any] | None) -> Pair:
    op = draw(st.sampled_from("ccccruuuudddtm"))
    before = draw(rows | st.none()) if op in "ud" else None
    after = draw(rows) if op in "cru" else None
    if before and after and draw(st.booleans()):
        before["id"] = after["id"]
    times = st.fixed_dictionaries({}, optional={"ts_ms": st.integers(0, 9), "ts_ns": st.integers(-1, 5000)})
    logs = [
        {"lsn": 5},
        {"lsn": 5},
        {"lsn": None},
        {"file": "b.000001", "pos": 9},
        {"file": None, "pos": 1},
        {},
    ]
    source = draw(
        st.none() | st.tuples(st.sampled_from(logs), times).map(lambda pair: {**pair[0], **pair[1]})
    )
    found: dict[str, Any] = {"before": before, "after": after, "op": op, "source": source, **draw(times)}
    key = draw(st.sampled_from([{"id": 1}, {"id": 1}, {"id": 2}, {"id": 1, "c0": 1}, None]))
    value = wrapped(found, told) if told and draw(st.integers(0, 9)) else found
    return None if key is None else json.dumps(key).encode(), json.dumps(value).encode()


@pytest.mark.thorough
@settings(max_examples=150)
@given(blocks())
def test_what_the_fast_way_accepts_the_slow_way_reads_the_same(
    found: tuple[DebeziumDecoder, list[Pair]],
) -> None:
    compare(*found)


@pytest.mark.full
@settings(max_examples=3000)
@given(blocks())
def test_both_ways_agree_on_thousands_of_blocks(found: tuple[DebeziumDecoder, list[Pair]]) -> None:
    compare(*found)


def compare(decoder: DebeziumDecoder, pairs: list[Pair]) -> int:
    return sum(agree(decoder, records) for records in (pairs, *([pair] for pair in pairs)))


@pytest.mark.thorough
@settings(max_examples=60)
@given(blocks())
def test_every_block_is_made_up_of_the_changes_of_its_records_or_refused(
    found: tuple[DebeziumDecoder, list[Pair]],
) -> None:
    decoder, pairs = found
    whole = block(pairs)
    try:
        made, _ = decoder.changes(whole.keys, whole.values, there(len(pairs)))
    except BadRecord as error:
        at = int(error.place.split()[1])
        with pytest.raises(Mismatch, match=r".*"):
            decoder.record(*pairs[at])
        return
    expected = [change.row for pair in pairs for change in decoder.record(*pair)]
    assert made.num_rows == len(expected)


@pytest.mark.thorough
def test_the_strategy_gives_blocks_that_the_fast_way_accepts() -> None:
    """Otherwise the comparison above would compare nothing."""
    accepted: list[int] = []

    @settings(max_examples=100, database=None, derandomize=True)
    @given(blocks())
    def count(found: tuple[DebeziumDecoder, list[Pair]]) -> None:
        accepted.append(compare(*found))

    count()
    assert sum(map(bool, accepted)) > 30
