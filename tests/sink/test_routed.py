"""Several tables from one source, told by what is in them after runs, crashes and restarts."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pytest

from calve import crash
from calve.crash import Crash, Fault
from calve.errors import BadRecord, ConfigurationError, DataRefused, Fenced, StartRefused
from calve.iceberg.stage import NOTHING
from calve.position import parse, property_name
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink import routes
from calve.sink.declaration import IcebergSink
from calve.sink.routed import Routed
from calve.sources.datagen import DatagenSource
from calve.sources.files import FilesSource
from calve.transforms.sql import SqlTransform
from tests.lake import Lake

REGIONS = ("eu", "us")
FIELDS = {"id": "sequence"}
ROUTING = "SELECT *, if(id % 2 = 0, 'eu', 'us') AS region, id AS n FROM input"


@pytest.fixture(autouse=True)
def no_plan():
    yield
    crash.load(())


@pytest.fixture
def pipeline(lake):
    def make(rows=60, sql=ROUTING, **keys):
        declared = {"catalog": lake.declaration, "namespace": "shop", "table": "orders_{region}"}
        batches = {"batch_size": 1, "max_batch_size": 30}
        sink = IcebergSink.model_validate({**declared, **batches, **keys})
        assert sink.flaws() == []
        source = DatagenSource.model_validate({"rows": rows, "fields": FIELDS})
        return ResolvedPipeline("orders", source, sink, (SqlTransform(sql=sql),), "orders", True)

    return make


UPSERT = {"commit_mode": "upsert", "key_fields": ["id", "region"]}
OVERWRITE = {"commit_mode": "overwrite", "partition_by": ["n"]}
MODES = {"append": {}, "upsert": UPSERT, "overwrite": OVERWRITE}


def run(lake, pipeline, once=False, stop=None):
    report = Report("orders")
    Runner(pipeline, lake.spark, stop or Stop(), report, once).run()
    return report.status


def load(lake, name):
    return lake.catalog.load(lake.name(name))


def ids(lake, region):
    return lake.ids(load(lake, f"orders_{region}"))


def mark(lake, name):
    return parse(load(lake, name).metadata().property(property_name("orders")))


def listed(lake):
    rows = lake.spark.sql(f"SELECT table_name FROM {lake.name('orders__routes').sql()}").collect()
    return sorted(row[0] for row in rows)


def expected(rows, number):
    return [one for one in range(1, rows + 1) if one % 2 == number]


def check_all(lake, rows=60):
    for number, region in enumerate(REGIONS):
        assert ids(lake, region) == expected(rows, number), region
    assert listed(lake) == [f"orders_{region}" for region in REGIONS]


@pytest.mark.parametrize("keys", MODES.values(), ids=MODES)
def test_rows_go_to_the_table_that_their_field_names(lake, pipeline, keys):
    status = run(lake, pipeline(**keys))
    check_all(lake)
    assert (status.rows, status.batches, status.table) == (60, 2, "shop.orders_{region}")
    assert mark(lake, "orders__routes").position == {"row": 60}
    assert mark(lake, "orders_eu").position["to"] == {"row": 60}


def test_a_second_run_with_nothing_new_writes_nothing(lake, pipeline):
    run(lake, pipeline(), once=True)
    before = [load(lake, f"orders_{one}").metadata().file for one in ("_routes", *REGIONS)]
    assert run(lake, pipeline(), once=True).batches == 0
    assert [load(lake, f"orders_{one}").metadata().file for one in ("_routes", *REGIONS)] == before


def test_a_table_that_turns_up_in_mid_stream_is_listed_and_written(lake, pipeline):
    late = "SELECT *, if(id > 40, 'us', 'eu') AS region, id AS n FROM input"
    run(lake, pipeline(sql=late))
    assert ids(lake, "eu") == list(range(1, 41))
    assert ids(lake, "us") == list(range(41, 61))
    assert listed(lake) == ["orders_eu", "orders_us"]
    assert mark(lake, "orders_us").position["after"] == routes.fingerprint({"row": 30})


def test_a_batch_leaves_tables_alone_that_it_has_no_rows_for(lake, pipeline):
    late = "SELECT *, if(id > 30, 'us', 'eu') AS region, id AS n FROM input"
    run(lake, pipeline(sql=late))
    assert mark(lake, "orders_eu").position["to"] == {"row": 30}
    run(lake, pipeline(90, sql=late))
    assert ids(lake, "us") == list(range(31, 91))
    assert ids(lake, "eu") == list(range(1, 31))


def reached(lake, declared):
    """How often a run without a crash reaches each point; the plan's own fault never fires."""
    crash.load((Fault("batch.end", nth=10_000),))
    run(lake, declared)
    return Counter(crash._plan.reached)


