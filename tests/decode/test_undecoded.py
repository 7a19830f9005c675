"""Rows that workers hand over as bytes."""

import pyarrow as pa

from calve.decode import undecoded


def rows(first, count=1_000):
    return pa.RecordBatch.from_pydict({"id": pa.array(range(first, first + count), pa.int64())})


def made(batches):
    yield from batches


def pieces(most, count=5):
    work = undecoded._packing(made, most)
    return [one for batch in work(rows(n * 1_000) for n in range(count)) for one in batch.column(0)]


def test_rows_are_packed_and_found_again(monkeypatch):
    monkeypatch.setattr(undecoded, "_AT_ONCE", 16_000)
    found = pieces(most=10**6)
    assert len(found) == 3
    tables = [pa.ipc.open_stream(one.as_buffer()).read_all() for one in found]
    assert pa.concat_tables(tables).column("id").to_pylist() == list(range(5_000))


def test_a_task_that_makes_too_much_says_so_and_ends():
    asked = []

    def endless(batches):
        for number in range(1_000):
            asked.append(number)
            yield rows(number)

    work = undecoded._packing(endless, 20_000)
    *_, last = (one for batch in work([]) for one in batch.column(0))
    assert last.as_py() is None
    assert len(asked) == 3
