"""Archives on the path are read again when they have changed, and not before each task."""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from calve.decode.worker import settle


@pytest.fixture
def archive(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "some.zip"
    pack(path, first="")
    monkeypatch.syspath_prepend(str(path))
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches)
    settle.cache_clear()
    yield path
    sys.path_importer_cache.pop(str(path), None)
    settle.cache_clear()


def pack(path: Path, **modules: str) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in modules.items():
            packed.writestr(f"{name}.py", text)


@pytest.fixture
def read(archive, monkeypatch) -> list[str]:
    """The archives that were read."""
    found: list[str] = []
    known = zipimport._read_directory
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: found.append(path) or known(path))
    return found


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python itself reads when it is asked for a name")
def test_an_archive_that_stays_as_it_is_is_not_read_again(archive, read):
    importlib.import_module("first")
    importlib.invalidate_caches()
    assert str(archive) in read
    settle()
    read.clear()
    importlib.invalidate_caches()
    assert str(archive) not in read


def test_an_archive_that_has_changed_is(archive):
    importlib.import_module("first")
    settle()
    pack(archive, first="", second="value = 2")
    os.utime(archive, ns=(1, 1))
    importlib.invalidate_caches()
    assert importlib.import_module("second").value == 2


def test_an_archive_that_is_gone_has_nothing(archive):
    importlib.import_module("first")
    settle()
    archive.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("third")
