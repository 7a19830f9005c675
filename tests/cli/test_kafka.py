"""The verbs that reach brokers, on a real one."""

import json
import uuid

import pytest

from tests.cli.conftest import to_the_end

DECLARATION = """
version: "1.0"
sources:
  topic:
    connector: kafka
    config: {{bootstrap_servers: "{bootstrap}", topics: [{topic}], schema: "id BIGINT NOT NULL"}}
sinks:
  lake: {{connector: iceberg, config: {{namespace: shop, table: orders}}}}
pipelines:
  orders: {{source: topic, sink: lake}}
"""


@pytest.fixture
def topic(kafka, ready):
    """A topic with three records, which the project reads."""
    name = f"cli-{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name)
    kafka.produce(name, [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}'])
    ready.write_text(DECLARATION.format(bootstrap=kafka.bootstrap, topic=name))
    return name


def test_check_sees_the_topic(calve, topic):
    ended = calve("check", "--source", "topic", "-o", "json")
    assert ended.code == 0
    assert f"topic '{topic}': 1 partitions, 3 offsets" in json.loads(ended.out)[0]["steps"][0]["seen"]


def test_check_of_a_broker_that_is_away_ends_with_69(calve, ready):
    ready.write_text(DECLARATION.format(bootstrap="127.0.0.1:1", topic="t"))
    ended = calve("check", "--source", "topic")
    assert ended.code == 69
    assert "What to do: check the address" in ended.out


def test_check_of_a_topic_that_is_not_there_says_so(calve, topic, ready):
    ready.write_text(ready.read_text().replace(topic, "nowhere"))
    ended = calve("check", "--source", "topic")
    assert ended.code == 78
    assert "nowhere" in ended.out


def test_a_restart_takes_offsets_and_words(calve, topic, ready, spark):
    plan = json.loads(calve("plan", "-o", "json").out)[0]
    assert plan["waiting"] == 3
    to_the_end(ready, spark, once=True)
    for place, offset in {
        "latest": 3,
        "earliest": 0,
        json.dumps({"position": {topic: {"0": 2}}}): 2,
        json.dumps(plan["position"]): 0,
    }.items():
        ended = calve("repair", "--restart-from", place, "--yes", "-o", "json")
        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["after"]["position"]["topics"][topic]["offsets"] == {"0": offset}
