import pytest

from bench.data import Expected
from bench.measure import Watched
from bench.peers.peer import Step
from bench.peers.pyiceberg import PyIceberg
from bench.stand import Stand
from bench.table import Facts
from bench.workloads import (
    ORDERS,
    WORKLOADS,
    BulkCsv,
    BulkParquet,
    batch_seconds,
    both,
    cause,
    expected,
    latencies,
    quantile,
)


def test_every_workload_of_the_plan_is_there():
    numbers = {int(name.split("-")[0][1:]) for name in WORKLOADS}
    assert numbers | {9} == set(range(1, 12))
    assert all(kind.title for kind in WORKLOADS.values())


def test_a_row_is_visible_when_as_many_are():
    produced = [10.0, 10.0, 11.0, 12.0]
    seen = [(9.0, 5), (10.5, 6), (12.5, 8)]
    assert latencies(produced, seen, before=5) == [0.5, 2.5, 1.5]
    assert latencies(produced, [], before=0) == []


def test_a_quantile_is_one_of_the_values():
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile(list(map(float, range(100))), 0.99) == 99.0
    assert quantile([], 0.5) is None


def test_what_is_expected_leaves_bad_records_out():
    whole, good = expected(ORDERS, 1000), expected(ORDERS, 1000, 100)
    assert (whole.rows, good.rows) == (1000, 990)
    assert whole.sums["id"] - good.sums["id"] == sum(range(50, 1000, 100))


def test_appended_rows_add_up():
    assert both(100, 500, 50).rows == 150
    assert both(100, 100, 50) == Expected.of(ORDERS.blocks(0, 150))


def test_the_time_of_a_batch_is_that_of_its_command():
    assert batch_seconds([Watched(1.0), Watched(3.0), Watched(2.0)], Facts(), 3) == 2.0


def test_the_time_of_a_batch_is_that_between_commits_where_each_is_one():
    commits = (100.0, 200.0, 201.0, 203.0, 206.0)
    assert batch_seconds([Watched(50.0, began=199.5)], Facts(commits=commits), 4) == 2.0
    # What was there before may be a moment old.
    close = (199.0, *commits[1:])
    assert batch_seconds([Watched(50.0, began=199.5)], Facts(commits=close), 4) == 2.0


def test_the_time_of_a_batch_is_its_share_where_commits_do_not_tell():
    commits = (100.0, *(200.0 + n / 10 for n in range(12)))
    assert batch_seconds([Watched(30.0, began=199.5)], Facts(commits=commits), 4) == 7.5
    assert batch_seconds([Watched(30.0)], Facts(), 1) == 30.0


class TwoFiles(BulkParquet):
    files = 2


class TwoFilesOfCsv(BulkCsv):
    files = 2


@pytest.mark.thorough
@pytest.mark.parametrize("workload", [TwoFiles, TwoFilesOfCsv])
def test_a_peer_is_run_measured_and_judged(tmp_path, workload):
    stand = Stand(tmp_path, scale=0.0005)
    result = workload().run(stand, PyIceberg(), 0)
    assert (result.right, result.wrong) == (True, [])
    assert (result.rows, result.snapshots, result.delete_files) == (5000, 2, 0)
    assert result.wall > 0
    assert result.cpu > 0
    assert result.peak > 0
    assert stand.left[workload.name, "pyiceberg"].is_file()


class Half(PyIceberg):
    def files(self, load, folder):
        found = super().files(load, folder)
        half = [str(file) for file in load.inputs.parquet[: len(load.inputs.parquet) // 2]]
        whole = [str(file) for file in load.inputs.parquet]
        text = found["load.json"]
        for file in set(whole) - set(half):
            text = text.replace(f'"{file}"', f'"{half[0]}"')
        return {**found, "load.json": text}


@pytest.mark.thorough
def test_rows_that_are_lost_or_there_twice_are_noticed(tmp_path):
    result = TwoFiles().run(Stand(tmp_path, scale=0.0005), Half(), 0)
    assert result.right is False
    assert "distinct ids: 2,500 instead of 5,000" in result.wrong


class Failing(PyIceberg):
    def steps(self, load, folder):
        return [Step(("sh", "-c", "echo the disk is full; exit 3"))]


def test_a_command_that_fails_is_named_with_what_it_said(tmp_path):
    result = BulkParquet().run(Stand(tmp_path, scale=0.0005), Failing(), 0)
    assert result.right is False
    assert "ended with 3: the disk is full" in result.wrong


def test_data_is_made_once(tmp_path):
    stand = Stand(tmp_path)
    first = stand.whole("x", ORDERS, 100, ["parquet", "csv"], files=3)
    before = {file: file.stat().st_mtime_ns for file in (*first.parquet, *first.csv)}
    assert stand.whole("x", ORDERS, 100, ["parquet", "csv"], files=3) == first
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert len(before) == 6


def test_why_a_command_failed_is_its_last_error():
    log = (
        "INFO starting\nOSError: no disk\n\tat a.B(B.java:1)\nCaused by: x.YException: no id\n\tat c\n+- plan"
    )
    assert cause(log) == "Caused by: x.YException: no id"
    assert cause("one\ntwo\n") == "two"
    assert cause("") == ""


class Stuck(PyIceberg):
    def steps(self, load, folder):
        text = "echo x.YException: no memory; echo will not recover; sleep 600"
        return [Step(("sh", "-c", text), ends=False, given_up="will not recover")]


def test_a_command_that_has_given_up_is_not_waited_for(tmp_path):
    result = BulkParquet().run(Stand(tmp_path, scale=0.0005), Stuck(), 0)
    assert result.wall < 60
    assert result.wrong[0] == "gave up: x.YException: no memory"
