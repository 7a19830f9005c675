"""The files source without Spark: what it declares, lists and plans."""

import logging
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.errors import ConfigurationError, DataRefused, Unavailable
from calve.sources.files import FilesSource, _shared
from calve.sources.files_position import START, File
from calve.sources.source import Limits, Waiting

LIMITS = Limits(1_000_000)
OLD = 1_700_000_000


def source(path: Path, **keys: Any) -> FilesSource:
    declared = {"schema": "id BIGINT"} if keys.get("format", "json") in ("json", "csv") else {}
    return FilesSource.model_validate({"path": str(path), **declared, **keys})


def write(path: Path, data: str = '{"id": 1}\n', at: int = OLD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data)
    os.utime(path, (at, at))
    return path


def names(waiting: Waiting) -> list[str]:
    return sorted(waiting.to["files"])


def flaws(**keys: Any) -> list[str]:
    declared = FilesSource.model_validate({"path": "in", **keys})
    return [f"{'.'.join(map(str, flaw.path))}: {flaw.message}" for flaw in declared.flaws()]


def test_a_directory_stands_for_all_files_below_it_that_are_complete(tmp_path: Path) -> None:
    for name in (
        "a.json",
        "sub/b.json",
        "_c.json",
        ".d.json",
        "e.tmp",
        "_sub/f.json",
        "g.json.part",
        "h._COPYING_",
    ):
        write(tmp_path / name)
    assert names(source(tmp_path).latest(source(tmp_path).start(), LIMITS)) == ["a.json", "sub/b.json"]


def test_a_pattern_stands_for_what_it_matches(tmp_path: Path) -> None:
    for name in ("a.json", "b.csv", "x/c.json", "x/y/d.json"):
        write(tmp_path / name)
    start = source(tmp_path).start()
    assert names(source(tmp_path / "*.json").latest(start, LIMITS)) == ["a.json"]
    assert names(source(tmp_path / "**" / "*.json").latest(start, LIMITS)) == [
        "a.json",
        "x/c.json",
        "x/y/d.json",
    ]


def test_a_file_stands_for_itself_whatever_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "_a.tmp")
    assert names(source(path).latest(source(path).start(), LIMITS)) == ["_a.tmp"]


def test_a_relative_path_begins_at_the_declaration(tmp_path: Path) -> None:
    declared = FilesSource.model_validate(
        {"path": "in", "format": "text"}, context={"directory": str(tmp_path)}
    )
    assert declared.path == str(tmp_path / "in")
    assert declared.identity() == f"files:{tmp_path}/in:text"


def test_endings_to_ignore_can_be_changed(tmp_path: Path) -> None:
    write(tmp_path / "a.tmp")
    write(tmp_path / "b.wip")
    changed = source(tmp_path, options={"ignore_suffixes": [".wip"]})
    assert names(changed.latest(changed.start(), LIMITS)) == ["a.tmp"]


def test_a_file_that_is_still_written_to_waits_for_its_min_file_age(tmp_path: Path) -> None:
    write(tmp_path / "old.json")
    write(tmp_path / "new.json", at=int(time.time()))
    patient = source(tmp_path, options={"min_file_age": "1h"})
    assert names(patient.latest(patient.start(), LIMITS)) == ["old.json"]


def test_batches_take_the_oldest_files_up_to_the_limits(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path / f"{number}.json", "x" * 1200, at=OLD - number)
    few = source(tmp_path, max_files_per_batch=2)
    first = few.latest(few.start(), LIMITS)
    assert names(first) == ["3.json", "4.json"]
    assert first.more
    assert names(few.latest(first.to, LIMITS)) == ["1.json", "2.json"]
    small = source(tmp_path)
    assert names(small.latest(small.start(), Limits(25))) == ["3.json", "4.json"]
    assert names(small.latest(small.start(), Limits(1))) == ["4.json"]


def test_nothing_new_leaves_the_position_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "a.json")
    files = source(tmp_path)
    to = files.latest(files.start(), LIMITS).to
    waiting = files.latest(to, LIMITS)
    assert (waiting.to, waiting.rows, waiting.bytes, waiting.more) == (to, 0, 0, False)


def test_bytes_are_exact_and_rows_an_estimate(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "x" * 1200)
    waiting = source(tmp_path).latest(source(tmp_path).start(), LIMITS)
    assert (waiting.bytes, waiting.rows) == (1200, 10)


