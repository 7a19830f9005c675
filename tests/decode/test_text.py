"""Records that are taken as they are."""

import pyarrow as pa
import pytest

from calve.decode.text import RawDecoder, TextDecoder
from calve.errors import BadRecord


def test_text_is_one_column_of_text() -> None:
    batch = TextDecoder().decode(pa.array(["é".encode(), b""], pa.binary()), str)
    assert batch.to_pylist() == [{"value": "é"}, {"value": ""}]
    assert batch.schema == pa.schema([pa.field("value", pa.string(), False)])


def test_raw_is_one_column_of_bytes() -> None:
    assert RawDecoder().decode(pa.array([b"\xff"], pa.binary()), str).to_pylist() == [{"value": b"\xff"}]


@pytest.mark.parametrize("decoder", [TextDecoder(), RawDecoder()])
def test_a_null_is_a_bad_record(decoder: TextDecoder | RawDecoder) -> None:
    with pytest.raises(BadRecord, match="Cannot decode 1: the value is null"):
        decoder.decode(pa.array([b"a", None], pa.binary()), str)


def test_text_that_is_not_utf_8_is_a_bad_record() -> None:
    with pytest.raises(BadRecord, match="Cannot decode 1: not valid UTF-8 at byte 2"):
        TextDecoder().decode(pa.array([b"a", b"a\xff"], pa.binary()), str)
