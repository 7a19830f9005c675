from datetime import datetime
from pathlib import Path

import pytest

from bench import readers, report
from bench.workloads import Result

RIGHT = Result(
    "W1", "calve", 0, "calve 1", 2_000_000, 10.0, 20.0, 2**30, 4, 0, 2, True, more={"visible_seconds": 9.0}
)
RESULTS = [
    RIGHT,
    Result(
        "W1",
        "calve",
        1,
        "calve 1",
        2_000_000,
        14.0,
        22.0,
        2**30,
        4,
        0,
        2,
        True,
        more={"visible_seconds": 12.0},
    ),
    Result(
        "W1",
        "flink",
        0,
        "Flink 2",
        2_000_000,
        20.0,
        40.0,
        2**31,
        4,
        0,
        2,
        False,
        ["rows: 1 instead of 2"],
        "slow",
    ),
    Result("W1", "dlt", wrong=["reads parquet and csv only"]),
]
MACHINE = {"cores": 2, "memory_gib": 24, "system": "Linux", "python": "3.11"}


@pytest.fixture
def document(monkeypatch):
    monkeypatch.setattr(report, "machine", lambda: MACHINE)
    return report.document(RESULTS, "make bench-peers", datetime(2026, 1, 2))


def test_rounds_become_their_median(document):
    calve, flink, dlt = document["results"]
    assert (calve["rounds"], calve["wall"], calve["cpu"]) == (2, 12.0, 21.0)
    assert calve["more"] == {"visible_seconds": 10.5}
    assert (calve["right"], flink["right"], dlt["right"]) == (True, False, None)
    assert len(document["rounds"]) == 4


def test_one_wrong_round_makes_the_result_wrong():
    wrong = Result("W1", "calve", 1, wall=1.0, cpu=1.0, right=False, wrong=["rows: 1 instead of 2"])
    told = report.summary([RIGHT, wrong])
    assert told["right"] is False
    assert told["wrong"] == ["rows: 1 instead of 2"]


def test_the_table_names_the_reason_where_there_is_no_result(document):
    lines = report.text(document["results"]).splitlines()
    assert lines[0].startswith("W1: Append of JSON")
    assert "12.0" in lines[2]
    assert "visible after 10.5 s" in lines[2]
    assert "no" in lines[3].split()
    assert "rows: 1 instead of 2" in lines[3]
    assert lines[4].rstrip().endswith("reads parquet and csv only")


def test_without_numbers_the_docs_have_none():
    for nothing in (None, {}, {"workloads": {}}):
        assert report.markdown(nothing) == "No numbers are published yet."


def test_the_docs_show_what_was_measured_with_command_versions_and_date(document, tmp_path):
    published = report.merged(None, document)
    (tmp_path / "W1.png").write_bytes(b"")
    text = report.markdown(published, tmp_path, "performance/")
    assert "### W1: Append of JSON" in text
    assert "| calve | 12.0 | 21.0 |" in text
    assert (
        "`make bench-peers`, 2026-01-02, 2 cores, 24 GiB; medians of up to 2 rounds. Flink 2; calve 1."
        in text
    )
    assert "- flink: slow" in text
    assert "![W1](performance/W1.png)" in text
    assert "![" not in report.markdown(published)


def test_a_workload_that_was_run_again_takes_the_place_of_the_older_run(document):
    old = report.merged(None, {**document, "date": "2020-01-01"})
    other = {**document, "results": [{**document["results"][0], "workload": "W3"}]}
    both = report.merged(old, other)
    assert list(both["workloads"]) == ["W1", "W3"]
    assert both["workloads"]["W1"]["date"] == "2020-01-01"
    assert report.merged(both, document)["workloads"]["W1"]["date"] == "2026-01-02"


def test_charts_show_only_what_is_right(document):
    assert report.bars(document["results"]) == [("calve", 12.0, 21.0)]


def test_curves_need_two_points():
    def part(seconds, right=True):
        told = {"peer": "calve", "right": right, "more": {"batch_seconds": seconds}}
        return {"results": [told]}

    one = {"workloads": {"W8-append-1": part(1.0)}}
    assert report.curves(one, "append") == {}
    two = {"workloads": {**one["workloads"], "W8-append-100": part(1.1)}}
    assert report.curves(two, "append") == {"calve": [(1, 1.0), (100, 1.1)]}
    assert (
        report.curves({"workloads": {**one["workloads"], "W8-append-10": part(1.1, False)}}, "append") == {}
    )


@pytest.mark.thorough
def test_charts_are_drawn(document, tmp_path):
    pytest.importorskip("matplotlib")
    flink = {**document["results"][1], "right": True}
    grown = {
        "peer": "calve",
        "workload": "W8-append-1",
        "right": True,
        "wall": None,
        "more": {"batch_seconds": 1.0},
    }
    published = {
        "workloads": {
            "W1": {"results": [document["results"][0], flink]},
            "W8-append-1": {"results": [grown]},
            "W8-append-10": {"results": [grown]},
        }
    }
    made = report.charts(published, tmp_path)
    assert [file.name for file in made] == ["W1.png", "W8-append-100.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in made)


def test_every_number_that_workloads_tell_has_words():
    import re

    text = "".join(
        (Path(report.__file__).parent / f"{name}.py").read_text() for name in ("workloads", "readers")
    )
    told = set(
        re.findall(
            r'"(\w+_(?:seconds|ms|p99|median|million|per_second|bytes|cpu|commit|day|records|kept))"', text
        )
    )
    assert told - {"file_size_in_bytes"} == set(report.UNITS)


def test_a_reader_that_fails_is_told_from_one_that_is_late():
    lines = [
        "starting",
        '{"file": "/a/v1.metadata.json", "seconds": 2}',
        '{"file": "/b/v1.metadata.json", "seconds": null, "error": "no such column\\nLINE 1"}',
    ]
    assert readers.told(lines) == {
        Path("/a/v1.metadata.json"): 2.0,
        Path("/b/v1.metadata.json"): "cannot read it: no such column",
    }
