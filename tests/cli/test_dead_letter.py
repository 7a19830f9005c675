"""`calve dead-letter`, and what other verbs say of dead letters."""

import json

import pytest

DECLARATION = """
version: "1.0"
sources:
  orders:
    connector: files
    config: {{path: in, format: csv, schema: "id BIGINT, n INT", options: {{null_value: "{null}"}}}}
sinks:
  lake: {{connector: iceberg, config: {{namespace: shop, table: orders}}}}
pipelines:
  orders: {{source: orders, sink: lake}}
"""


@pytest.fixture
def refused(tmp_path, calve, kept):
    """A project in which two records were refused; it is repaired, so that it takes one of them."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_bytes(b"1,5\n2,NULL\n\xff,NULL\n")
    (tmp_path / "calve.yaml").write_text(DECLARATION.format(null=""))
    assert calve("run", "--once").code == 0
    (tmp_path / "calve.yaml").write_text(DECLARATION.format(null="NULL"))


@pytest.mark.spark
def test_letters_are_listed_shown_replayed_and_purged(calve, refused):
    listed = json.loads(calve("dead-letter", "list", "--output", "json").out)
    assert sorted(one["reason"] for one in listed) == ["not_utf8", "wrong_type"]
    assert all(one["recorded_at"].endswith("+00:00") for one in listed)
    assert [one["value"] for one in listed] == ["2,NULL", {"base64": "/yxOVUxM"}]
    text = calve("dead-letter", "list", "--reason", "wrong_type").out
    assert listed[0]["letter_id"][:12] in text
    assert "column 'n': 'NULL' is not a INT: not a whole number" in text
    shown = json.loads(calve("dead-letter", "show", listed[0]["letter_id"][:8], "-o", "json").out)
    assert shown == listed[0]
    asked = calve("dead-letter", "replay")
    assert (asked.code, asked.err) == (64, "2 letters to replay; nothing changed, add --yes to do it\n")
    assert calve("dead-letter", "replay", "--dry-run").code == 0
    done = calve("dead-letter", "replay", "--yes")
    assert (done.code, done.out) == (65, "1 letter replayed\n1 letter refused once more: not_utf8\n")
    again = calve("dead-letter", "replay", "--yes", "--output", "json")
    assert json.loads(again.out) == {"replayed": 0, "refused": {"not_utf8": 1}}
    assert len(json.loads(calve("dead-letter", "list", "-o", "json").out)) == 1
    assert len(json.loads(calve("dead-letter", "list", "--all", "-o", "json").out)) == 2
    verified = calve("verify", "orders", "--files", "--output", "json")
    value = json.loads(verified.out)
    assert (verified.code, value["findings"], value["dead_letter"]["findings"]) == (0, [], [])
    assert value["dead_letter"]["checked"]["rows"] == 2
    assert calve("verify", "orders__dead_letter").code == 0
    assert calve("dead-letter", "purge", "--older-than", "1d", "--yes").out == "0 letters purged\n"
    assert calve("dead-letter", "purge", "--yes").out == "1 letter purged\n"
    assert calve("dead-letter", "purge", "--all", "--yes").out == "1 letter purged\n"
    assert "bad records  to table 'shop.orders__dead_letter'" in calve("plan", "--offline").out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["show"], "show takes the id of one"),
        (["list", "3f"], "the others take none"),
        (["what"], "'what' is not one of"),
        (["list", "--pipeline", "other"], "Cannot find pipeline 'other'"),
        (["purge", "--older-than", "long"], "write 30d, 12h or 5m"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(calve, tmp_path, arguments, why):
    (tmp_path / "calve.yaml").write_text(DECLARATION.format(null=""))
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "warehouse" / "catalog.db").touch()
    ended = calve("dead-letter", *arguments)
    assert ended.code == 64
    assert why in ended.err


def test_a_sink_without_dead_letters_says_so(calve, tmp_path):
    declared = DECLARATION.format(null="").replace("table: orders", "table: orders, dead_letter: off")
    (tmp_path / "calve.yaml").write_text(declared)
    ended = calve("dead-letter", "list")
    assert (ended.code, "'dead_letter' is off" in ended.err) == (78, True)