LIFE = {
    **dict.fromkeys(("start.before_fence", "fence.applied", "fence.swapped"), 3),
    **dict.fromkeys(("plan.before", "plan.after", "read.after"), 2),
    **dict.fromkeys(("stage.before", "stage.after"), 5),
    **dict.fromkeys(("commit.before", "commit.applied", "commit.swapped", "commit.confirmed"), 7),
    **dict.fromkeys(("acknowledge.before", "acknowledge.after", "batch.end"), 2),
}
"""Two batches for two tables: the lead and its list, and then for each batch both tables and the lead."""


def cases(*always, full):
    """Parameters for every run of the tests, and more of them for the full counts."""
    told = [(case, False) for case in always] + [(case, True) for case in full]
    return [
        pytest.param(*case, id="-".join(map(str, case)), marks=[pytest.mark.full] if is_full else [])
        for case, is_full in told
    ]


CRASHES = [
    *(("commit.swapped", nth) for nth in range(1, 8)),
    *(("commit.applied", nth) for nth in (1, 2, 3, 4, 6)),
    *(("commit.before", 4), ("commit.confirmed", 2), ("commit.confirmed", 4)),
    *(("fence.swapped", nth) for nth in (1, 2, 3)),
    *(("fence.applied", 2), ("start.before_fence", 3), ("read.after", 2), ("stage.before", 1)),
    *(("stage.before", 3), ("stage.after", 1), ("stage.after", 2), ("plan.before", 2), ("plan.after", 2)),
    *(("acknowledge.before", 1), ("acknowledge.after", 1), ("batch.end", 1)),
]


def test_the_crash_tests_know_every_point_of_a_life(lake, pipeline):
    assert reached(lake, pipeline()) == LIFE
    assert set(LIFE) == set(crash.POINTS) == {point for point, _ in CRASHES}


def crashed(lake, declared, point, nth):
    crash.load((Fault(point, nth),))
    with pytest.raises(Crash):
        run(lake, declared)
    assert len(crash.fired()) == 1
    crash.load(())


ALWAYS = [
    *(("commit.swapped", nth) for nth in (1, 2, 3, 4)),
    *(("commit.applied", 3), ("fence.swapped", 2), ("stage.after", 2), ("commit.confirmed", 4)),
]


@pytest.mark.parametrize(
    ("point", "nth"), cases(*ALWAYS, full=[case for case in CRASHES if case not in ALWAYS])
)
def test_a_crash_at_any_point_and_a_restart_give_every_row_once(lake, pipeline, point, nth):
    crashed(lake, pipeline(), point, nth)
    run(lake, pipeline())
    check_all(lake)
    assert mark(lake, "orders__routes").position == {"row": 60}


@pytest.mark.parametrize("nth", cases((3,), full=[(2,), (5,), (6,)]))
@pytest.mark.parametrize("mode", ["upsert", "overwrite"])
def test_a_crash_between_the_tables_commits_in_other_modes(lake, pipeline, mode, nth):
    crashed(lake, pipeline(**MODES[mode]), "commit.swapped", nth)
    run(lake, pipeline(**MODES[mode]))
    check_all(lake)


def test_the_interrupted_batch_is_finished_with_its_own_bounds(lake, pipeline):
    """The source has more than that, and batches may be larger now."""
    crashed(lake, pipeline(200), "commit.swapped", 2)
    assert mark(lake, "orders__routes").position == {"row": 0}
    status = run(lake, pipeline(200, max_batch_size=200))
    check_all(lake, 200)
    assert (status.batches, status.rows) == (2, 200 - 15)


def test_two_crashes_in_one_batch(lake, pipeline):
    crashed(lake, pipeline(), "commit.swapped", 2)
    crashed(lake, pipeline(), "commit.swapped", 1)
    crashed(lake, pipeline(), "commit.applied", 1)
    run(lake, pipeline())
    check_all(lake)


