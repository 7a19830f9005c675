"""Arrow's types as Iceberg's, and back."""

import pyarrow as pa
import pytest

from calve.decode.arrow import arrow_schema, schema_of_arrow
from calve.schema import SchemaError, parse

EVERY = (
    "a BOOLEAN, b INT NOT NULL, c BIGINT, d FLOAT, e DOUBLE, f STRING, g BINARY, h DATE, i TIMESTAMP, "
    "j TIMESTAMP_NTZ, k DECIMAL(38,10), l ARRAY<STRING>, m MAP<STRING, BIGINT>, "
    "n STRUCT<x: INT NOT NULL, y: DATE>"
)


def test_what_iceberg_has_goes_there_and_back():
    schema = parse(EVERY)
    assert schema_of_arrow(arrow_schema(schema)) == schema


@pytest.mark.parametrize(
    ("kind", "ddl"),
    [
        (pa.int8(), "INT"),
        (pa.uint16(), "INT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "DECIMAL(20,0)"),
        (pa.float16(), "FLOAT"),
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.large_binary(), "BINARY"),
        (pa.binary(16), "BINARY"),
        (pa.date64(), "DATE"),
        (pa.timestamp("s"), "TIMESTAMP_NTZ"),
        (pa.timestamp("ns"), "TIMESTAMP_NTZ"),
        (pa.timestamp("ms", "Africa/Lagos"), "TIMESTAMP"),
        (pa.dictionary(pa.int8(), pa.string()), "STRING"),
        (pa.large_list(pa.int64()), "ARRAY<BIGINT>"),
        (pa.list_(pa.int64(), 3), "ARRAY<BIGINT>"),
        (pa.null(), "VOID"),
    ],
    ids=str,
)
def test_what_only_arrow_has_takes_the_narrowest_type_that_holds_it(kind, ddl):
    (column,) = schema_of_arrow(pa.schema([("c", kind)])).columns
    assert column.type.ddl() == ddl


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (pa.time64("us"), "column 'c' is time64\\[us\\]: Iceberg has no such type that Spark writes$"),
        (pa.decimal256(50, 2), "Iceberg's decimals have at most 38 digits"),
        (pa.list_(pa.duration("s")), "column 'c.element' is duration\\[s\\]"),
    ],
    ids=str,
)
def test_what_would_be_cut_is_refused(kind, why):
    with pytest.raises(SchemaError, match=why):
        schema_of_arrow(pa.schema([("c", kind)]))
