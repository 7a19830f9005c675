import pytest

from calve import declare
from calve.cli import choose
from calve.errors import UsageError

TWO = """
  archive:
    connector: iceberg
    config: {namespace: old, table: orders, branch: audit, sink_id: keeper}
pipelines:
  archive: {source: orders, sink: archive, enabled: false}
"""


@pytest.fixture
def loaded(project):
    project.write_text(project.read_text().replace("pipelines:\n", TWO.removeprefix("\n")))
    return declare.load(project)


def test_a_table_is_found_by_its_whole_name(loaded):
    found = choose.table(loaded, "old.orders")
    assert (str(found.name), found.branch) == ("old.orders", "audit")


def test_a_name_that_two_tables_have_is_refused(loaded):
    with pytest.raises(
        UsageError, match=r"which table 'orders' is: old.orders, shop.orders; name it with its namespace"
    ):
        choose.table(loaded, "orders")
    assert str(choose.table(loaded, "orders", "lake").name) == "shop.orders"


def test_a_table_that_no_sink_writes_to_is_looked_for_in_the_catalog(loaded):
    found = choose.table(loaded, "shop.orders__dead_letter")
    assert (str(found.name), found.branch) == ("shop.orders__dead_letter", "main")


@pytest.mark.parametrize("name", ["order", ".order", "x..order"])
def test_an_unknown_table_gets_a_suggestion(loaded, name):
    with pytest.raises(UsageError, match=r"there is old.orders, shop.orders"):
        choose.table(loaded, name)


def test_unknown_names_get_suggestions(loaded):
    with pytest.raises(
        UsageError, match=r"Cannot find sink 'lak': there is archive, lake; did you mean 'lake'\?"
    ):
        choose.sink(loaded, "lak")
    with pytest.raises(UsageError, match=r"Cannot find source 'x': there is orders$"):
        choose.source(loaded, "x")
    with pytest.raises(UsageError, match="did you mean 'orders'"):
        choose.pipelines(loaded, ["order"])


def test_only_enabled_pipelines_are_taken_unless_named(loaded):
    assert [one.name for one in choose.pipelines(loaded, [])] == ["orders"]
    assert [one.name for one in choose.pipelines(loaded, ["archive", "orders", "archive"])] == [
        "archive",
        "orders",
    ]


def test_a_pipeline_is_found_by_its_sink_id_too(loaded):
    assert choose.pipeline(loaded, "keeper").name == "archive"
    assert choose.pipeline(loaded, "orders").name == "orders"
    with pytest.raises(UsageError, match="Cannot find pipeline 'keepers'"):
        choose.pipeline(loaded, "keepers")


def test_a_sink_id_of_two_pipelines_is_refused(project):
    text = project.read_text().replace("table: orders,", "table: orders, sink_id: both,")
    project.write_text(f"{text}  again: {{source: orders, sink: lake, enabled: false}}\n")
    with pytest.raises(UsageError, match="orders, again have this sink_id"):
        choose.pipeline(declare.load(project), "both")


def test_without_an_enabled_pipeline_there_is_nothing_to_take(project):
    project.write_text(project.read_text().replace("sink: lake}", "sink: lake, enabled: false}"))
    with pytest.raises(UsageError, match="every one has 'enabled: false'"):
        choose.pipelines(declare.load(project), [])
