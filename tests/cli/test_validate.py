import json
import subprocess
import sys

import pytest


def broken(project):
    project.write_text(project.read_text().replace("namespace:", "namspace:").replace("rows: 30", "rows: -1"))


def test_a_sound_declaration_is_told_in_one_line(calve, project):
    ended = calve("validate")
    assert (ended.code, ended.out, ended.err) == (0, "calve.yaml: 1 source, 1 sink, 1 pipeline\n", "")


def test_all_problems_are_told_with_their_lines(calve, project):
    broken(project)
    ended = calve("validate")
    assert ended.code == 78
    assert ended.out == ""
    assert [line.split(":")[0:2] for line in ended.err.splitlines()] == [
        ["calve.yaml", "7"],
        ["calve.yaml", "16"],
        ["calve.yaml", "16"],
    ]
    assert "did you mean 'namespace'?" in ended.err


def test_problems_as_json(calve, project):
    broken(project)
    ended = calve("validate", "--output", "json")
    value = json.loads(ended.out)
    assert (ended.code, ended.err) == (78, "")
    assert value["valid"] is False
    assert value["problems"][0]["line"] == 7
    assert value["problems"][0]["path"] == "sources.orders.config.rows"


def test_soundness_as_json(calve, project):
    assert json.loads(calve("validate", "-o", "json").out) == {
        "valid": True,
        "files": ["calve.yaml"],
        "problems": [],
    }


def test_several_files_are_all_looked_at(calve, project, tmp_path):
    (tmp_path / "other.yaml").write_text(project.read_text())
    (tmp_path / "wrong.yaml").write_text("version: 2")
    ended = calve("validate", "wrong.yaml", "calve.yaml", "other.yaml")
    assert ended.code == 78
    assert [line.split(":")[0] for line in ended.out.splitlines()] == ["calve.yaml", "other.yaml"]
    assert ended.err.startswith("wrong.yaml:1:")


def test_a_directory_stands_for_the_declaration_in_it(calve, project, tmp_path):
    assert calve("validate", str(tmp_path)).code == 0


@pytest.mark.parametrize("verb", ["validate", "plan", "run", "status", "check", "read t", "snapshots t"])
def test_a_missing_declaration_is_one_line(calve, verb):
    ended = calve(*verb.split())
    assert ended.code == 78
    assert ended.err == "calve.yaml: cannot be read: no such file or directory\n"


@pytest.mark.parametrize(
    "verb", [["validate"], ["plan", "--offline"], ["--help"], ["status"], ["connectors"], ["schema"]]
)
def test_pyspark_is_not_imported(project, verb):
    code = f"import sys; from calve.cli import app; app.run({verb!r}); sys.exit('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=project.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
