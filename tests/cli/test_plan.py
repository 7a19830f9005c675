import json
import re

import pytest


def files(folder):
    return {path for path in folder.rglob("*") if path.is_file() and ".calve" not in path.parts}


def plan(calve, *arguments):
    ended = calve("plan", "-o", "json", *arguments)
    return ended.code, json.loads(ended.out)[0]


def test_a_table_that_is_not_there_would_be_created(calve, ready):
    code, value = plan(calve)
    assert code == 0
    assert value["exists"] is False
    assert value["columns"][0] == "id BIGINT NOT NULL"
    assert value["partition"] == ["day(at)"]
    assert value["properties"]["format-version"] == "2"
    assert (value["start"], value["position"], value["waiting"], value["epoch"]) == (
        "declaration",
        {"row": 0},
        10,
        1,
    )


def test_nothing_is_changed_by_planning(calve, ready):
    before = files(ready.parent)
    assert calve("plan").code == 0
    assert files(ready.parent) == before
    assert not (ready.parent / "warehouse").exists()


@pytest.mark.usefixtures("kept")
def test_nothing_is_changed_by_planning_for_a_table_that_is_there(calve, finished):
    before = files(finished.parent)
    code, value = plan(calve, "--config", str(finished))
    assert files(finished.parent) == before
    assert code == 0
    assert value["exists"] is True
    assert (value["start"], value["position"], value["waiting"], value["epoch"]) == (
        "mark",
        {"row": 30},
        0,
        2,
    )


@pytest.mark.usefixtures("ready")
def test_pending_changes_end_with_2_if_asked(calve, finished):
    assert calve("plan", "--exit-code").code == 2
    assert calve("plan", "--exit-code", "--config", str(finished)).code == 0


def test_a_table_that_differs_is_refused_as_the_run_would_be(calve, ran, ready):
    ran()
    text = ready.read_text().replace("note: {type: string,", "remark: {type: string,")
    ready.write_text(text.replace("table: ", "schema_evolution: strict, table: ", 1))
    ended = calve("plan")
    assert ended.code == 78
    assert "column 'remark' is STRING in the declaration and missing in the table" in ended.out
    assert str(ran()[0].error) in ended.out


def test_changes_of_the_schema_are_shown_and_made_by_the_run(calve, ran, ready):
    ran()
    text = ready.read_text().replace("note: {type: string,", "remark: {type: string,")
    ready.write_text(text.replace("table: ", "schema_evolution: full, table: ", 1))
    before = files(ready.parent)
    code, value = plan(calve, "--exit-code")
    assert code == 2
    assert files(ready.parent) == before
    assert [(one["change"], one["column"]) for one in value["changes"]] == [
        ("drop_column", "note"),
        ("add_column", "remark"),
        ("move_column", "remark"),
    ]
    assert "column 'remark' is added as STRING" in calve("plan").out


def test_another_spec_is_refused_with_both_shown(calve, ran, ready):
    ran()
    ready.write_text(ready.read_text().replace("day(at)", "hour(at)"))
    _, value = plan(calve)
    assert "partitioned by (day(at)), the declaration says (hour(at))" in value["refusal"]
    text = ready.read_text().replace("table: ", "partition_evolution: true, table: ", 1)
    ready.write_text(text)
    _, value = plan(calve)
    assert value["refusal"] is None
    assert [one["change"] for one in value["changes"]] == ["remove_partition_field", "add_partition_field"]


def test_table_default_needs_a_table(calve, ready):
    ready.write_text(ready.read_text().replace('partition_by: ["day(at)"]', "partitioning: table_default"))
    ended = calve("plan")
    assert ended.code == 78
    assert "partitioning is 'table_default' and there is no table" in ended.out


def test_transforms_change_the_columns_and_warn(calve, ready):
    sql = "transforms: [{sql: 'SELECT id, at, rand() AS r FROM input'}]"
    ready.write_text(ready.read_text().replace("sink: lake}", f"sink: lake, {sql}}}"))
    _, value = plan(calve)
    assert value["columns"] == ["id BIGINT NOT NULL", "at TIMESTAMP NOT NULL", "r DOUBLE NOT NULL"]
    assert value["warnings"] == ["rand() differs when a batch is read again after a failure"]
    assert "warning" in calve("plan", "--offline").out


def test_offline_tells_what_the_declaration_says(calve, project):
    code, value = plan(calve, "--offline")
    assert code == 0
    assert value["exists"] is None
    assert value["columns"][0] == "id BIGINT NOT NULL"
    assert value["position"] is None
    assert not (project.parent / ".calve").exists()


def test_the_writer_is_told_and_why(calve, project):
    _, value = plan(calve, "--offline")
    assert value["writer"] == "Iceberg's own, in Spark: the rows that reach the sink are made in Spark"
    assert "writer      Iceberg's own, in Spark" in calve("plan", "--offline").out
    source = 'connector: files, config: {path: in, schema: "id BIGINT NOT NULL, at TIMESTAMP NOT NULL"}'
    project.write_text(
        re.sub(r"connector: datagen.*?(?=\nsinks)", f"{{{source}}}", project.read_text(), flags=re.S)
    )
    _, value = plan(calve, "--offline")
    assert value["writer"] == "Arrow, in the Python workers that decode the rows"


@pytest.mark.parametrize("arguments", [["--pipeline", "ordres"], ["-p", "x"]])
def test_an_unknown_pipeline_is_a_mistake_of_usage(calve, project, arguments):
    ended = calve("plan", *arguments)
    assert ended.code == 64
    assert "there is orders" in ended.err
