"""The streaming sources of Spark, as they are declared."""

import pytest

from calve import registry
from calve.errors import ConfigurationError
from calve.model import Flaw
from calve.sources.source import Limits, Waiting
from calve.sources.spark import SparkSource


def source(**keys):
    return SparkSource.model_validate({"checkpoint": "state", **keys}, context={"directory": "/lake"})


def test_it_is_registered():
    assert registry.find("source", "spark") is SparkSource


def test_its_identity_is_its_checkpoint():
    assert source(format="rate").identity() == "spark:/lake/state"


@pytest.mark.parametrize(("name", "jars"), [("kafka", ("kafka",)), ("rate", ()), ("avro", ("avro",))])
def test_only_the_jars_of_its_format_are_needed(name, jars):
    assert source(format=name).jars == jars


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"format": "rate"}, []),
        ({"table": "shop.orders"}, []),
        ({}, [Flaw((), "needs 'format' or 'table'")]),
        ({"format": "iceberg", "table": "shop.orders"}, [Flaw(("format",), "has no effect beside 'table'")]),
        (
            {"format": "json", "options": {"Path": "in"}},
            [Flaw(("options", "Path"), "cannot be set here: use 'path'")],
        ),
        (
            {"format": "json", "options": {"checkpointLocation": "in"}},
            [Flaw(("options", "checkpointLocation"), "cannot be set here: use 'checkpoint'")],
        ),
    ],
)
def test_keys_that_contradict_are_flaws(keys, expected):
    assert source(**keys).flaws() == expected


def test_options_show_no_secret():
    shown = source(format="kafka", options={"kafka.sasl.jaas.config": "CANARY"})
    assert "CANARY" not in f"{shown!r}{shown.model_dump(mode='json')}"


def test_nothing_is_read_between_positions():
    one = source(format="rate")
    assert one.latest(one.start(), Limits(10)) == Waiting(one.start(), 0)
    with pytest.raises(ConfigurationError, match="Structured Streaming numbers its batches"):
        one.read(None, {}, {})
