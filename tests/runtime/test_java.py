"""Java is found where it is, and what is wrong with it is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.errors import ConfigurationError
from calve.runtime import java


def install(home: Path, version: str, *, compiler: bool = False) -> Path:
    """A folder that looks like a Java of `version`."""
    (home / "bin").mkdir(parents=True)
    for name in ("java", "javac") if compiler else ("java",):
        program = home / "bin" / name
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
        program.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = install(tmp_path / "home", "21.0.2"), install(tmp_path / "other", "17.0.15")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert java.find(environ, [tmp_path]) == java.Java(home, 21)


def test_java_on_the_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = install(tmp_path / "jvm" / "17", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java.find({"PATH": str(tmp_path / "bin")}, []) == java.Java(home, 17)


def test_java_is_found_in_the_usual_folders(tmp_path: Path) -> None:
    install(tmp_path / "a-java-11", "11.0.2")
    home = install(tmp_path / "b-java-17", "17")
    install(tmp_path / "c-mac" / "Contents" / "Home", "21.0.1")
    assert java.find({"PATH": ""}, [tmp_path / "none", tmp_path]) == java.Java(home, 17)
    assert java.find({"PATH": ""}, [tmp_path / "c-mac" / ".." / "c-mac" / "..", tmp_path]).release == 17


def test_a_mac_keeps_its_home_further_down(tmp_path: Path) -> None:
    home = install(tmp_path / "temurin" / "Contents" / "Home", "21.0.1")
    assert java.find({}, [tmp_path]).home == home


def test_a_java_that_is_too_old_or_too_new_is_passed_over(tmp_path: Path) -> None:
    old, new = install(tmp_path / "old", "1.8.0_412"), install(tmp_path / "jvm" / "a", "25.0.1")
    good = install(tmp_path / "jvm" / "b", "21")
    environ = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert java.find(environ, [tmp_path / "jvm"]).home == good


def test_only_java_that_is_too_old_is_told_with_its_place(tmp_path: Path) -> None:
    home = install(tmp_path / "old", "1.8.0_412")
    with pytest.raises(ConfigurationError) as refusal:
        java.find({"JAVA_HOME": str(home)}, [])
    assert str(refusal.value) == (
        f"Cannot start Spark: Java 17 or 21 is needed, found only Java 8 in {home}; install Java 17 "
        "(Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    )
    assert refusal.value.exit_code == 78


def test_no_java_at_all_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="found none; install Java 17") as refusal:
        java.find({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "gone")}, [tmp_path])
    assert "\n" not in str(refusal.value)


def test_a_java_that_tells_no_version_is_none(tmp_path: Path) -> None:
    home = install(tmp_path / "odd", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\necho hello\n")
    assert java.release(home) is None


def test_a_compiler_is_asked_for(tmp_path: Path) -> None:
    runtime = install(tmp_path / "jre", "17")
    with pytest.raises(ConfigurationError, match=r"a JDK 17 or 21 is needed.*openjdk-17-jdk-headless"):
        java.find({"JAVA_HOME": str(runtime)}, [], compiler=True)
    kit = install(tmp_path / "jdk", "17", compiler=True)
    assert java.find({"JAVA_HOME": str(runtime)}, [kit.parent], compiler=True).home == kit


def test_what_is_found_is_what_sparks_scripts_start(tmp_path: Path) -> None:
    home = install(tmp_path / "jdk", "17")
    environ = {"PATH": str(home / "bin")}
    assert java.use(environ, []).executable == home / "bin" / "java"
    assert environ["JAVA_HOME"] == str(home)


def test_it_tells_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "jdk", "17.0.2")))
    assert java.main([]) == 0
    assert capsys.readouterr().out == f"Java 17 in {tmp_path / 'jdk'}\n"
    monkeypatch.setattr(java, "SUPPORTED", ())
    assert java.main(["--compiler"]) == 78
    assert capsys.readouterr().err.startswith("Cannot start Spark: a JDK")
