"""The folder of a process: closed to others, gone in the end, and swept after a kill."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.errors import ConfigurationError
from calve.runtime import scratch

HOLDING = """
import sys
from pathlib import Path
from calve.runtime import scratch
file = scratch.write_private("a key", "key.json")
(scratch.folder() / "spark" / "blockmgr").mkdir(parents=True)
print(file, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another folder for temporary files, and no folder of this process yet."""
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    scratch.folder.cache_clear()
    yield tmp_path
    scratch.folder.cache_clear()


def process(temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process that has a folder, and the file that it keeps there."""
    running = subprocess.Popen(
        [sys.executable, "-c", HOLDING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert running.stdout
    return running, Path(running.stdout.readline().strip())


def test_nobody_else_can_open_the_folder_or_what_is_written_there() -> None:
    file = scratch.write_private("a key", "key.json")
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == "a key"
    assert scratch.folder() == file.parent


def test_a_process_that_ends_takes_its_folder_with_it(temporary: Path) -> None:
    running, file = process(temporary)
    assert file.read_text() == "a key"
    running.communicate()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next_one_and_what_is_used_is_not(
    temporary: Path,
) -> None:
    killed, left = process(temporary)
    alive, used = process(temporary)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert left.is_file()
    scratch.folder()
    assert not left.parent.exists()
    assert used.is_file()
    alive.communicate()


def test_folders_of_others_and_files_of_such_names_are_left_alone(temporary: Path) -> None:
    (temporary / "calve-scratch-mine").mkdir()
    (temporary / "calve-scratch-12345678").mkdir()
    (temporary / "calve-scratch-abcdefgh").symlink_to("/")
    (temporary / "calve-demo").mkdir()
    scratch.folder()
    assert len(list(temporary.glob("calve-*"))) == 5


def test_a_folder_in_which_nothing_can_be_kept_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"Cannot keep temporary files in '.*file'.*TMPDIR"):
        scratch.folder(str(tmp_path / "file"))


def test_a_folder_for_state_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o755)
    for name in ("old", "new/status"):
        scratch.make_private(tmp_path / name)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("of_file", "of_folder", "is_ours"), [(0o644, 0o755, True), (0o646, 0o755, False), (0o644, 0o777, False)]
)
def test_what_others_may_write_is_not_only_ours(
    tmp_path: Path, of_file: int, of_folder: int, is_ours: bool
) -> None:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.touch()
    file.chmod(of_file)
    file.parent.chmod(of_folder)
    assert scratch.is_only_ours(file) is is_ours
