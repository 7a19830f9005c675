"""Blocks with bad records: what comes of them, and how much of them is looked at twice."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from calve.decode.bad import Bad
from calve.decode.csv import CsvDecoder
from calve.decode.decoder import Decoder
from calve.decode.dialect import Dialect
from calve.decode.json import JsonDecoder
from calve.schema import Array, Column, Primitive, Schema, parse

pytestmark = pytest.mark.thorough

FLAT = parse("id BIGINT NOT NULL, name STRING, amount DECIMAL(12,2), at TIMESTAMP")
TAGS = Column("tags", Array(Primitive("int"), element_nullable=False))
SCHEMA = Schema((*FLAT.columns, TAGS))
JSON = '{"id": %d, "name": "n", "amount": 1.25, "at": "2026-01-02T03:04:05Z", "tags": [1, 2]}'
CSV = "%d,n,1.25,2026-01-02T03:04:05Z"
BAD_JSON = [
    b'{"id": "abc", "name": "n"}',
    b'{"name": "n"}',
    b'{"id": 1, "at": "2026-13-02T03:04:05Z"}',
    b'{"id": 1, "at": }',
    b'{"id": 1, "na',
    b'{"id": 1.5}',
    b'{"id": 1, "amount": 1e50}',
    b'{"id": 1, "tags": [1, null]}',
    b'{"id": 1, "tags": [1, "x"]}',
    b'{"id": 1, "x": NaN}',
    b'{"id": 1}{"id": 2}',
    b'{"id": 1, "name": "\\ud800"}',
    b"[1]",
    b"",
    b"\xff",
]
ODD_JSON = [b' {"id": 1} ', b'{"id": 1, "at": "2026-01-01T00:00:00"}', b'{"id": 1, "x": "NaN"}']
BAD_CSV = [
    b"abc,n,1.25,",
    b",n,1.25,",
    b"1,n,1.255,",
    b"1,n,1,2026-13-01",
    b"1,n",
    b'1,"n,1,',
    b"1\n2,n,,",
    b"\xff",
]
ODD_CSV = [b'1,"a,b",1,', b"1,n,1,2026-01-01T00:00:00", b'1,"a\nb",1,']

Made = Callable[[], Decoder]
KINDS = [
    pytest.param(lambda: JsonDecoder(SCHEMA), JSON, BAD_JSON, ODD_JSON, id="json"),
    pytest.param(lambda: CsvDecoder(FLAT, Dialect()), CSV, BAD_CSV, ODD_CSV, id="csv"),
]


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.2, 1.0])
@pytest.mark.parametrize(("made", "good", "bad", "odd"), KINDS)
def test_blocks_give_what_their_records_give_one_by_one(
    made: Made, good: str, bad: list[bytes], odd: list[bytes], share: float
) -> None:
    chosen, decoder = random.Random(7), made()
    others: list[bytes | None] = [None, *bad, *odd]
    for count in (1, 17, 300, 6000):
        records = [
            chosen.choice(others) if chosen.random() < share else (good % number).encode()
            for number in range(count)
        ]
        values, refused = pa.array(records, pa.binary()), list[Bad]()
        rows, found = decoder.sift(values)
        assert rows.equals(made()._slow(values, range(count), refused))
        assert sorted(found) == refused


@pytest.mark.parametrize(("made", "good", "bad", "odd"), KINDS)
@pytest.mark.parametrize("every", [5_000, 500, 100])
def test_few_good_records_are_looked_at_for_the_sake_of_a_bad_one(
    made: Made, good: str, bad: list[bytes], odd: list[bytes], every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, looked_at = 0, 0
    decoder = made()
    fast, slow = decoder._fast, decoder._slow

    def counted_fast(values: pa.Array) -> pa.RecordBatch:
        nonlocal tried
        tried += len(values)
        return fast(values)

    def counted_slow(values: pa.Array, places: list[int], found: list[Bad]) -> pa.RecordBatch:
        nonlocal looked_at
        looked_at += len(values)
        return slow(values, places, found)

    monkeypatch.setattr(decoder, "_fast", counted_fast)
    monkeypatch.setattr(decoder, "_slow", counted_slow)
    count, refused = 60_000, 0
    for begin in range(0, count, 20_000):
        records = [
            bad[number // every % len(bad)] if number % every == every // 2 else (good % number).encode()
            for number in range(begin, begin + 20_000)
        ]
        refused += len(decoder.sift(pa.array(records, pa.binary()))[1])
    assert refused == count // every
    assert looked_at <= 24 * refused
    assert tried <= 4 * count


def test_where_all_records_are_bad_they_are_not_tried_again_and_again() -> None:
    decoder, tries = JsonDecoder(SCHEMA), 0
    fast = decoder._fast

    def counted(values: pa.Array) -> pa.RecordBatch:
        nonlocal tries
        tries += 1
        return fast(values)

    decoder._fast = counted  # type: ignore[method-assign]
    count = 30_000
    _, bad = decoder.sift(pa.array([b'{"id": 1, "at": }'] * count, pa.binary()))
    assert len(bad) == count
    assert tries < count // 50


def test_a_block_of_good_records_is_tried_whole_once_more_after_a_while() -> None:
    decoder = JsonDecoder(SCHEMA)
    sizes: list[int] = []
    fast = decoder._fast
    decoder._fast = lambda values: (sizes.append(len(values)), fast(values))[1]  # type: ignore[method-assign]
    good = [(JSON % number).encode() for number in range(20_000)]
    decoder.sift(pa.array([*good[:-1], b"x"], pa.binary()))
    assert max(sizes[1:]) < 5_000
    for _ in range(20):
        decoder.sift(pa.array(good, pa.binary()))
    assert sizes[-1] == 20_000