def test_another_declaration_may_not_finish_an_interrupted_batch(lake, pipeline):
    crashed(lake, pipeline(), "commit.swapped", 2)
    names = ["orders__routes", "orders_eu", "orders_us"]
    before = [load(lake, name).metadata().file for name in names]
    changed = ROUTING.replace("= 0", "= 1")
    with pytest.raises(StartRefused, match="tables 'orders_eu' have it already") as caught:
        run(lake, pipeline(sql=changed))
    assert caught.value.exit_code == 65
    assert "calve repair --accept-routes" in str(caught.value)
    assert [load(lake, name).metadata().file for name in names] == before
    run(lake, pipeline(batch_size=5, max_batch_size=40, retry_for="5m"))
    check_all(lake)


def test_rows_that_are_routed_otherwise_when_read_again_are_refused(lake, pipeline, monkeypatch):
    crashed(lake, pipeline(), "commit.swapped", 2)
    same = pipeline().fingerprint()
    monkeypatch.setattr(ResolvedPipeline, "fingerprint", lambda self: same)
    changed = "SELECT *, if(id % 4 = 0, 'eu', 'us') AS region, id AS n FROM input"
    with pytest.raises(StartRefused, match="'orders_eu' has 15 rows of it and would get 7 now"):
        run(lake, pipeline(sql=changed))
    run(lake, pipeline())
    check_all(lake)


def test_after_a_finished_batch_the_declaration_may_change(lake, pipeline):
    run(lake, pipeline(30))
    run(lake, pipeline(60, sql="SELECT *, 'all' AS region, id AS n FROM input"))
    assert ids(lake, "all") == list(range(31, 61))


def test_tables_that_are_named_no_more_are_fenced_and_left_alone(lake, pipeline):
    run(lake, pipeline(30))
    lake.catalog.drop(lake.name("orders_us"))
    wider = "SELECT *, 'all' AS region, 1 AS more FROM input"
    run(lake, pipeline(60, sql=wider, table="bills_{region}"))
    assert lake.ids(load(lake, "bills_all")) == list(range(31, 61))
    assert mark(lake, "orders_eu").epoch == 2
    assert not lake.catalog.has_table(lake.name("orders_us"))


def test_a_table_is_listed_before_it_is_there(lake, pipeline):
    crashed(lake, pipeline(), "start.before_fence", 2)
    assert listed(lake) == [f"orders_{region}" for region in REGIONS]
    run(lake, pipeline())
    check_all(lake)


def other_life(spark, lake, declared, act, at, monkeypatch):
    """Run `declared`, and `act` within it at the nth time that it reaches a point; how it ended."""
    point, nth = at
    seen = Counter()
    plain = crash.point

    def reach(name):
        seen[name] += 1
        if (name, seen[name]) == (point, nth):
            monkeypatch.setattr(crash, "point", plain)
            act()

    monkeypatch.setattr(crash, "point", reach)
    with pytest.raises(Fenced) as caught:
        run(Lake.open(spark, lake.declaration), declared)
    return caught.value


OVERTAKEN = cases(
    ("commit.applied", 3),
    ("start.before_fence", 2),
    full=[
        *(("commit.applied", nth) for nth in (1, 2, 4, 6)),
        ("fence.applied", 2),
        ("start.before_fence", 3),
    ],
)


@pytest.mark.parametrize(("point", "nth"), OVERTAKEN)
def test_a_second_process_fences_the_first_wherever_that_is(spark, lake, pipeline, monkeypatch, point, nth):
    """The second one takes everything over while the first one stands still, and then the first goes on."""
    error = other_life(spark, lake, pipeline(), lambda: run(lake, pipeline()), (point, nth), monkeypatch)
    assert error.exit_code == 80
    check_all(lake)


def test_the_fence_of_a_start_covers_every_table(lake, pipeline):
    """Also those that the batches of this life have no rows for."""
    names = ["orders__routes", "orders_eu", "orders_us"]
    run(lake, pipeline(30))
    before = {name: mark(lake, name) for name in names}
    run(lake, pipeline(31))
    for name in names:
        assert mark(lake, name).epoch == before[name].epoch + 1
        assert mark(lake, name).writer != before[name].writer


BAD = {
    "NULL": ("if(id = 7, NULL, 'eu')", "no table: NULL in {region}"),
    "capitals": ("if(id = 7, 'EU', 'eu')", "table 'orders_EU': a name has small letters, digits and '_'"),
    "not allowed": ("if(id = 7, 'us', 'eu')", "'allowed_tables' does not have it"),
    "too many": ("concat('r', id % 4)", r"it would be one more than 'max_tables' \(2\) allows"),
}


