"""`calve dead-letter`."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from pydantic import TypeAdapter, ValidationError

from calve import declare
from calve.cli import choose, render
from calve.cli.app import config_option, debug_option, output_option, say
from calve.errors import DataRefused, UsageError
from calve.model import Duration
from calve.project import Project, ResolvedPipeline
from calve.runtime import letters, tables
from calve.runtime.letters import Replayed, Wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACTIONS = ("list", "show", "replay", "purge")
_LISTED = ("letter_id", "recorded_at", "reason", "position", "message")
_SHORT = 12


@click.command("dead-letter")
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("letter", required=False)
@click.option(
    "--pipeline", "-p", "name", help="The pipeline, by its name or sink_id; needed if there are several."
)
@click.option("--limit", "-n", type=click.IntRange(min=1), help="How many; 20 where letters are listed.")
@click.option("--reason", help="Only letters with this reason code.")
@click.option("--older-than", "age", help="Only letters that were written longer ago, such as 30d.")
@click.option("--all", "everything", is_flag=True, help="list and purge: replayed letters and others.")
@click.option("--dry-run", is_flag=True, help="replay and purge: say how many letters are meant and end.")
@click.option("--yes", is_flag=True, help="replay and purge: do it.")
@config_option
@output_option
@debug_option
def command(
    action: str, letter: str | None, name: str | None, limit: int | None, reason: str | None, age: str | None,
    everything: bool, dry_run: bool, yes: bool, config: Path, output: str, debug: bool,
) -> int:  # fmt: skip
    """List the records that could not be taken, show one, run them through the present declaration again
    (each once; those that are refused once more stay), or delete those that were replayed.

    show takes the id of a LETTER, or its beginning. replay ends with 65 where a letter is refused once more.
    """
    if (action == "show") != (letter is not None):
        raise UsageError("Cannot tell which letter is meant: show takes the id of one, the others take none")
    _refuse_unknown(reason)
    project = declare.load(config)
    pipeline = _pipeline(project, name)
    tables.check_catalog(pipeline.sink.catalog, letters.table_of(pipeline))
    wanted = Wanted(_replayed(action, everything), reason, _before(age), letter)
    if action == "list":
        work = _list(wanted, limit or 20, output)
    elif action == "show":
        work = _show(wanted, output)
    else:
        act = _replay(wanted, limit or 2**31 - 1, output) if action == "replay" else _purge(wanted, output)
        work = _change(wanted, action, act if yes and not dry_run else None, dry_run)
    return _worked(project, pipeline, work, debug)


Work = Callable[["SparkSession", ResolvedPipeline], int]


def _refuse_unknown(reason: str | None) -> None:
    """Raise UsageError for a reason code that no letter can have."""
    from calve.decode.bad import REASONS

    if reason is not None and reason not in REASONS:
        raise choose.unknown("reason", reason, REASONS)


def _replayed(action: str, everything: bool) -> bool | None:
    return None if everything or action == "show" else action == "purge"


def _before(age: str | None) -> dt.datetime | None:
    if age is None:
        return None
    try:
        seconds = TypeAdapter[float](Duration).validate_python(age)
    except ValidationError:
        raise UsageError(
            f"Cannot tell how old letters are meant with '{age}': write 30d, 12h or 5m"
        ) from None
    return dt.datetime.now(dt.timezone.utc) - dt.timedelta(seconds=seconds)


def _pipeline(project: Project, name: str | None) -> ResolvedPipeline:
    if name is not None:
        return choose.pipeline(project, name)
    if len(project.pipelines) > 1:
        names = ", ".join(sorted(project.pipelines))
        raise UsageError(f"Cannot tell whose dead letters are meant: name one of {names} with --pipeline")
    return project.pipeline(next(iter(project.pipelines)))


def _worked(project: Project, pipeline: ResolvedPipeline, work: Work, debug: bool) -> int:
    from calve.runtime.run import open_spark
    from calve.runtime.session import branch_off

    spark = open_spark(project, [pipeline], debug, say)
    try:
        return work(branch_off(spark, pipeline.catalogs), pipeline)
    finally:
        spark.stop()


def _list(wanted: Wanted, limit: int, output: str) -> Work:
    def work(spark: SparkSession, pipeline: ResolvedPipeline) -> int:
        found = letters.first(letters.selected(spark, pipeline, wanted), limit + 1)
        rows = [[_cell(one, name) for name in _LISTED] for one in found[:limit]]
        render.show(output, [_value(one) for one in found[:limit]], [render.Table(_LISTED, rows)])
        if len(found) > limit:
            say(f"These are {limit} letters of more; --limit shows others")
        return 0

    return work


def _cell(letter: Mapping[str, Any], name: str) -> object:
    if name == "letter_id":
        return letter[name][:_SHORT]
    value = letter[name]
    return _time(value).isoformat(timespec="seconds") if isinstance(value, dt.datetime) else value


def _show(wanted: Wanted, output: str) -> Work:
    def work(spark: SparkSession, pipeline: ResolvedPipeline) -> int:
        found = letters.first(letters.selected(spark, pipeline, wanted), 2)
        if len(found) != 1:
            why = "none has" if not found else "several have"
            raise UsageError(f"Cannot show letter '{wanted.id}': {why} an id that begins so")
        value = _value(found[0])
        render.show(output, value, [render.Pairs({name: render.cell(one) for name, one in value.items()})])
        return 0

    return work


def _value(letter: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in letter.items()}


def _plain(value: Any) -> Any:
    """Bytes as the text that they are, or else as base64; times as ISO 8601."""
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dt.datetime):
        return _time(value).isoformat()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, dict) else value


def _time(value: dt.datetime) -> dt.datetime:
    """A time in UTC; Spark gives it in the zone of this process, and does not say so."""
    return value.astimezone(dt.timezone.utc)


Act = Callable[["SparkSession", ResolvedPipeline], int]


def _change(wanted: Wanted, action: str, act: Act | None, dry_run: bool) -> Work:
    def work(spark: SparkSession, pipeline: ResolvedPipeline) -> int:
        if act is not None:
            return act(spark, pipeline)
        count = letters.selected(spark, pipeline, wanted).count()
        say(f"{render.count(count, 'letter')} to {action}; nothing changed, add --yes to do it")
        return 0 if dry_run else UsageError.exit_code

    return work


def _replay(wanted: Wanted, limit: int, output: str) -> Act:
    def act(spark: SparkSession, pipeline: ResolvedPipeline) -> int:
        told = letters.replay(spark, pipeline, wanted, limit)
        value = {"replayed": told.taken, "refused": dict(told.refused)}
        render.show(output, value, _replay_lines(told))
        return DataRefused.exit_code if told.refused else 0

    return act


def _replay_lines(told: Replayed) -> Iterator[render.Block]:
    yield render.Line(f"{render.count(told.taken, 'letter')} replayed")
    for reason, count in sorted(told.refused.items()):
        yield render.Line(f"{render.count(count, 'letter')} refused once more: {reason}")


def _purge(wanted: Wanted, output: str) -> Act:
    def act(spark: SparkSession, pipeline: ResolvedPipeline) -> int:
        count = letters.purge(spark, pipeline, wanted)
        render.show(output, {"purged": count}, [render.Line(f"{render.count(count, 'letter')} purged")])
        return 0

    return act
