import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve import position
from calve.position import (
    Ancestor,
    Decision,
    Lineage,
    Mark,
    Trail,
    decide,
    lineage,
    next_epoch,
    others,
    parse,
)

NAME = "calve.sink.orders"
HELD = Mark(epoch=3, writer="w3", source="kafka:c", position={"row": 10}, commit="c10", above=7)


def chain(*snapshots: tuple[int, str | None], broken: bool = False) -> list[Ancestor]:
    last = len(snapshots) - 1
    return [
        Ancestor(sequence, index < last or broken, commit=commit)
        for index, (sequence, commit) in enumerate(snapshots)
    ]


def test_a_mark_survives_the_way_through_the_table_property():
    assert parse(HELD.dump()) == HELD


def test_a_mark_is_compact_json_with_the_six_keys_of_the_contract_and_a_version():
    told = json.loads(HELD.dump())
    assert told.keys() == {"epoch", "writer", "source", "position", "commit", "above", "version"}
    assert " " not in HELD.dump()


def test_a_mark_of_0_1_0_has_no_version_and_is_read_and_followed_by_one_that_has():
    old = json.loads(HELD.dump())
    del old["version"]
    mark = parse(json.dumps(old))
    assert (mark.version, mark.position, mark.main) == (0, {"row": 10}, None)
    following = next_epoch(mark, writer="w4", source="kafka:c", start={}, commit="f4", above=9)
    assert json.loads(following.dump())["version"] == position.MARK_VERSION


def test_fields_that_another_version_wrote_stay_in_the_mark():
    found = parse(json.dumps({**json.loads(HELD.dump()), "leader": {"0": 7}}))
    following = next_epoch(found, writer="w4", source="kafka:c", start={}, commit="f4", above=9)
    moved = following.moved(position={"row": 11}, commit="c11", above=10)
    assert json.loads(moved.dump())["leader"] == {"0": 7}
    assert parse(moved.dump()) == moved


def test_a_mark_of_a_newer_version_is_no_broken_one():
    newer = HELD.dump().replace('"version":1', '"version":2')
    with pytest.raises(position.NewerMark, match="version 2, and this Calve knows versions up to 1"):
        parse(newer)


def test_a_mark_of_a_table_beside_belongs_to_the_epoch_of_the_table_of_the_rows():
    names = {"writer": "w", "source": "s", "start": {}, "commit": "c", "above": 0}
    first = next_epoch(None, main=2, **names)
    assert parse(first.dump()).main == 2
    assert position.is_of_later_epoch(first, 1)
    assert not position.is_of_later_epoch(first, 2)
    assert not position.is_of_later_epoch(first, None)
    assert not position.is_of_later_epoch(HELD, 1)
    assert next_epoch(first, main=3, **names).main == 3
    assert next_epoch(first, **names).main == 2


def own(*snapshots: tuple[int, str, str]) -> list[Ancestor]:
    return [Ancestor(number, True, sink, 3, commit, id=number) for number, sink, commit in snapshots]


def test_an_older_mark_that_was_put_back_is_noticed_by_the_newer_commit_of_its_sink():
    assert lineage(HELD, own((9, "orders", "c11"), (8, "orders", "c10")), NAME) is Lineage.EDITED
    assert decide(HELD, HELD, "c12", own((9, "orders", "c11"), (8, "orders", "c10")), NAME) is (
        Decision.UNMARKED
    )


def test_commits_of_other_sinks_and_of_other_branches_say_nothing_of_a_mark():
    others = own((11, "returns", "x"), (10, "orders.audit", "y"), (9, "orders+replay", "z"))
    assert lineage(HELD, [*others, *own((8, "orders", "c10"))], NAME) is Lineage.FOUND
    assert lineage(HELD, own((9, "orders", "y"), (8, "orders.audit", "c10")), f"{NAME}.audit") is (
        Lineage.FOUND
    )


def test_a_commit_of_the_sink_at_or_below_the_base_of_the_mark_tells_of_a_roll_back():
    assert lineage(HELD, own((7, "orders", "c9")), NAME) is Lineage.ROLLED_BACK


def test_an_older_mark_is_noticed_on_a_way_that_was_walked_before():
    trail, way = Trail(), own((9, "returns", "x"), (8, "orders", "c10"))
    assert lineage(HELD, trail.back_to(HELD, way), NAME) is Lineage.FOUND
    newer = own((11, "returns", "y"), (10, "orders", "c11"))
    assert lineage(HELD, trail.back_to(HELD, [*newer, *way]), NAME) is Lineage.EDITED


