"""The Kafka source without a broker: what it declares."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from calve.errors import ConfigurationError
from calve.sources.kafka import KafkaSource
from calve.sources.kafka_security import jaas

JSON = {"bootstrap_servers": "localhost:9092", "topics": ["orders"], "schema": "id BIGINT NOT NULL"}
SASL = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "me", "password": "secret"}
PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


def source(**keys: Any) -> KafkaSource:
    given = {**JSON, **keys}
    return KafkaSource.model_validate({name: value for name, value in given.items() if value is not ...})


def flaws(**keys: Any) -> list[str]:
    return [f"{'.'.join(map(str, flaw.path))}: {flaw.message}" for flaw in source(**keys).flaws()]


@pytest.mark.parametrize("servers", ["a:1,b:2", "a:1, b:2", ["a:1", "b:2"]])
def test_servers_are_a_list_or_a_text_with_commas(servers: Any) -> None:
    assert source(bootstrap_servers=servers)._settings()["bootstrap.servers"] == "a:1,b:2"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bootstrap_servers", "localhost"),
        ("bootstrap_servers", []),
        ("topics", []),
        ("topics", ["or ders"]),
        ("topic_pattern", "("),
        ("format", "xml"),
        ("schema", "id NOTHING"),
        ("schema", "id VARIANT"),
        ("schema", {"files": "orders.avsc"}),
        ("start", "now"),
        ("start", {"position": {"orders": {"0": -1}}}),
        ("isolation", "serializable"),
        ("metadata", ["size"]),
        ("csv", {"delimiter": ",,"}),
        ("sasl_mechanism", "GSSAPI"),
    ],
)
def test_a_value_that_cannot_be_is_a_problem(key: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        source(**{key: value})


def test_keys_that_contradict_or_have_no_effect_are_flaws() -> None:
    assert flaws() == []
    assert flaws(topics=...) == ["topics: give exactly one of topics and topic_pattern"]
    assert flaws(topic_pattern="o.*") == ["topic_pattern: give exactly one of topics and topic_pattern"]
    assert flaws(schema=...) == flaws(schema="infer") == []
    assert source(schema=...).columns() is None
    assert flaws(format="csv", schema="infer") == ["schema: needed by format csv"]
    assert flaws(format="raw") == ["schema: has no effect with format raw: its one column is 'value'"]
    assert flaws(csv={"delimiter": ";"}) == ["csv: has no effect with format json"]
    assert flaws(start={"position": {"other": {"0": 1}}}) == ["start.position.other: not one of the topics"]
    assert flaws(schema="_topic STRING", metadata=["topic"]) == [
        "metadata: the schema has a column '_topic' already"
    ]
    assert flaws(format="csv", schema="a ARRAY<INT>") == [
        "schema: column 'a': a ARRAY<INT> cannot be read from CSV"
    ]
    assert flaws(format="csv", csv={"quote": ","}) == [
        "csv.delimiter: delimiter, quote and escape must be different characters"
    ]


def test_options_go_through_a_list_of_what_is_allowed() -> None:
    assert flaws(options={"fetch.max.bytes": 1000}) == []
    assert source(options={"fetch.max.bytes": 1000})._settings()["fetch.max.bytes"] == "1000"
    assert flaws(options={"fetch.max.byte": 1, "auto.offset.reset": "latest"}) == [
        "options.fetch.max.byte: cannot be set here; did you mean 'fetch.max.bytes'?",
        "options.auto.offset.reset: cannot be set here",
    ]


def test_columns_are_the_schema_and_the_metadata_that_was_asked_for() -> None:
    columns = source(metadata=["offset", "key", "headers", "timestamp", "topic", "partition"]).columns()
    assert columns.ddl() == (
        "id BIGINT NOT NULL, _offset BIGINT NOT NULL, _key BINARY, "
        "_headers ARRAY<STRUCT<key: STRING, value: BINARY>>, _timestamp TIMESTAMP NOT NULL, "
        "_topic STRING NOT NULL, _partition INT NOT NULL"
    )
    assert source(format="text", schema=...).columns().ddl() == "value STRING NOT NULL"
    assert source(format="raw", schema=...).columns().ddl() == "value BINARY NOT NULL"


def test_sasl_keys_need_a_sasl_protocol_and_the_protocol_needs_them() -> None:
    assert flaws(**SASL) == []
    why = "has no effect with security_protocol PLAINTEXT; it needs SASL_SSL or SASL_PLAINTEXT"
    assert flaws(username="me", password="x") == [f"username: {why}", f"password: {why}"]
    assert flaws(security_protocol="SASL_PLAINTEXT", username="me") == [
        "sasl_mechanism: needed by security_protocol SASL_PLAINTEXT",
        "password: needed by security_protocol SASL_PLAINTEXT",
    ]
    assert flaws(ssl_ca=PEM) == [
        "ssl_ca: has no effect with security_protocol PLAINTEXT; it needs SSL or SASL_SSL"
    ]
    assert flaws(security_protocol="SSL", ssl_cert=PEM) == [
        "ssl_key: ssl_cert and ssl_key are given together or not at all"
    ]


def test_passwords_keep_every_character_and_are_shown_to_nobody() -> None:
    assert jaas("PLAIN", "me", 'a"b\\c;\n') == (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="a\\"b\\\\c;\\n";'
    )
    assert "ScramLoginModule" in jaas("SCRAM-SHA-512", "me", "x")
    declared = source(**SASL)
    assert "secret" not in repr(declared)
    assert "secret" in declared.security_settings()["sasl.jaas.config"]


def test_pem_files_are_read_where_the_declaration_is_and_pem_texts_taken_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM)
    keys = {**JSON, "security_protocol": "SSL", "ssl_ca": "ca.pem", "ssl_cert": PEM, "ssl_key": "missing.pem"}
    declared = KafkaSource.model_validate(keys, context={"directory": str(tmp_path)})
    with pytest.raises(ConfigurationError, match=r"Cannot read '.*missing.pem'"):
        declared.security_settings()
    (tmp_path / "missing.pem").write_text("key")
    assert declared.security_settings() == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": PEM,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": PEM,
        "ssl.keystore.key": "key",
    }


def test_who_reads_slower_than_need_be_is_told_why() -> None:
    assert source().warnings() == []
    assert source(**SASL, ssl_ca=PEM).warnings() == []
    assert source(**SASL).warnings() == [
        "records are read by Spark's own Kafka source, which takes longer: ssl_ca is left out, so that the "
        "certificates of Java are trusted"
    ]


def at(**topics: int) -> dict[str, Any]:
    """A position in topics of so many partitions."""
    return {
        "topics": {
            name: {"id": name, "offsets": {str(number): 0 for number in range(count)}}
            for name, count in topics.items()
        }
    }


def test_records_in_several_partitions_have_no_order_which_plan_warns_of() -> None:
    alone, both = source(topics=["a"]), source(topics=["a", "b"])
    assert alone.order_warnings(at(a=1)) == []
    why = "a key that is in several of them has no order over batches; declare order_by if there is one"
    assert alone.order_warnings(at(a=2)) == [f"the records of 'a' are in several partitions: {why}"]
    both_told = [f"the records of 'a', 'b' are in several partitions and topics: {why}"]
    assert both.order_warnings(at(a=1, b=1)) == both_told
    assert both.streamed().order_warnings(at(a=1, b=1)) == []
    assert both.streamed().order_warnings(at(a=1, b=2)) == [
        f"the records of 'b' are in several partitions: {why}"
    ]
    # What is no longer read has nothing to do with it.
    assert alone.order_warnings(at(a=1, b=4)) == []


def test_tombstones_that_are_deletes_need_to_know_what_keys_are() -> None:
    columns = {"schema": "id BIGINT, name STRING, more ARRAY<INT>"}
    assert flaws(**columns, tombstones="delete", key_fields=["id"]) == []
    assert source(**columns, tombstones="delete", key_fields=["id"]).carries_changes
    assert not source(**columns, tombstones="ignore").carries_changes
    assert flaws(**columns, tombstones="delete") == ["key_fields: needed by 'tombstones: delete'"]
    assert flaws(**columns, tombstones="delete", key_fields=["ids", "more"], key_format="text") == [
        "key_format: text is the value of one column; key_fields names several",
        "key_fields.0: 'ids' is not a column of the table; did you mean 'id'?",
        "key_fields.1: 'more' is ARRAY<INT>; only a single value can stand here",
    ]
    assert flaws(**columns, key_fields=["id"]) == ["key_fields: has no effect without 'tombstones: delete'"]
    assert flaws(schema=..., tombstones="delete", key_fields=["id"]) == [
        "schema: needed by 'tombstones: delete'"
    ]
    assert flaws(**columns, format="debezium", tombstones="ignore") == [
        "tombstones: has no effect with format debezium"
    ]
    assert flaws(schema=..., format="text", tombstones="delete", key_fields=["value"]) == [
        "tombstones: there are no deletes by key with format text"
    ]