@pytest.mark.parametrize("case", BAD)
def test_rows_that_go_nowhere_stop_the_pipeline_and_nothing_is_written(lake, pipeline, case):
    expression, message = BAD[case]
    keys = {"not allowed": {"allowed_tables": ["orders_eu"]}, "too many": {"max_tables": 2}}.get(case, {})
    declared = pipeline(sql=f"SELECT *, {expression} AS region FROM input", **keys)
    with pytest.raises(DataRefused, match=message) as caught:
        run(lake, declared)
    assert caught.value.exit_code == 65
    assert 'behind {"row": 0}' in str(caught.value)
    assert "\n" not in str(caught.value)
    assert listed(lake) == []
    assert not lake.catalog.has_table(lake.name("orders_eu"))


def test_tables_of_earlier_runs_count(lake, pipeline):
    sql = "SELECT *, concat('r', int(id / 30)) AS region FROM input"
    run(lake, pipeline(25, sql=sql, max_tables=1))
    with pytest.raises(DataRefused, match="table 'orders_r1': it would be one more than"):
        run(lake, pipeline(60, sql=sql, max_tables=1))
    run(lake, pipeline(60, sql=sql, max_tables=3))
    assert ids(lake, "r1") == list(range(30, 60))


def test_deletes_that_no_table_takes_need_no_route(lake, pipeline, tmp_path):
    (tmp_path / "in").mkdir()
    rows = '{"id":1,"region":"eu","op":"i"}\n{"id":2,"op":"d"}\n{"id":3,"region":"us","op":"d"}\n'
    (tmp_path / "in" / "a.json").write_text(rows)
    schema = "id BIGINT, region STRING, op STRING"
    files = {"path": str(tmp_path / "in"), "schema": schema, "operation": {"field": "op"}}
    plain = pipeline()
    declared = ResolvedPipeline("orders", FilesSource.model_validate(files), plain.sink, (), "orders", True)
    status = run(lake, declared, once=True)
    assert (status.rows, status.dropped) == (1, 2)
    assert ids(lake, "eu") == [1]
    assert listed(lake) == ["orders_eu"]


