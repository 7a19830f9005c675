import pytest

from calve.schema import parse
from calve.sink import routes
from calve.sink.declaration import IcebergSink
from calve.sink.routes import Bounds, Confinement, Doubt, Template, Unrouted, template

HASH = "declared"


@pytest.mark.parametrize(
    ("text", "literals", "fields"),
    [
        ("orders_{region}", ("orders_", ""), ("region",)),
        ("{stream}", ("", ""), ("stream",)),
        ("raw_{stream}_{Kind of it}_x", ("raw_", "_", "_x"), ("stream", "Kind of it")),
    ],
)
def test_a_template_has_literals_and_fields(text, literals, fields):
    assert template(text) == Template(literals, fields)


@pytest.mark.parametrize(
    "text", ["orders_{", "orders_}", "{{a}}", "a_{}", "A_{b}", "a-{b}", "a.{b}", "a_{b}}"]
)
def test_what_is_no_template_is_refused(text):
    assert routes.is_template(text)
    with pytest.raises(ValueError, match="not the name of tables"):
        template(text)


def test_the_stream_is_no_column():
    found = template("a_{stream}_{region}")
    assert found.columns == ("region",)
    assert found.is_by_stream
    assert not template("a_{region}").is_by_stream


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("orders_eu", None),
        ("orders_2026_x", None),
        ("orders_" + "x" * 121, None),
        ("orders_" + "x" * 122, "at most 128"),
        (None, "NULL in {region}"),
        ("orders_EU", "small letters"),
        ("orders_ü", "small letters"),
        ("orders_../x", "small letters"),
        ("orders_a`; DROP", "small letters"),
        ("orders_eu\n", "small letters"),
        ("orders_٣", "small letters"),
        ("orders_", "empty"),
        ("orders_x__tombstones", "Calve's own"),
        ("orders_x__routes", "Calve's own"),
        ("orders_x__dead_letter", "Calve's own"),
        ("orders_x__replay_routes", "Calve's own"),
    ],
)
def test_names_are_confined(name, why):
    found = Confinement(template("orders_{region}")).refusal(name)
    assert found is None if why is None else why in found


def test_a_list_of_tables_confines_them_further():
    confined = Confinement(template("{stream}"), frozenset({"orders", "bills"}))
    assert confined.refusal("orders") is None
    assert confined.refusal("users") == "'allowed_tables' does not have it"


def sort(counts, most=10, listed=()):
    return routes.sort(counts, Confinement(template("t_{x}"), most=most), listed)


def test_a_batch_is_sorted_by_its_tables():
    found = sort([("t_a", True, 3), ("t_a", False, 2), ("t_b", True, 1)])
    assert found.tables == {"t_a": 5, "t_b": 1}
    assert (found.dropped, found.unrouted) == (0, ())


def test_rows_that_no_table_needs_go_nowhere_and_are_no_problem():
    found = sort([(None, False, 3), ("t_B", False, 1), ("t_c", False, 1), ("t_a", True, 1)])
    assert found.tables == {"t_a": 1}
    assert (found.dropped, found.unrouted) == (5, ())


def test_what_goes_nowhere_is_told_with_its_reason():
    found = sort([(None, True, 3), ("t_B", True, 1), ("t_a", True, 1)])
    assert [(one.name, one.rows) for one in found.unrouted] == [(None, 3), ("t_B", 1)]
    assert found.tables == {"t_a": 1}


def test_tables_that_are_listed_leave_less_room():
    counts = [("t_a", True, 1), ("t_b", True, 1), ("t_c", True, 1)]
    why = "it would be one more than 'max_tables' (3) allows"
    assert sort(counts, 3).unrouted == ()
    assert sort(counts, 3, ["t_x"]).unrouted == (Unrouted("t_c", 1, why),)
    assert sort(counts, 4, ["t_a", "t_x"]).unrouted == ()
    assert [one.name for one in sort(counts, 3, ["t_x", "t_y", "t_z", "t_c"]).unrouted] == ["t_a", "t_b"]


def has(after, to, declaration=HASH, rows=1, life=1):
    return Bounds(routes.fingerprint(after), to, declaration, rows, life)