@pytest.mark.parametrize("current", [None, HELD])
def test_a_commit_that_landed_without_its_mark_is_noticed(current):
    way = own((9, "orders", "c11"), (8, "orders", "c10"))
    assert position.is_unmarked(current, HELD, "c11", 8, way)
    assert not position.is_unmarked(current, HELD, "c12", 8, way)
    successor = next_epoch(HELD, writer="w4", source="kafka:c", start={}, commit="f4", above=9)
    assert not position.is_unmarked(successor, HELD, "c11", 8, way)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "null", "7", '"x"', '{"epoch": 1}', HELD.dump()[:-1]),
        HELD.dump().replace('"epoch":3', '"epoch":"3"'),
        HELD.dump().replace('"above":7', '"above":-7'),
        HELD.dump().replace('{"row":10}', "10"),
        HELD.dump().replace('"w3"', "3"),
    ],
)
def test_what_is_no_mark_is_refused(text):
    with pytest.raises(ValueError, match="not a mark"):
        parse(text)


def test_the_property_of_another_branch_is_another_property():
    assert position.property_name("orders") == "calve.sink.orders"
    assert position.property_name("orders", "audit") == "calve.sink.orders.audit"


def test_the_digest_tells_positions_and_sources_apart():
    other = HELD.moved(position={"row": 11}, commit="c11", above=8)
    assert HELD.digest() != other.digest()
    assert HELD.digest() != Mark(3, "w3", "kafka:d", {"row": 10}, "c10", 7).digest()


def test_our_commit_at_the_head_is_found():
    assert lineage(HELD, chain((8, "c10"), (7, None)), NAME) is Lineage.FOUND


def test_our_commit_below_a_compaction_is_found():
    assert lineage(HELD, chain((10, None), (9, "foreign"), (8, "c10")), NAME) is Lineage.FOUND


def test_a_head_at_or_below_our_base_is_a_roll_back():
    assert lineage(HELD, chain((7, None), (6, None)), NAME) is Lineage.ROLLED_BACK
    assert lineage(HELD, chain((3, None)), NAME) is Lineage.ROLLED_BACK


def test_a_foreign_commit_on_top_of_a_roll_back_does_not_hide_it():
    assert lineage(HELD, chain((11, "foreign"), (7, None), (6, None)), NAME) is Lineage.ROLLED_BACK


def test_a_chain_that_expiry_broke_above_our_base_is_trusted():
    assert lineage(HELD, chain((11, None), (10, None), broken=True), NAME) is Lineage.EXPIRED


def test_a_branch_without_any_snapshot_was_rolled_back():
    assert lineage(HELD, [], NAME) is Lineage.ROLLED_BACK


def test_a_chain_that_begins_above_our_base_without_our_commit_was_replaced():
    assert lineage(HELD, chain((12, None), (11, None)), NAME) is Lineage.ROLLED_BACK


def test_on_our_own_mark_we_commit():
    assert decide(HELD, HELD, "c11", chain((8, "c10")), NAME) is Decision.COMMIT


@pytest.mark.parametrize(
    "current",
    [
        None,
        Mark(4, "w4", "kafka:c", {"row": 10}, "c10b", 8),
        Mark(3, "w9", "kafka:c", {"row": 10}, "c10", 7),
        Mark(3, "w3", "kafka:c", {"row": 9}, "c10", 7),
    ],
)
def test_on_any_mark_but_exactly_ours_we_are_fenced(current):
    assert decide(current, HELD, "c11", chain((8, "c10")), NAME) is Decision.FENCED


def test_a_commit_that_landed_unseen_is_recognised_whatever_base_it_landed_on():
    landed = HELD.moved(position={"row": 20}, commit="c11", above=12)
    assert decide(landed, HELD, "c11", chain((13, "c11")), NAME) is Decision.COMMITTED


def test_on_a_rolled_back_branch_nothing_is_committed():
    assert decide(HELD, HELD, "c11", chain((5, None)), NAME) is Decision.ROLLED_BACK


def test_the_next_epoch_begins_where_the_mark_stands():
    mark = next_epoch(HELD, writer="w4", source="kafka:c", start={"row": 0}, commit="f4", above=9)
    assert mark == Mark(4, "w4", "kafka:c", {"row": 10}, "f4", 9)


def test_the_first_epoch_begins_at_the_declared_start():
    assert next_epoch(None, writer="w", source="s", start={"row": 0}, commit="f", above=0).epoch == 1


def test_a_mark_of_the_same_source_under_an_undeclared_name_is_noticed():
    properties = {"calve.sink.old": HELD.dump(), "calve.sink.broken": "{", "owner": HELD.dump()}
    assert others(properties, "kafka:c", "main", {"new"}) == ["old"]
    assert others(properties, "kafka:c", "main", {"new", "old"}) == []
    assert others(properties, "kafka:d", "main", {"new"}) == []
    assert others(properties, "kafka:c", "main", {"new"}, lambda position: "topics" in position) == []


