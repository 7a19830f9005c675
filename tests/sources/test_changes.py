"""Sources that carry changes: what they declare."""

from typing import Any

import pytest

from calve import changes
from calve.errors import ConfigurationError
from calve.schema import parse
from calve.sources.datagen import DatagenSource
from calve.sources.files import FilesSource
from calve.sources.kafka import KafkaSource
from calve.sources.source import Source, with_changes

KAFKA = {"bootstrap_servers": "localhost:9092", "topics": ["orders"]}
DDL = "id BIGINT NOT NULL, op STRING, at TIMESTAMP"


def kafka(**keys: Any) -> KafkaSource:
    return KafkaSource.model_validate({**KAFKA, "schema": DDL, **keys})


def files(**keys: Any) -> FilesSource:
    return FilesSource.model_validate({"path": "/in", "schema": DDL, **keys})


def flaws(source: Any) -> list[str]:
    return [f"{'.'.join(map(str, flaw.path))}: {flaw.message}" for flaw in source.flaws()]


@pytest.mark.parametrize("make", [kafka, files])
def test_the_column_of_the_operation_is_not_a_column_of_the_table(make: Any) -> None:
    assert not make().carries_changes
    assert make().columns().names == ("id", "op", "at")
    carrying = make(operation={"field": "op"})
    assert carrying.carries_changes
    assert flaws(carrying) == []
    assert carrying.columns().ddl() == "id BIGINT NOT NULL, at TIMESTAMP"


def test_operations_are_known_by_many_names_unless_others_are_given() -> None:
    operation = kafka(operation={"field": "op"}).operation
    assert operation is not None
    codes = operation.codes()
    assert [codes[name] for name in ("c", "r", "INSERT", "U", "delete", "truncate")] == list("iiiudt")
    own = kafka(operation={"field": "op", "insert": ["new"], "delete": []}).operation
    assert own is not None
    assert own.codes()["new"] == "i"
    assert "c" not in own.codes()
    assert "d" not in own.codes()


@pytest.mark.parametrize("make", [kafka, files])
def test_an_operation_that_cannot_be_is_a_flaw(make: Any) -> None:
    assert flaws(make(operation={"field": "opp"})) == [
        "operation.field: 'opp' is not a column of the schema; did you mean 'op'?"
    ]
    assert flaws(make(operation={"field": "id"})) == ["operation.field: 'id' is BIGINT; it must be a STRING"]
    assert flaws(make(schema="op STRING", operation={"field": "op"})) == [
        "operation.field: 'op' is the only column; nothing would be left for the table"
    ]
    assert flaws(make(operation={"field": "op", "update": ["u", "d"]})) == [
        "operation.update.1: 'd' is an operation of delete already"
    ]
    assert flaws(make(schema="_op STRING, _Calve_TS STRING", operation={"field": "_op"})) == [
        "schema: column '_Calve_TS': names that begin with '_calve_' are reserved; give it another one"
    ]


def test_formats_without_columns_have_no_operations() -> None:
    text = KafkaSource.model_validate({**KAFKA, "format": "text", "operation": {"field": "op"}})
    assert flaws(text) == ["operation: has no effect with format text"]
    parquet = FilesSource.model_validate({"path": "/in", "format": "parquet", "operation": {"field": "op"}})
    assert flaws(parquet) == ["schema: needed by operation"]
    assert flaws(kafka(format="debezium", operation={"field": "op"})) == [
        "operation: has no effect with format debezium"
    ]


def test_debezium_needs_a_schema_and_key_fields_of_it() -> None:
    source = kafka(format="debezium", debezium={"key_fields": ["id"], "timestamps": "ms"})
    assert flaws(source) == []
    assert source.carries_changes
    assert source.columns().names == ("id", "op", "at")
    bare = KafkaSource.model_validate({**KAFKA, "format": "debezium"})
    assert flaws(bare) == ["schema: needed by format debezium"]
    wrong = kafka(
        format="debezium", schema="id ARRAY<INT>, _calve_order INT", debezium={"key_fields": ["ids", "id"]}
    )
    assert flaws(wrong) == [
        "debezium.key_fields.0: 'ids' is not a column of the schema; did you mean 'id'?",
        "debezium.key_fields.1: 'id' is ARRAY<INT>; only a single value can stand here",
        "schema: column '_calve_order': names that begin with '_calve_' are reserved; give it another one",
    ]
    assert flaws(kafka(debezium={"timestamps": "ms"})) == ["debezium: has no effect with format json"]


def test_what_is_declared_reaches_the_decoder() -> None:
    told = {"key_fields": ["id"], "timestamps": "ns", "decimals": "string"}
    decoder = kafka(format="debezium", debezium=told)._debezium_decoder()
    assert (decoder.key_fields, decoder.hints.timestamps, decoder.hints.decimals) == (("id",), "ns", "string")
    assert kafka(format="debezium")._debezium_decoder().key_fields is None


def test_rows_that_carry_changes_may_be_gone_and_then_hold_nulls() -> None:
    columns = parse("id BIGINT NOT NULL, a STRUCT<b: INT NOT NULL> NOT NULL")
    assert with_changes(columns, carried=False).columns[:2] == columns.columns
    carried = with_changes(columns, carried=True)
    assert carried.names == ("id", "a", *changes.NAMES)
    assert parse(carried.ddl()).columns[:2] == parse("id BIGINT, a STRUCT<b: INT NOT NULL>").columns


def test_a_column_that_changes_have_themselves_cannot_be_read_as_a_change() -> None:
    source = DatagenSource.model_validate({"fields": {"_Calve_Op": {"type": "sequence"}}})
    with pytest.raises(ConfigurationError, match="'_Calve_Op': names that begin with '_calve_' are reserved"):
        source.read_changes(None, {"row": 0}, {"row": 1})  # type: ignore[arg-type]


class Heap(DatagenSource):
    """A source whose rows have no order."""

    connector = "heap"
    read_changes = Source.read_changes


def test_a_source_that_does_not_order_its_rows_gives_no_changes() -> None:
    assert not Heap().carries_changes
    with pytest.raises(ConfigurationError, match="from connector 'heap': it does not tell the order"):
        Heap().read_changes(None, {"row": 0}, {"row": 1})  # type: ignore[arg-type]
