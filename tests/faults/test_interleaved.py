"""Our commit, cut in phases, and what others do to the table in between: every pair."""

from __future__ import annotations

import threading
import uuid
from itertools import product

import pytest

from calve import crash
from calve.catalogs import Catalog
from calve.errors import CalveError, Fenced, StartRefused
from calve.patience import Patience
from calve.runtime.ahead import Ahead
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.schema import parse
from calve.sink.declaration import IcebergSink
from calve.sink.writer import Writer
from tests.faults import figures, others
from tests.faults.modes import AHEAD, BATCHES, MODES, PARTS
from tests.faults.others import DEEDS, Place
from tests.faults.protections import IN_PAIRS
from tests.lake import Lake

pytestmark = pytest.mark.spark

SOURCE = "kafka:cluster"
PHASES = ("commit.before", "commit.applied", "commit.swapped")


def second_writer(lake, table):
    other = lake.committer(table)
    mark = other.fence(SOURCE, {"row": 0})
    if mark.position == {"row": 1}:
        other.commit(lake.staged(other.table, [2]), {"row": 2})


def compaction(lake, table):
    lake.call("rewrite_data_files", table=f"'{table.name}'", options="map('rewrite-all', 'true')")


def expiry(lake, table):
    now = "TIMESTAMP '2100-01-01'"
    lake.call("expire_snapshots", table=f"'{table.name}'", older_than=now, retain_last="1")


def orphan_removal(lake, table):
    lake.call("remove_orphan_files", table=f"'{table.name}'")


def foreign_append(lake, table):
    lake.rows([100]).writeTo(table.name.sql()).append()


def roll_back(lake, table):
    first = table.refresh().snapshots()[0].id
    lake.call("rollback_to_snapshot", table=f"'{table.name}'", snapshot_id=str(first))


def recreation(lake, table):
    lake.catalog.drop(table.name)
    lake.table(table.name)


GOES_ON = (compaction, expiry, orphan_removal, foreign_append)
STOPS = {second_writer: Fenced, roll_back: StartRefused, recreation: CalveError}


@pytest.fixture
def cut(lake, monkeypatch):
    """A table with one commit, and a second commit that meets `other` at `phase`."""
    table = lake.table()
    writer = lake.committer(table, retry_for=2)
    writer.fence(SOURCE, {"row": 0})
    writer.commit(lake.staged(writer.table, [1]), {"row": 1})
    staged = lake.staged(writer.table, [2])

    def run(phase, other):
        def interfere(name):
            if name == phase:
                monkeypatch.undo()
                other(lake, table)

        monkeypatch.setattr(crash, "point", interfere)
        return writer.commit(staged, {"row": 2})

    return table, run


@pytest.mark.parametrize("other", GOES_ON, ids=lambda one: one.__name__)
@pytest.mark.parametrize("phase", PHASES)
def test_what_does_not_concern_us_costs_an_attempt_at_the_most(lake, cut, phase, other):
    table, run = cut
    assert run(phase, other).position == {"row": 2}
    assert [number for number in lake.ids(table) if number < 100] == [1, 2]
    assert lake.committer(table).fence(SOURCE, {"row": 0}).position == {"row": 2}