def test_a_mark_of_another_branch_is_no_renamed_pipeline():
    properties = {"calve.sink.old": HELD.dump(), "calve.sink.audited.audit": HELD.dump()}
    assert others(properties, "kafka:c", "audit", {"new"}) == ["audited"]
    assert others(properties, "kafka:c", "main", {"new"}) == ["old"]


def test_commits_of_a_sink_without_its_mark_are_noticed():
    ours = [Ancestor(9, True, "orders", 3, "c10"), Ancestor(8)]
    assert position.is_orphaned("calve.sink.orders", ours)
    assert not position.is_orphaned("calve.sink.orders.audit", ours)
    assert not position.is_orphaned("calve.sink.returns", ours)


def test_a_mark_that_says_something_else_than_its_commit_was_edited():
    written = [Ancestor(8, False, "orders", 3, "c10", HELD.digest())]
    assert lineage(HELD, written, NAME) is Lineage.FOUND
    moved = Mark(3, "w3", "kafka:c", {"row": 99}, "c10", 7)
    assert lineage(moved, written, NAME) is Lineage.EDITED


def walked(trail, ancestors):
    """How many of `ancestors` are asked for until the trail ends at our commit."""
    steps = iter(ancestors)
    found = lineage(HELD, trail.back_to(HELD, steps), NAME)
    return found, len(ancestors) - len(list(steps))


def test_what_was_walked_once_is_not_walked_again():
    trail = Trail()
    ours = Ancestor(8, commit="c10", digest=HELD.digest(), id=8)
    foreign = [Ancestor(number, id=number) for number in range(30, 8, -1)]
    assert walked(trail, [*foreign, ours]) == (Lineage.FOUND, 23)
    newer = [Ancestor(number, id=number) for number in (32, 31)]
    assert walked(trail, [*newer, *foreign, ours]) == (Lineage.FOUND, 3)


def test_a_way_that_does_not_pass_where_an_earlier_one_began_is_walked_to_its_end():
    trail = Trail()
    walked(trail, [Ancestor(9, id=9), Ancestor(8, commit="c10", digest=HELD.digest(), id=8)])
    assert walked(trail, [Ancestor(7, id=7)]) == (Lineage.ROLLED_BACK, 1)


def test_the_way_to_another_commit_is_walked_anew():
    trail = Trail()
    walked(trail, [Ancestor(9, id=9), Ancestor(8, commit="c10", digest=HELD.digest(), id=8)])
    next_one = HELD.moved(position={"row": 11}, commit="c11", above=9)
    rolled_back = trail.back_to(next_one, [Ancestor(9, id=9), Ancestor(8, id=8)])
    assert lineage(next_one, rolled_back, NAME) is Lineage.ROLLED_BACK


def test_a_mark_that_was_edited_after_the_way_was_walked_is_noticed():
    trail, way = Trail(), [Ancestor(9, id=9), Ancestor(8, commit="c10", digest=HELD.digest(), id=8)]
    walked(trail, way)
    edited = HELD.moved(position={"row": 99}, commit="c10", above=7)
    assert lineage(edited, trail.back_to(edited, way), NAME) is Lineage.EDITED


def test_metadata_from_before_our_last_commit_is_stale():
    assert position.is_stale(HELD, HELD.above)
    assert not position.is_stale(HELD, HELD.above + 1)


def test_a_commit_is_looked_for_only_above_where_it_can_be():
    snapshots = chain((9, None), (8, "f4"), (7, None), (6, "f4"))
    assert position.has_commit("f4", 7, snapshots)
    assert not position.has_commit("f4", 8, snapshots)


def test_without_a_mark_the_next_epoch_follows_those_of_the_branch():
    snapshots = [Ancestor(9, True, "returns", 9, "x"), Ancestor(8, True, "orders", 4, "y"), Ancestor(7)]
    past = position.last_epoch("calve.sink.orders", snapshots)
    assert past == 4
    mark = next_epoch(None, writer="w", source="s", start={}, commit="c", above=9, past=past)
    assert mark.epoch == 5


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([None, "c10", "x"])), max_size=8), st.booleans()
)
def test_our_commit_is_found_exactly_when_no_older_foreign_snapshot_comes_before_it(snapshots, broken):
    ours = next((index for index, (_, commit) in enumerate(snapshots) if commit == "c10"), len(snapshots))
    reached = ours < len(snapshots) and all(sequence > HELD.above for sequence, _ in snapshots[:ours])
    assert (lineage(HELD, chain(*snapshots, broken=broken), NAME) is Lineage.FOUND) == reached
