"""Pinned jars are verified, fetched once, and refused when they are not the pinned ones."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from calve.errors import ConfigurationError, NotPermitted, Unavailable
from calve.runtime import jars
from calve.runtime.jars import Jar
from tests.servers.process import wait_until

CONTENT = b"what the repository has"


def pinned(artifact: str = "thing", content: bytes = CONTENT, classifier: str = "") -> Jar:
    digest = hashlib.sha256(content).hexdigest()
    return Jar("org.example", artifact, "1.0", classifier, frozenset({"core"}), len(content), digest)


class Shelf:
    """A repository of files, in place of the one that is reached through a JVM and a network."""

    def __init__(self, **content: bytes) -> None:
        self.content = content
        self.opened = 0

    @contextmanager
    def __call__(self, scratch: Path) -> Iterator[object]:
        self.opened += 1

        def download(jar: Jar) -> Path | None:
            if jar.artifact not in self.content:
                return None
            (scratch / jar.file_name).write_bytes(self.content[jar.artifact])
            return scratch / jar.file_name

        yield download


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    shelf = Shelf(thing=CONTENT, other=b"x" * 3_000_000)
    monkeypatch.setattr(jars, "repository", shelf)
    return shelf


def test_the_lock_file_has_a_jar_for_every_component() -> None:
    assert [jar.artifact for jar in jars.needed({"core"})] == ["iceberg-spark-runtime-4.1_2.13"]
    assert [jar.artifact for jar in jars.needed({"sqlite", "avro"})] == ["sqlite-jdbc", "spark-avro_2.13"]
    assert len(jars.needed({"kafka"})) == 4


def test_a_component_that_the_lock_file_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        jars.needed({"core", "nonsense"})


def test_a_line_of_the_lock_file_may_name_several_components_and_a_classifier(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(f"# a comment\n\na,b org.example:thing:1.0:tests 12 {'0' * 64}\n")
    (jar,) = jars.load(lock)
    assert (jar.components, jar.classifier, jar.size) == (frozenset({"a", "b"}), "tests", 12)
    assert (jar.file_name, jar.coordinates) == ("thing-1.0-tests.jar", "org.example:thing:1.0:tests")


def test_a_line_of_the_lock_file_may_name_an_archive_that_is_no_jar(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(f"a org.example:thing:1.0:all@tar.gz 12 {'0' * 64}\n")
    (archive,) = jars.load(lock)
    assert (archive.file_name, archive.classifier) == ("thing-1.0-all.tar.gz", "all")
    assert archive.coordinates == "org.example:thing:1.0:all@tar.gz"


@pytest.mark.parametrize(
    "line",
    [
        "core org.example:thing 12 " + "0" * 64,
        "core a:b:c 12",
        "core a:b:c many " + "0" * 64,
        "core a:b:c 12 beef",
    ],
)
def test_a_line_that_is_not_a_jar_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(f"# a comment\n{line}\n")
    with pytest.raises(ConfigurationError, match=r"Cannot read jars\.lock:2"):
        jars.load(lock)


def test_missing_jars_are_fetched_and_told(tmp_path: Path, shelf: Shelf) -> None:
    told: list[str] = []
    wanted = [pinned(), pinned("other", b"x" * 3_000_000)]
    files = jars.resolve(wanted, tmp_path / "jars", told.append)
    assert [file.read_bytes()[:4] for file in files] == [b"what", b"xxxx"]
    assert told == ["thing-1.0.jar 23 B (1 of 2)", "other-1.0.jar 3 MB (2 of 2)"]
    assert sorted(os.listdir(tmp_path / "jars")) == [".lock", "other-1.0.jar", "thing-1.0.jar"]


def test_nothing_is_fetched_at_the_second_start(tmp_path: Path, shelf: Shelf) -> None:
    first = jars.resolve([pinned()], tmp_path)
    assert jars.resolve([pinned()], tmp_path) == first
    assert shelf.opened == 1


def test_only_what_is_missing_is_fetched(tmp_path: Path, shelf: Shelf) -> None:
    told: list[str] = []
    jars.resolve([pinned()], tmp_path)
    jars.resolve([pinned(), pinned("other", b"x" * 3_000_000)], tmp_path, told.append)
    assert told == ["other-1.0.jar 3 MB (1 of 1)"]


def test_a_folder_that_has_every_jar_may_be_read_only(tmp_path: Path, shelf: Shelf) -> None:
    jars.resolve([pinned()], tmp_path)
    (tmp_path / ".lock").unlink()
    jars.resolve([pinned()], tmp_path)
    assert not (tmp_path / ".lock").exists()


def test_a_changed_jar_is_refused_with_both_hashes(tmp_path: Path, shelf: Shelf) -> None:
    (file,) = jars.resolve([pinned()], tmp_path)
    file.write_bytes(b"something else")
    with pytest.raises(ConfigurationError) as refusal:
        jars.resolve([pinned()], tmp_path)
    assert "Cannot use 'thing-1.0.jar'" in str(refusal.value)
    assert hashlib.sha256(b"something else").hexdigest() in str(refusal.value)
    assert pinned().sha256 in str(refusal.value)
    assert f"delete {file}" in str(refusal.value)
    assert refusal.value.exit_code == 78


def test_another_file_from_the_repository_is_refused_and_not_kept(tmp_path: Path, shelf: Shelf) -> None:
    shelf.content["thing"] = b"forged"
    with pytest.raises(ConfigurationError, match="the repository delivers another file"):
        jars.resolve([pinned()], tmp_path)
    assert os.listdir(tmp_path) == [".lock"]


def test_without_a_network_one_line_says_what_to_do(tmp_path: Path, shelf: Shelf) -> None:
    shelf.content.clear()
    with pytest.raises(Unavailable) as refusal:
        jars.resolve([pinned(), pinned("other")], tmp_path)
    message = str(refusal.value)
    assert message.startswith(
        "Cannot fetch 2 jars: 'org.example:thing:1.0' was not delivered; connect to the network"
    )
    assert f"copy the folder '{tmp_path}'" in message
    assert "\n" not in message
    assert refusal.value.exit_code == 69


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, shelf: Shelf) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotPermitted, match="CALVE_JARS"):
        jars.resolve([pinned()], tmp_path / "file" / "jars")


def test_what_a_killed_fetch_left_is_in_nobodys_way(tmp_path: Path, shelf: Shelf) -> None:
    (tmp_path / ".fetch" / "ivy").mkdir(parents=True)
    jars.resolve([pinned()], tmp_path)
    assert not (tmp_path / ".fetch").exists()


def _resolve(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jars, "repository", Shelf())
        jars.resolve([pinned()], folder)


def _waits(process: int | None) -> bool:
    return any(
        "->" in line and f" {process} " in line for line in Path("/proc/locks").read_text().splitlines()
    )


def test_a_second_process_waits_for_the_first_and_fetches_nothing(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = multiprocessing.get_context("spawn").Process(target=_resolve, args=(tmp_path,))
        second.start()
        wait_until(lambda: _waits(second.pid), "the second process waits")
        (tmp_path / pinned().file_name).write_bytes(CONTENT)
    second.join(30)
    assert second.exitcode == 0


def test_the_folder_is_the_users_cache_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CALVE_JARS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert jars.default_folder() == tmp_path / ".cache" / "calve" / "jars"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert jars.default_folder() == tmp_path / "xdg" / "calve" / "jars"
    monkeypatch.setenv("CALVE_JARS", str(tmp_path / "own"))
    assert jars.default_folder() == tmp_path / "own"


def test_jars_are_fetched_ahead_of_time(
    tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CALVE_JARS", str(tmp_path / "jars"))
    lock = tmp_path / "jars.lock"
    lock.write_text(f"core org.example:thing:1.0 {len(CONTENT)} {pinned().sha256}\n")
    assert jars.main(["--lock", str(lock), "core"]) == 0
    assert capsys.readouterr().err == "thing-1.0.jar 23 B (1 of 1)\n"
    lock.write_text(f"more org.example:absent:1.0 {len(CONTENT)} {pinned().sha256}\n")
    jars.load.cache_clear()
    assert jars.main(["--lock", str(lock)]) == 69
    assert "Cannot fetch 1 jar:" in capsys.readouterr().err


@pytest.mark.spark
def test_spark_fetches_a_pinned_jar_from_its_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pool,) = [jar for jar in jars.needed({"kafka"}) if jar.artifact == "commons-pool2"]
    assert jars.resolve([pool], tmp_path) == (tmp_path / "commons-pool2-2.12.1.jar",)
    assert sorted(os.listdir(tmp_path)) == [".lock", "commons-pool2-2.12.1.jar"]


@pytest.mark.spark
def test_an_unreachable_repository_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:1/")
    with pytest.raises(Unavailable, match=r"Cannot fetch 1 jar: 'org\.example:thing:1\.0' was not"):
        jars.resolve([pinned()], tmp_path)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # by PySpark, of the process that ended
def test_a_java_that_does_not_start_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    version = '[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' && exit'
    java.write_text(f"#!/bin/sh\n{version}\necho no memory >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(Unavailable, match="Cannot fetch jars: Java does not start: no memory"):
        jars.resolve([pinned()], tmp_path / "jars")
    gc.collect()