def test_a_changed_file_is_reported_once_and_not_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a.json")
    files = source(tmp_path)
    to = files.latest(files.start(), LIMITS).to
    write(tmp_path / "a.json", "changed", at=OLD + 1)
    with caplog.at_level(logging.WARNING):
        assert files.latest(to, LIMITS).rows == 0
        assert files.latest(to, LIMITS).rows == 0
    assert caplog.messages == ["file 'a.json' was changed after it was read; it is not read again"]


def test_a_late_file_is_reported_while_running(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "a.json")
    files = source(tmp_path, max_file_age="1m")
    to = files.latest(files.start(), LIMITS).to
    write(tmp_path / "b.json", at=OLD - 100)
    write(tmp_path / "c.json", at=OLD - 30)
    with caplog.at_level(logging.WARNING):
        assert names(files.latest(to, LIMITS)) == ["c.json"]
        files.latest(to, LIMITS)
    assert caplog.messages == ["file 'b.json' turned up later than max_file_age allows; it is not read"]


def test_late_files_are_reported_at_the_next_start_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "forgotten.json", at=OLD - 200)
    write(tmp_path / "a.json")
    files = source(tmp_path, max_file_age="1m", max_files_per_batch=1)
    to = files.start()
    for _ in range(2):
        to = files.latest(to, LIMITS).to
    write(tmp_path / "later.json", at=OLD + 1)
    to = files.latest(to, LIMITS).to
    with caplog.at_level(logging.WARNING):
        source(tmp_path, max_file_age="1m").latest(to, LIMITS)
        assert caplog.messages == []
        write(tmp_path / "late.json", at=OLD - 100)
        source(tmp_path, max_file_age="1m").latest(to, LIMITS)
    assert caplog.messages == ["1 files turned up later than max_file_age allows; they are not read"]


def test_a_folder_that_is_not_there_is_a_problem_at_the_start_and_waited_for_later(tmp_path: Path) -> None:
    missing = source(tmp_path / "missing" / "in")
    with pytest.raises(ConfigurationError, match="it does not exist"):
        missing.start()
    with pytest.raises(ConfigurationError, match="it does not exist"):
        missing.check()
    with pytest.raises(Unavailable, match="it does not exist"):
        missing.latest(source(tmp_path).start(), LIMITS)


def test_a_file_that_changed_between_planning_and_reading_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json")
    files = source(tmp_path)
    to = files.latest(files.start(), LIMITS).to
    write(path, "changed", at=OLD)
    with pytest.raises(DataRefused, match=r"a.json': it was changed after the batch was planned"):
        files.read(None, files.start(), to)  # type: ignore[arg-type]
    path.unlink()
    with pytest.raises(DataRefused, match=r"a.json': it is gone"):
        files.read(None, files.start(), to)  # type: ignore[arg-type]


def test_check_tells_what_is_there(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "12345")
    assert source(tmp_path).check() == [f"'{tmp_path}': 1 files, 5 bytes"]


def test_large_files_are_read_in_parts_but_not_what_is_compressed_or_over_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(150 * 1024 * 1024)
    plain, wrapped = source(tmp_path), source(tmp_path, options={"multi_line": True})
    packed = source(tmp_path, options={"compression": "gzip"})
    listed = next(iter(plain._folder().files()))
    assert [split.start for split in plain._splits(listed)] == [0, 64 << 20, 128 << 20]
    assert [(split.start, split.end) for split in wrapped._splits(listed)] == [(0, 150 << 20)]
    assert [split.compression for split in packed._splits(listed)] == ["gzip"]
    assert [len(task) for task in _shared(list(plain._splits(listed)), 2)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(".json.gz", "gzip"), (".bz2", "bzip2"), (".ZST", "zstd"), (".xz", "xz"), (".json", None)],
)
def test_compression_goes_by_the_ending(tmp_path: Path, ending: str, kind: str | None) -> None:
    assert source(tmp_path)._compression(f"a{ending}") == kind
    assert source(tmp_path, options={"compression": "none"})._compression(f"a{ending}") is None


