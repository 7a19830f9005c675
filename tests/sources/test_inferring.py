"""Sources that leave their columns to their records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from calve.errors import DataRefused
from calve.schema import DropColumn, Policy, Schema, evolution, parse
from calve.sources.datagen import DatagenSource
from calve.sources.files import FilesSource
from calve.sources.inferring import empty_fields, expectable, inferred
from calve.sources.kafka import KafkaSource
from calve.sources.written_schema import WrittenSchema

BAD: Any = SimpleNamespace(sieve=SimpleNamespace(columns=("id",)))


class Told(FilesSource):
    """Files of which it is known what is in them."""

    def _columns_in(self, spark: Any, after: Any, to: Any) -> Schema:
        return parse(to["has"])


def told(**keys: Any) -> Any:
    return Told.model_validate({"path": "in", **keys})


@pytest.mark.parametrize("keys", [{}, {"schema": "infer"}, {"format": "csv", "options": {"header": True}}])
def test_without_a_schema_the_records_tell_it(keys):
    source = told(**keys)
    assert (source.infers, source.says_columns, source.columns()) == (True, False, None)


def test_a_schema_that_is_written_somewhere_is_said(tmp_path):
    kafka = {"bootstrap_servers": "b:1", "topics": ["t"]}
    registry = {"registry": {"url": "http://localhost:1"}}
    source = KafkaSource.model_validate({**kafka, "schema": registry})
    assert isinstance(source.schema_, WrittenSchema)
    assert (source.infers, source.says_columns, source.columns()) == (False, True, None)
    assert KafkaSource.model_validate(kafka).says_columns is False
    (tmp_path / "s.sql").write_text("id BIGINT")
    assert told(schema={"file": str(tmp_path / "s.sql")}).says_columns


KAFKA = {"bootstrap_servers": "b:1", "topics": ["t"]}
FILES = {"path": "in"}
REGISTRY = {"registry": {"url": "http://localhost:1"}}


def sources(tmp_path):
    """Every kind of source, and whether what it does not have any more is gone."""
    avsc = tmp_path / "s.avsc"
    avsc.write_text('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}')
    yield DatagenSource.model_validate({"rows": 1}), True
    for source, plain in ((KafkaSource, KAFKA), (FilesSource, FILES)):
        yield source.model_validate({**plain, "schema": "id BIGINT"}), True
        yield source.model_validate({**plain, "schema": {"file": str(avsc)}}), True
        yield source.model_validate({**plain, "format": "text"}), True
        yield source.model_validate(plain), False
    yield KafkaSource.model_validate({**KAFKA, "schema": REGISTRY}), True
    yield KafkaSource.model_validate({**KAFKA, "format": "avro", "schema": REGISTRY}), True
    yield KafkaSource.model_validate({**KAFKA, "format": "debezium", "schema": "id BIGINT"}), True
    yield KafkaSource.model_validate({**KAFKA, "format": "debezium", "schema": REGISTRY}), True
    yield FilesSource.model_validate({**FILES, "format": "csv", "options": {"header": True}}), False
    for format in ("parquet", "avro"):
        yield FilesSource.model_validate({**FILES, "format": format}), False
        yield FilesSource.model_validate({**FILES, "format": format, "schema": "id BIGINT"}), True


def test_a_column_is_gone_where_the_source_declares_it_and_never_where_a_batch_lacks_it(tmp_path):
    table, rows = parse("id BIGINT, b STRING"), parse("id BIGINT")
    for source, says in sources(tmp_path):
        assert source.flaws() == [], source
        assert source.says_columns is says, source
        found = evolution(table, rows, Policy("full", is_said=source.says_columns)).changes
        assert [type(one) for one in found] == ([DropColumn] if says else []), source


def test_what_is_bad_about_a_batch_is_read_with_the_columns_of_its_rows():
    source = told()
    source.expect(parse("id BIGINT NOT NULL, a INT NOT NULL"), redirects=True)
    bounds: tuple[Any, ...] = (None, {}, {"has": "id BIGINT, a STRING"})
    good = source._of_good(*bounds, BAD)
    assert good.columns() == parse("id BIGINT NOT NULL, a STRING NOT NULL")
    source.expect(parse("id BIGINT NOT NULL, a INT, a_string STRING"), redirects=True)
    assert source._of_bad(*bounds, BAD).columns() == good.columns()
    assert source._of_good(*bounds, BAD).columns() == parse("id BIGINT NOT NULL, a STRING")
    other = source._of_bad(None, {}, {"has": "b INT"}, BAD)
    assert other.columns() == parse("b INT, id BIGINT NOT NULL")


def test_a_key_that_no_record_has_is_a_column_all_the_same():
    table = parse("id BIGINT NOT NULL, a INT, n STRING NOT NULL")
    assert inferred(parse("a BIGINT"), table, "t", ["id"]) == parse("a INT, id BIGINT NOT NULL")
    assert inferred(parse("a BIGINT"), None, "t", ["id"]) == parse("a BIGINT")
    assert inferred(Schema(()), table, "t", ["id"]) == table


def test_records_without_fields_are_refused_where_there_is_no_table():
    with pytest.raises(DataRefused, match="the records have no fields; declare 'schema'"):
        inferred(Schema(()), None, "t")


def test_fields_that_are_only_ever_empty_are_told_once(caplog):
    source = told()
    source.expect(parse("id BIGINT, known ARRAY<BIGINT>, s STRUCT<a: BIGINT>"))
    has = (
        "id BIGINT, known ARRAY<VOID>, y ARRAY<VOID>, o STRUCT<>, deep ARRAY<ARRAY<VOID>>, n VOID, "
        "s STRUCT<a: BIGINT, l: ARRAY<VOID>>"
    )
    assert empty_fields(parse(has), parse("id BIGINT, known ARRAY<BIGINT>, s STRUCT<a: BIGINT>")) == [
        "y", "o", "deep", "s.l"
    ]  # fmt: skip
    for number in (1, 2):
        source._of_good(None, {}, {"has": "id BIGINT, y ARRAY<VOID>", "n": number}, BAD)
    (message,) = [one.getMessage() for one in caplog.records]
    assert message.startswith("field 'y' of files of '")
    assert "has only empty arrays or objects so far; it is NULL until a record shows" in message


BOUNDS: tuple[Any, ...] = (None, {}, {"has": "id BIGINT, b STRING"})
TABLE = parse("id BIGINT NOT NULL, a INT, m MAP<STRING, INT>, v TIMESTAMP")


def test_where_the_table_is_known_records_are_not_looked_at_before_they_are_read():
    source = told()
    assert source._of_good(*BOUNDS, BAD).columns() == parse("id BIGINT, b STRING")
    source = told()
    source.expect(TABLE, whole=True)
    made = source._of_good(*BOUNDS, BAD)
    assert made.columns() == parse("id BIGINT NOT NULL, a INT, v TIMESTAMP")
    assert made._decoder().watch.is_guess
    assert source._of_bad(*BOUNDS, BAD) is made
    assert not made.infers


def test_where_a_record_did_not_fit_all_of_them_are_looked_at():
    source = told()
    source.expect(TABLE, whole=True)
    source.look_closely(*BOUNDS[1:])
    made = source._of_good(*BOUNDS, BAD)
    assert made.columns() == parse("id BIGINT NOT NULL, b STRING")
    assert not made._decoder().watch.is_guess
    source.expect(Schema((*TABLE.columns, *parse("b STRING").columns)), whole=True)
    assert source._of_good(None, {"next": 1}, {"has": "id BIGINT"}, BAD)._decoder().watch.is_guess


def test_what_was_found_out_of_a_batch_already_counts_more_than_a_guess():
    source = told()
    first = source._of_good(*BOUNDS, BAD).columns()
    source.expect(TABLE, whole=True)
    assert source._of_good(*BOUNDS, BAD).columns().names == first.names


@pytest.mark.parametrize("keys", [{}, {"format": "csv", "options": {"header": True}}])
def test_nothing_is_guessed_of_several_tables_nor_of_texts(keys):
    source = told(**keys)
    source.expect(TABLE, whole=bool(keys))
    assert source._of_good(*BOUNDS, BAD).columns().names == ("id", "b")


def test_what_kafka_knows_of_records_is_not_expected_of_them():
    source = KafkaSource.model_validate({**KAFKA, "metadata": ["offset"]})
    source.expect(parse("id BIGINT, _offset BIGINT"), whole=True)
    guess = source._guess({}, {})
    assert guess is not None
    assert guess.columns() == parse("id BIGINT, _offset BIGINT NOT NULL")
    assert guess.declared == parse("id BIGINT")


def test_nothing_is_guessed_where_a_column_that_must_be_there_cannot_be_read_at_once():
    assert expectable(parse("id BIGINT, m MAP<STRING, INT>")) == parse("id BIGINT")
    assert expectable(parse("id BIGINT, m MAP<STRING, INT> NOT NULL")) is None
    assert expectable(parse("m MAP<STRING, INT>")) is None


def test_after_a_look_that_found_what_the_table_has_not_the_next_batch_is_looked_at_too():
    source = told()
    source.expect(parse("id BIGINT, a BIGINT"), whole=True, redirects=True)
    texts = (None, {}, {"has": "id BIGINT, a STRING"})
    source.look_closely(*texts[1:])
    assert not source._of_good(*texts, BAD)._watch.is_guess
    # Texts go to a column beside it, so records will go on to have them.
    source.expect(parse("id BIGINT, a BIGINT, a_string STRING"), whole=True, redirects=True)
    again = source._of_good(None, {"next": 1}, {"has": "id BIGINT, a BIGINT"}, BAD)
    assert not again._watch.is_guess
    assert source._of_good(None, {"next": 2}, {"has": "id BIGINT"}, BAD)._watch.is_guess