P, Q, R = {"row": 1}, {"row": 2}, {"row": 3}


def test_tables_are_ahead_that_have_the_batch_behind_the_lead():
    found = {"old": has(P, Q), "new": has(Q, R), "fresh": Bounds.fresh(Q, HASH, 1)}
    assert routes.ahead(Q, found) == {"new": found["new"]}
    assert routes.ahead(P, {"old": has(P, Q)}) == {"old": has(P, Q)}
    assert routes.ahead(R, found) == {}


def test_the_order_of_keys_in_a_position_does_not_matter():
    assert has({"a": 1, "b": 2}, Q).is_ahead_of({"b": 2, "a": 1})


def test_bounds_come_back_from_a_mark_as_they_were():
    assert routes.bounds(has(P, Q).dump()) == has(P, Q)
    assert routes.is_bounds(has(P, Q).dump())
    for other in ({"row": 1}, {}, {**has(P, Q).dump(), "more": 1}, {**has(P, Q).dump(), "to": 5}):
        with pytest.raises(ValueError, match="not the mark of a routed table"):
            routes.bounds(other)


def test_an_interrupted_batch_is_finished_only_as_it_was_begun():
    assert routes.doubt({}, HASH) is None
    assert routes.doubt({"a": has(P, Q), "b": has(P, Q)}, HASH) is None
    assert routes.doubt({"a": has(P, Q), "b": has(P, R)}, HASH) is Doubt.ENDS
    assert routes.doubt({"a": has(P, Q), "b": has(P, Q, "other")}, HASH) is Doubt.DECLARATION


def test_another_number_of_rows_tells_that_they_are_routed_otherwise():
    having = {"a": has(P, Q, rows=3), "b": has(P, Q, rows=2), "c": has(P, Q, rows=None)}
    assert routes.differing(having, {"a": 3, "b": 2, "d": 9}) == {}
    assert routes.differing(having, {"a": 4}) == {"a": (3, 4), "b": (2, 0)}


def pipeline(sql="SELECT 1 FROM input", rows=60, **keys):
    from calve.project import ResolvedPipeline
    from calve.sources.datagen import DatagenSource
    from calve.transforms.sql import SqlTransform

    sink = IcebergSink.model_validate({"namespace": "shop", "table": "orders_{region}", **keys})
    source = DatagenSource.model_validate({"rows": rows})
    return ResolvedPipeline("orders", source, sink, (SqlTransform(sql=sql),), "orders", True)


def test_the_fingerprint_is_of_what_decides_where_rows_go():
    same = pipeline().fingerprint()
    assert pipeline(batch_size=5, retry_for="5m", max_tables=7, compression="zstd").fingerprint() == same
    others = [
        pipeline(sql="SELECT * FROM input"),
        pipeline(rows=61),
        pipeline(table="orders_{status}"),
        pipeline(allowed_tables=["orders_eu"]),
        pipeline(commit_mode="upsert", key_fields=["id", "region"]),
    ]
    assert len({same, *(one.fingerprint() for one in others)}) == 6


def test_what_tables_have_in_common_are_columns_of_one_type():
    tables = ["id INT NOT NULL, a INT NOT NULL, b INT", "id INT NOT NULL, b STRING, c DATE NOT NULL"]
    assert routes.shared([parse(one) for one in tables]) == parse("id INT NOT NULL, a INT, c DATE")
    assert routes.shared([]) is routes.shared([parse("a INT"), parse("a DATE")]) is None


def test_replays_have_a_list_of_their_own():
    assert routes.lead("orders") == "orders__routes"
    assert routes.lead("orders" + routes.REPLAY) == "orders__replay_routes"


def test_no_row_can_be_routed_to_the_table_for_dead_letters():
    def flaws(**keys):
        made = {"namespace": "shop", "table": "orders_{region}", **keys}
        return [flaw.message for flaw in IcebergSink.model_validate(made).flaws()]

    (found,) = flaws(dead_letter={"table": "orders_refused"})
    assert "rows could be routed to it" in found
    assert flaws(dead_letter={"table": "refused"}) == flaws() == []
    assert flaws(dead_letter={"table": "orders_refused"}, allowed_tables=["orders_eu"]) == []
