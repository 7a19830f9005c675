import json
import re

import pytest

from calve import crash
from calve.testing import faults
from calve.testing.faults import ACTIONS, CatalogFault, Schedule, Trace


def test_a_plan_is_the_same_after_it_was_written_and_read(tmp_path):
    plan = (
        crash.Fault("commit.applied", nth=2, action="kill", seed=7),
        CatalogFault("catalog.commit", nth=3, action="apply_502", seed=1),
        CatalogFault("catalog.load", action="stale", loads=4),
        CatalogFault("catalog.any", action="redirect", to="http://elsewhere:8181"),
        CatalogFault("catalog.config", action="hang", seconds=0.5),
    )
    file = tmp_path / "plan.json"
    file.write_text(faults.dump(plan))
    assert faults.read(file) == plan


def test_a_fault_has_the_four_keys_of_a_crash_and_no_others_unless_given():
    (fault,) = json.loads(faults.dump([CatalogFault("catalog.commit", 2, "lie", 9)]))
    assert fault == {"point": "catalog.commit", "nth": 2, "action": "lie", "seed": 9}


def test_a_plan_is_parted_into_what_the_process_and_what_the_catalog_does():
    plan = faults.parse('[{"point": "stage.after"}, {"point": "catalog.load", "action": "fail_500"}]')
    assert faults.for_process(plan) == (crash.Fault("stage.after"),)
    assert faults.for_catalog(plan) == (CatalogFault("catalog.load", action="fail_500"),)


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_can_be_planned_somewhere(action):
    point = {"stale": "catalog.load"}.get(action, "catalog.commit")
    assert CatalogFault(point, action=action, to="http://a:1" if action == "redirect" else None)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("{", "not JSON"),
        ("{}", "not a list"),
        ("[7]", "fault 1 of a plan: not an object with a 'point'"),
        ('[{"point": "batch.end"}, {"nth": 1}]', "fault 2 of a plan: not an object with a 'point'"),
        ('[{"point": "batch.end", "nht": 1}]', "unknown key 'nht'; did you mean 'nth'?"),
        ('[{"point": "batch.end", "to": "http://a"}]', "unknown key 'to'"),
        ('[{"point": "batch.end", "action": "lie"}]', "no such action 'lie'"),
        ('[{"point": "batch.end", "nth": 0}]', "'nth' must be a number from 1, not 0 (fault 1)"),
        ('[{"point": "batch.ende"}]', "no such crash point"),
        ('[{"point": "catalog.comit"}]', "no such point 'catalog.comit'; did you mean 'catalog.commit'?"),
        ('[{"point": "catalog.any", "action": "fail_501"}]', "no such action 'fail_501'"),
        ('[{"point": "catalog.any", "nth": true}]', "'nth' must be a number from 1, not True"),
        ('[{"point": "catalog.any", "seed": "x"}]', "'seed' must be a number, not 'x'"),
        ('[{"point": "catalog.any", "action": "lie"}]', "'lie' is only possible at 'catalog.commit'"),
        ('[{"point": "catalog.commit", "action": "stale"}]', "'stale' is only possible at 'catalog.load'"),
        ('[{"point": "catalog.any", "loads": 2}]', "'loads' has no effect with action 'fail_503'"),
        ('[{"point": "catalog.load", "action": "stale", "loads": 0}]', "'loads' must be a number from 1"),
        ('[{"point": "catalog.any", "action": "hang", "seconds": 601}]', "from 0 to 600, not 601"),
        ('[{"point": "catalog.any", "action": "redirect"}]', "needs 'to', the address of another host"),
        ('[{"point": "catalog.any", "action": "redirect", "to": "other"}]', "not 'other'"),
    ],
)
def test_a_plan_that_cannot_be_done_is_refused_with_the_reason(plan, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        faults.parse(plan)


def test_of_two_faults_at_one_place_only_one_could_fire_so_both_are_refused():
    twice = [CatalogFault("catalog.load"), CatalogFault("catalog.load", action="reset")]
    with pytest.raises(ValueError, match=r"2 faults at 'catalog\.load', nth 1"):
        Schedule(twice)


def test_points_are_counted_each_by_itself():
    first, third = CatalogFault("catalog.commit"), CatalogFault("catalog.any", nth=3)
    schedule = Schedule([first, third])
    reached = [
        schedule.reach(f"catalog.{name}", "catalog.any") for name in ("load", "commit", "load", "load")
    ]
    assert reached == [None, first, third, None]


def test_a_fault_that_is_done_after_the_next_plan_began_is_not_counted_to_it():
    schedule = Schedule([CatalogFault("catalog.load")])
    schedule.fire(CatalogFault("catalog.commit"))
    assert schedule.fired == []
    assert schedule.unfired() == schedule.plan


def test_a_trace_has_a_line_for_each_fault(tmp_path):
    trace = Trace(tmp_path / "trace")
    trace.add(CatalogFault("catalog.load"), table="shop.orders")
    trace.add(CatalogFault("catalog.load", nth=2), table="shop.orders")
    lines = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    assert [(line["nth"], line["table"]) for line in lines] == [(1, "shop.orders"), (2, "shop.orders")]