def test_keys_that_have_no_effect_are_flaws() -> None:
    assert flaws(format="json") == flaws(format="json", schema="infer") == []
    assert flaws(format="csv", schema="infer", options={"header": True}) == []
    assert flaws(format="csv") == ["schema: needed by format csv without 'header: true'"]
    assert flaws(format="text", schema="infer") == [
        "schema: has no effect with format text: its one column is 'value'"
    ]
    assert flaws(format="text", schema="a INT") == [
        "schema: has no effect with format text: its one column is 'value'"
    ]
    assert flaws(format="parquet", options={"header": True, "compression": "gzip", "multi_line": True}) == [
        "options.header: has no effect with format parquet",
        "options.compression: has no effect with format parquet",
        "options.multi_line: has no effect with format parquet",
    ]
    assert flaws(format="csv", schema="a INT", options={"quote": ","}) == [
        "options.delimiter: delimiter, quote and escape must be different characters"
    ]
    assert flaws(format="csv", schema="a ARRAY<INT>") == [
        "schema: column 'a': a ARRAY<INT> cannot be read from CSV"
    ]
    assert flaws(path="s3://bucket/in", format="text") == [
        "path: 's3:' is not available yet; files are read from local folders"
    ]
    assert flaws(path="file:///in", format="parquet") == []


def test_parquet_tells_how_many_rows_there_are(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(pa.table({"id": range(1_000)}), tmp_path / f"{number}.parquet")
    (tmp_path / "9.parquet").write_bytes(b"no Parquet" * 10)
    read = source(tmp_path, format="parquet")
    assert read.latest(read.start(), Limits(2_999)).rows == 2_000
    assert read.latest(read.start(), Limits(10_000)).rows == 3_005


def test_files_are_divided_so_that_every_core_has_something_to_do(tmp_path: Path) -> None:
    spark = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=4))
    plain = source(tmp_path)
    parts = [plain._tasks(spark, [File(0, "a", size << 20)]) for size in (3, 20, 100, 300)]
    assert [[(task[0].end - task[0].start) >> 20 for task in tasks] for tasks in parts] == [
        [3],
        [5] * 4,
        [25] * 4,
        [64] * 4 + [44],
    ]


def test_a_named_pipe_or_socket_in_the_folder_does_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "in" / "a.json")
    os.mkfifo(tmp_path / "in" / "b.json")
    with caplog.at_level(logging.WARNING):
        found = [source(tmp_path / path).latest(START, LIMITS) for path in ("in", "in/*.json", "in")]
    assert [names(waiting) for waiting in found] == [["a.json"]] * 3
    assert [record.getMessage() for record in caplog.records] == [
        f"'{tmp_path}/in/b.json' is not a regular file; it is not read"
    ]


def test_a_path_that_is_a_named_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(ConfigurationError, match="neither a regular file nor a folder"):
        source(tmp_path / "a.json").start()


@pytest.mark.parametrize("path", ["in", "in/*", "in/**/*.json", "in/*/*.json"])
def test_a_symbolic_link_is_read_only_where_that_is_declared(tmp_path: Path, path: str) -> None:
    write(tmp_path / "elsewhere" / "secret.json")
    write(tmp_path / "in" / "sub" / "a.json")
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "elsewhere" / "secret.json")
    (tmp_path / "in" / "sub" / "link.json").symlink_to(tmp_path / "elsewhere" / "secret.json")
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "elsewhere")
    assert names(source(tmp_path / path).latest(START, LIMITS)) == ["sub/a.json"]
    followed = source(tmp_path / path, options={"follow_symlinks": True})
    assert "sub/link.json" in names(followed.latest(START, LIMITS))


def test_the_declared_path_itself_may_be_a_symbolic_link(tmp_path: Path) -> None:
    file = write(tmp_path / "data" / "a.json")
    (tmp_path / "in").symlink_to(tmp_path / "data")
    (tmp_path / "one.json").symlink_to(file)
    assert names(source(tmp_path / "in").latest(START, LIMITS)) == ["a.json"]
    assert names(source(tmp_path / "in" / "*").latest(START, LIMITS)) == ["a.json"]
    assert names(source(tmp_path / "one.json").latest(START, LIMITS)) == ["one.json"]


def test_a_file_that_became_a_symbolic_link_before_it_was_read_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "in" / "a.json")
    declared = source(tmp_path / "in")
    to = declared.latest(START, LIMITS).to
    other = write(tmp_path / "elsewhere" / "a.json")
    file.unlink()
    file.symlink_to(other)
    with pytest.raises(DataRefused, match="replaced by a symbolic link"):
        declared._files(START, to)
