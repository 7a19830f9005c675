"""Class-data sharing: the archive is used where it fits, and nothing is asked of it where it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from calve.runtime import jars, java, warm

JAR = Path(jars.needed({"core"})[0].file_name)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.1"')
    return tmp_path / "java"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CALVE_JARS", str(tmp_path))
    return tmp_path


def archive_of(home, files):
    return warm._archive(home, files)


def test_without_an_archive_the_options_stay_as_they_are(home, folder):
    assert warm.options(home, [folder / JAR], "-Xss4m") == "-Xss4m"


def test_an_archive_is_used_beside_the_options_that_were_given(home, folder):
    archive = archive_of(home, [folder / JAR])
    archive.touch()
    assert warm.options(home, [folder / JAR], "-Xss4m").split()[:1] == [f"-XX:SharedArchiveFile={archive}"]
    assert warm.options(home, [folder / JAR], "-Xss4m").endswith("-Xss4m")


def test_jars_that_come_after_those_of_every_run_do_not_need_another_archive(home, folder):
    assert archive_of(home, [folder / JAR]) == archive_of(home, [folder / JAR, folder / "sqlite-jdbc-3.jar"])


def test_another_java_needs_another_archive(home, folder):
    before = archive_of(home, [folder / JAR])
    (home / "release").write_text('JAVA_VERSION="21.0.1"')
    assert archive_of(home, [folder / JAR]) != before


def test_an_archive_that_the_user_chose_is_left_alone(home, folder):
    archive_of(home, [folder / JAR]).touch()
    given = "-XX:SharedArchiveFile=mine.jsa"
    assert warm.options(home, [folder / JAR], given) == given


INSISTING = """
from calve.project import SparkSettings
from calve.runtime import session

settings = SparkSettings(master="local[1]", config={"spark.driver.extraJavaOptions": "-Xshare:on"})
print(session.start(settings, ["sqlite"], None).range(3).count())
"""


@pytest.mark.spark
def test_the_archive_that_is_made_is_accepted_by_java():
    """Java passes over an archive that does not fit in silence, unless it is told to insist."""
    if not archive_of(java.find().home, jars.resolve(jars.needed({"core"}))).is_file():
        warm.make()
    run = subprocess.run([sys.executable, "-c", INSISTING], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "3", run.stderr


def test_jars_come_before_what_the_user_has_on_the_class_path():
    assert warm.class_path([Path("a.jar"), Path("b.jar")], "c.jar").split(os.pathsep) == [
        "a.jar",
        "b.jar",
        "c.jar",
    ]


def test_an_archive_that_others_may_write_is_not_used(home, folder, caplog):
    archive = archive_of(home, [folder / JAR])
    archive.touch()
    archive.chmod(0o666)
    assert warm.options(home, [folder / JAR], "-Xss4m") == "-Xss4m"
    assert "others may write to it" in caplog.text