def test_a_record_that_cannot_be_decoded_is_told_as_ever(lake, pipeline, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id":1,"region":"eu"}\n{"id":x}\n')
    files = {"path": str(tmp_path / "in"), "schema": "id BIGINT, region STRING"}
    source, sink = FilesSource.model_validate(files), pipeline(dead_letter="off").sink
    with pytest.raises(BadRecord, match="Cannot decode file"):
        run(lake, ResolvedPipeline("orders", source, sink, (), "orders", True))
    assert listed(lake) == []


def test_an_upsert_replaces_rows_in_their_own_table(lake, pipeline):
    keys = {**UPSERT, "key_fields": ["k", "region"]}
    sql = "SELECT *, id % 7 AS k, if(id % 2 = 0, 'even', 'odd') AS region FROM input"
    run(lake, pipeline(60, sql=sql, **keys))
    for region, rest in (("even", 0), ("odd", 1)):
        last = {one % 7: one for one in range(1, 61) if one % 2 == rest}
        assert ids(lake, region) == sorted(last.values())


def test_a_column_that_cannot_name_a_table_is_refused(lake, pipeline):
    with pytest.raises(ConfigurationError, match="column 'region' is DOUBLE; text or a whole number"):
        run(lake, pipeline(sql="SELECT *, id / 2 AS region FROM input"))
    with pytest.raises(ConfigurationError, match="they have no column 'region'; did you mean 'regon'"):
        run(lake, pipeline(sql="SELECT *, 'eu' AS regon FROM input"))
    assert not lake.catalog.has_table(lake.name("orders__routes"))


def test_a_table_that_was_the_only_one_of_the_sink_is_refused(lake, pipeline):
    run(lake, pipeline(table="orders_eu"))
    with pytest.raises(StartRefused, match="wrote it as its only table"):
        run(lake, pipeline())


def test_one_of_several_tables_cannot_become_the_only_one(lake, pipeline):
    run(lake, pipeline())
    with pytest.raises(StartRefused, match="as one of several tables"):
        run(lake, pipeline(table="orders_eu"))


def test_a_table_that_a_lost_list_does_not_have_is_refused(lake, pipeline):
    run(lake, pipeline())
    lake.catalog.drop(lake.name("orders__routes"))
    with pytest.raises(StartRefused, match=r"is not listed in table 'shop\.orders__routes'"):
        run(lake, pipeline())
    assert ids(lake, "eu") == expected(60, 0)


def test_two_processes_at_once_leave_every_row_once(spark, lake, pipeline):
    """Whoever is overtaken ends with Fenced; together they bring every row."""
    ends: list[BaseException | None] = []

    def life():
        try:
            run(Lake.open(spark, lake.declaration), pipeline(300))
            ends.append(None)
        except BaseException as error:
            ends.append(error)

    threads = [threading.Thread(target=life) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert all(end is None or isinstance(end, Fenced) for end in ends), ends
    run(lake, pipeline(300))
    check_all(lake, 300)


def take_any_mark(patch):
    def accepted(self, name, mark):
        bounds = replace(routes.bounds(mark.position), life=self._life)
        return mark.moved(position=bounds.dump(), commit=mark.commit, above=mark.above)

    patch.setattr(Routed, "_accepted", accepted)
    patch.setattr(Routed, "_check_lead", lambda self: None)


def forget_the_bounds(patch):
    patch.setattr(Routed, "owed", property(lambda self: None, lambda self, to: None), raising=False)
    patch.setattr(routes, "differing", lambda having, tables: {})


def write_all_tables_again(patch):
    patch.setattr(routes, "ahead", lambda lead, found: {})


def finish_with_any_declaration(patch):
    patch.setattr(routes, "doubt", lambda having, declaration: None)


def compare_no_counts(patch):
    patch.setattr(routes, "differing", lambda having, tables: {})


def commit_the_lead_first(patch):
    plain = Routed.commit

    def commit(self, staged, to):
        after, self._at = self._at(), lambda: after
        self._lead.commit(NOTHING, to)
        return plain(self, staged, to)

    patch.setattr(Routed, "commit", commit)


def crashed_then(changed=None, rows=60, **keys):
    def lives(lake, pipeline, spark, patch):
        crashed(lake, pipeline(rows), "commit.swapped", 2)
        run(lake, pipeline(rows, **({"sql": changed} if changed else {}), **keys))

    return lives


def overtaken(lake, pipeline, spark, patch):
    at = ("start.before_fence", 2)
    other_life(spark, lake, pipeline(), lambda: run(lake, pipeline()), at, patch)


def changed_unseen(lake, pipeline, spark, patch):
    same = pipeline().fingerprint()
    patch.setattr(ResolvedPipeline, "fingerprint", lambda self: same)
    crashed_then(ROUTING.replace("id % 2 = 0", "id % 4 = 0"))(lake, pipeline, spark, patch)


OFF = {
    "no older life takes a table over": (take_any_mark, overtaken, 60),
    "a batch is finished with its own bounds": (
        forget_the_bounds,
        crashed_then(rows=200, max_batch_size=200),
        200,
    ),
    "a table that has the batch is left out": (write_all_tables_again, crashed_then(), 60),
    "another declaration is refused": (
        finish_with_any_declaration,
        crashed_then(ROUTING.replace("= 0", "= 1")),
        60,
    ),
    "other counts are refused": (compare_no_counts, changed_unseen, 60),
    "the lead is last": (commit_the_lead_first, crashed_then(), 60),
}


@pytest.mark.parametrize("name", OFF)
def test_without_a_protection_rows_are_lost_or_doubled(spark, lake, pipeline, monkeypatch, name):
    """Each of them is needed: what the tests above see with all of them on does not hold without it."""
    switch, lives, rows = OFF[name]
    switch(monkeypatch)
    lives(lake, pipeline, spark, monkeypatch)
    with pytest.raises(AssertionError):
        check_all(lake, rows)


def test_without_the_list_a_start_is_refused(lake, pipeline, monkeypatch):
    """What one life wrote to tables that it did not list, the next one cannot know to be its own."""

    def open_only(self, names):
        for name in names:
            self._open(name, self._at())

    monkeypatch.setattr(Routed, "_add", open_only)
    crashed(lake, pipeline(), "commit.swapped", 1)
    with pytest.raises(StartRefused, match="is not listed in table"):
        run(lake, pipeline())
    monkeypatch.setattr(Routed, "_accepted", lambda self, name, mark: mark)
    run(lake, pipeline())
    assert ids(lake, "eu") == sorted([*expected(60, 0), *expected(30, 0)])