@pytest.mark.parametrize("other", STOPS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("phase", ["commit.before", "commit.applied"])
def test_what_takes_the_table_from_us_stops_the_commit(lake, cut, phase, other):
    table, run = cut
    with pytest.raises(STOPS[other]):
        run(phase, other)
    expected = {second_writer: [1, 2], roll_back: [], recreation: []}[other]
    assert lake.ids(lake.catalog.load(table.name)) == expected


def test_a_second_writer_that_comes_after_our_swap_begins_behind_it(lake, cut):
    table, run = cut
    with pytest.raises(Fenced):
        run("commit.swapped", second_writer)
    assert lake.ids(table) == [1, 2]
    assert lake.committer(table).fence(SOURCE, {"row": 0}).position == {"row": 2}


def test_a_branch_that_is_moved_under_our_commit_stops_it(lake, monkeypatch):
    table, branch = lake.table(), "audit"
    writer = lake.committer(table, branch=branch, retry_for=2)
    writer.fence(SOURCE, {"row": 0})
    first = table.refresh().head(branch).snapshotId()
    writer.commit(lake.staged(writer.table, [1]), {"row": 1})

    def interfere(name):
        if name == "commit.applied":
            monkeypatch.undo()
            lake.spark.sql(f"ALTER TABLE {table.name.sql()} REPLACE BRANCH {branch} AS OF VERSION {first}")

    monkeypatch.setattr(crash, "point", interfere)
    with pytest.raises(StartRefused):
        writer.commit(lake.staged(writer.table, [2]), {"row": 2})
    assert lake.ids(table, branch) == []


class Interleaving:
    """A pipeline of three batches, of which one meets what another process does."""

    def __init__(self, lake, folder, mode, patch):
        self.lake, self.mode, self._folder, self._patch = lake, mode, folder / "in", patch
        self.namespace = f"n{uuid.uuid4().hex[:10]}"
        mode.put(self._folder)
        self._begun = []
        if mode.is_ahead:
            start = Ahead.start
            patch.setattr(Ahead, "start", lambda ahead, work: (start(ahead, work), self._keep(ahead))[0])
        else:
            patch.setattr(Runner, "_start_next", lambda *values: None)

    def _keep(self, ahead):
        self._begun.append(ahead._running)

    def place(self, table):
        return Place(self.lake, self.namespace, table)

    def run(self, phase, deed):
        """Run all batches; once the first one is in the table, `deed` is done at `phase`."""
        reached, done = [], []

        def interfere(name):
            if threading.current_thread() is not threading.main_thread():
                return
            reached.append(name)
            if name == phase and "batch.end" in reached and not done:
                done.append(name)
                for one in self._begun:
                    one.result(60)
                deed.do(self.place(self.mode.told))

        self._patch.setattr(crash, "point", interfere)
        pipeline = self.mode.pipeline(self.lake, self.namespace, self._folder)
        try:
            Runner(pipeline, self.lake.spark, Stop(), Report("t"), once=True).run()
        finally:
            self._patch.undo()
            assert done == [phase], f"'{phase}' was not reached"

    def rows(self, table, amount="amount"):
        found = self.lake.spark.sql(f"SELECT id, {amount} FROM {self.place(table).sql}").collect()
        return [tuple(row) for row in found]

    def check_rows(self, expected):
        found = [row for table in self.mode.tables for row in self.rows(table)]
        assert sorted(found, key=str) == sorted(expected, key=str)
        if self.mode.has_letters:
            assert self.lake.spark.table(self.place("t__dead_letter").sql).count() == len(BATCHES)

    def check_left(self, deed, expected):
        """After a refusal the table has what was committed before, and nothing of what was refused."""
        if self.mode.has_letters:
            expected = expected_rows(self.mode, deed, 1, 1)
        elif deed.do is others.drop:
            assert not self.lake.catalog.has_table(self.place(self.mode.told).name)
            return
        amounts = {others.column_renamed: "total"}
        tables = {others.table_renamed: self.place(self.mode.told).moved.table}
        found = []
        for table in self.mode.tables:
            is_told = table == self.mode.told
            name = tables.get(deed.do, table) if is_told else table
            found += self.rows(name, amounts.get(deed.do, "amount") if is_told else "amount")
        assert sorted(found, key=str) == sorted(expected, key=str)


def expected_rows(mode, deed, at, batches):
    """The rows after `batches` batches, where `deed` was done once `at` of them were in the table."""
    rows = []
    for number in range(batches + 1):
        if number == at and not mode.has_letters:
            ours = [one for one in rows if len(mode.tables) == 1 or PARTS[one[0]] == 0]
            rows = [one for one in rows if one not in ours] + deed.rows(ours)
        if number < batches:
            rows = mode.after(rows, number)
    return rows


def refusal(mode, deed, phase):
    """The code and the words with which the run must end, if it must."""
    is_replacing = mode.keys.get("commit_mode") == "overwrite" and phase in WINDOW
    if is_replacing and deed.code is None and {*deed.touches} & {0, 1, *others.ALL}:
        return 65, "another writer committed to the same data"
    return (deed.code, deed.said) if deed.code is not None else None


WINDOW = ("stage.after", "commit.before", "commit.applied")
"""Phases in which a batch is written and not in the table."""
PHASES = ("batch.end", "stage.before", "stage.after", "commit.applied", "commit.swapped")
OF_LETTERS = ("compaction", "expiry", "maintenance", "roll_back", "column_added", "format_upgrade")
OF_LETTERS += ("drop", "recreation", "table_renamed")


ON_REST = ("batch.end", "commit.before", "commit.applied", "schema.applied")


def pairs():
    for mode in MODES:
        deeds = [deed for deed in DEEDS if not mode.has_letters or str(deed) in OF_LETTERS]
        more = ("schema.before", "schema.applied") if not mode.says_columns else ()
        for deed, phase in product(deeds, (*PHASES, *more)):
            yield pytest.param(mode, deed, phase, id=f"{mode}-{deed}-{phase}")
    for mode, deed in product(AHEAD, DEEDS):
        yield pytest.param(mode, deed, "commit.before", id=f"{mode}-{deed}-commit.before")


def interleave(lake, folder, mode, deed, phase, patch):
    pair, at = Interleaving(lake, folder, mode, patch), 2 if phase == "commit.swapped" else 1
    figures.current.add(figures.PAIRS)
    said = refusal(mode, deed, phase)
    if said is None:
        pair.run(phase, deed)
        pair.check_rows(expected_rows(mode, deed, at, len(BATCHES)))
        return
    code, words = said
    with pytest.raises(CalveError) as caught:
        pair.run(phase, deed)
    assert (caught.value.exit_code, words in str(caught.value)) == (code, True), str(caught.value)
    pair.check_left(deed, expected_rows(mode, deed, at, at))


@pytest.mark.one_in(40)
@pytest.mark.parametrize(("mode", "deed", "phase"), list(pairs()))
def test_every_batch_that_meets_another_process_is_right_or_refused(
    spark, tmp_path, mode, deed, phase, monkeypatch
):
    lake = Lake.open(spark, Catalog.model_validate({"warehouse": str(tmp_path / "warehouse")}))
    interleave(lake, tmp_path, mode, deed, phase, monkeypatch)


@pytest.mark.rest
@pytest.mark.one_in(60)
@pytest.mark.parametrize(("mode", "deed", "phase"), [pair for pair in pairs() if pair.values[2] in ON_REST])
def test_every_batch_that_meets_another_process_behind_rest_is_right_or_refused(
    spark, rest_catalog, tmp_path, mode, deed, phase, monkeypatch
):
    interleave(Lake.rest(spark, rest_catalog.uri), tmp_path, mode, deed, phase, monkeypatch)


@pytest.fixture(params=["embedded", "rest"])
def shore(request, spark, tmp_path, rest_catalog):
    return open_lake(request.param, spark, tmp_path, rest_catalog)


def open_lake(kind, spark, folder, rest_catalog):
    if kind == "rest":
        return Lake.rest(spark, rest_catalog.uri)
    return Lake.open(spark, Catalog.model_validate({"warehouse": str(folder / "warehouse")}))


def fenced_under_a_schema_change(lake, patch):
    """A writer that another process fences while it adds a column: the columns afterwards."""
    table = lake.table(columns="id BIGINT NOT NULL")
    keys = {"catalog": lake.declaration, "namespace": "shop", "table": table.name.table}
    writer = Writer(lake.spark, IcebergSink.model_validate(keys), "orders", Patience(5))
    writer.find(SOURCE)
    writer.open(SOURCE, {"row": 0}, parse("id BIGINT NOT NULL"))

    def fence(name):
        if name == "schema.applied":
            patch.undo()
            lake.committer(table).fence(SOURCE, {"row": 0})

    patch.setattr(crash, "point", fence)
    with pytest.raises(Fenced):
        writer.fit(parse("id BIGINT NOT NULL, late INT"))
    return table.refresh().schema().names


@pytest.mark.rest
def test_a_process_that_is_fenced_under_its_schema_change_changes_nothing(shore):
    with pytest.MonkeyPatch.context() as patch:
        assert fenced_under_a_schema_change(shore, patch) == ("id",)


NAMED = {str(one): one for one in (*MODES, *AHEAD, *DEEDS)}
WRONG = {
    "a batch knows what it was staged for": ("embedded", "upsert", "column_made_anew", "stage.after"),
    "the table is loaded again when a batch begins": ("embedded", "overwrite", "compaction", "batch.end"),
    "a REST catalog compares schema and spec": (
        "rest",
        "append by workers",
        "column_made_anew",
        "commit.applied",
    ),
    "look up again when snapshots expired": ("embedded", "upsert", "maintenance", "stage.after"),
    "a renamed column is not added again": ("embedded", "append by workers", "column_renamed", "batch.end"),
}
BRANCH = "a schema change moves the branch"


def test_every_mutant_of_pairs_has_its_pair():
    assert {one.name for one in IN_PAIRS} == {*WRONG, BRANCH}


@pytest.mark.rest
@pytest.mark.parametrize("protection", [one for one in IN_PAIRS if one.name in WRONG], ids=str)
def test_a_mutant_without_this_protection_has_a_pair_that_goes_wrong(
    spark, tmp_path, rest_catalog, protection
):
    kind, mode, deed, phase = WRONG[protection.name]
    lake = open_lake(kind, spark, tmp_path, rest_catalog)
    with pytest.MonkeyPatch.context() as off, pytest.MonkeyPatch.context() as patch:
        protection.off(off)
        with pytest.raises((AssertionError, CalveError, pytest.fail.Exception)):
            interleave(lake, tmp_path, NAMED[mode], NAMED[deed], phase, patch)


@pytest.mark.rest
@pytest.mark.parametrize("protection", [one for one in IN_PAIRS if one.name == BRANCH], ids=str)
def test_a_mutant_without_this_protection_changes_the_schema_although_it_is_fenced(
    spark, rest_catalog, protection
):
    with pytest.MonkeyPatch.context() as off, pytest.MonkeyPatch.context() as patch:
        protection.off(off)
        assert fenced_under_a_schema_change(Lake.rest(spark, rest_catalog.uri), patch) == ("id", "late")
