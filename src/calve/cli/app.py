"""The command line: verbs, errors as one line, exit codes."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from calve import crash
from calve.errors import CalveError, Unavailable, exit_code, of_system
from calve.redaction import Filter, redacted

VERBS = {
    "changes": "Show what changed in a table between two snapshots.",
    "check": "Reach every source and sink and say what was tried.",
    "connectors": "List the connectors and their keys.",
    "dead-letter": "List, show, replay or purge records that could not be taken.",
    "diff": "Show in what two states of a table differ.",
    "init": "Write a small project that runs as it is.",
    "plan": "Show what a run would create and where it would begin; change nothing.",
    "read": "Show rows of a table.",
    "repair": "Decide where a pipeline that refuses to start begins.",
    "run": "Run pipelines.",
    "schema": "Print the JSON schema of declarations.",
    "snapshots": "List the snapshots of a table.",
    "status": "Show how the pipelines of this project are doing.",
    "validate": "Check a declaration without reaching anything.",
    "verify": "Check a table with an independent reader.",
}
"""Every verb and what it is for; its module is imported when it is used."""

_REDACTION = Filter()

UNREAD = 128 + signal.SIGPIPE
"""What shells make of a process that ends because nobody reads its output."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

Verb = TypeVar("Verb", bound=Callable[..., Any])


def module_of(verb: str) -> str:
    """The module that a verb is in."""
    return f"calve.cli.{verb.replace('-', '_')}"


class Verbs(click.Group):
    """The verbs, imported one at a time so that help answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(module_of(cmd_name)).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(VERBS.items()))


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="calve", message="calve %(version)s")
def app() -> None:
    """Streams data into Apache Iceberg tables, exactly once."""


def config_option(verb: Verb) -> Verb:
    """`--config`, which every verb takes that reads a declaration."""
    return click.option(
        "--config", "-c", type=click.Path(path_type=Path), default=Path("calve.yaml"), show_default=True,
        help="The declaration: a file, or a directory that holds a calve.yaml.",
    )(verb)  # fmt: skip


def state_option(verb: Verb) -> Verb:
    """`--state`, which verbs take that keep or read run status; it is what `CALVE_STATE` says."""

    def use(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> None:
        if value is not None:
            os.environ["CALVE_STATE"] = str(value)

    return click.option(
        "--state", type=click.Path(path_type=Path, file_okay=False), callback=use, expose_value=False,
        help="The folder of run status and logs. Default: CALVE_STATE, or .calve beside the declaration.",
    )(verb)  # fmt: skip


def debug_option(verb: Verb) -> Verb:
    """`--debug`, which brings back stack traces and Spark's own messages."""
    return click.option("--debug", is_flag=True, help="Show stack traces and what Spark says.")(verb)


def output_option(verb: Verb) -> Verb:
    """`--output`, which every verb takes that only reads."""
    return click.option(
        "--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True,
        help="How the result is printed.",
    )(verb)  # fmt: skip


def say(line: str) -> None:
    """A message for the person at the terminal; data goes to stdout."""
    click.echo(redacted(line), err=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb as the whole of this process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(given))


def run(arguments: Sequence[str]) -> int:
    """Run one verb; the exit code."""
    debug = "--debug" in arguments
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    for output in logging.getLogger().handlers:
        output.addFilter(_REDACTION)
    logging.getLogger("calve").setLevel(logging.DEBUG if debug else logging.INFO)
    crash.load_environment()
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        result = app.main(list(arguments), prog_name="calve", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 130
    except SystemExit:
        # Click leaves so where nobody reads its output any more.
        _drop_output()
        return UNREAD
    except click.ClickException as error:
        say(_usage(error))
        return 64
    except CalveError as error:
        say(str(error))
        _explain(debug)
        return exit_code(error)
    except Exception as error:
        known = _full_output(error) or _lost_jvm(error) or of_system(error)
        told = f"Calve has a bug: {type(error).__name__}: {error}; report what --debug prints"
        say(str(known) if known else told)
        _explain(debug)
        return exit_code(known or error)
    return result if isinstance(result, int) else 0


def _full_output(error: Exception) -> CalveError | None:
    """What to say where the file that the output goes to takes no more."""
    if not isinstance(error, OSError) or error.filename is not None or error.errno not in _FULL:
        return None
    _drop_output()
    return Unavailable(f"Cannot write the output: {error.strerror}")


def _drop_output() -> None:
    """Have Python not try once more to write what it could not."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _usage(error: click.ClickException) -> str:
    """What is wrong with a command line, and where to read how it is written."""
    context = getattr(error, "ctx", None)
    verb = context.command_path if context is not None else "calve"
    return f"{error.format_message().rstrip('. ')}; see '{verb} --help'"


def _lost_jvm(error: Exception) -> CalveError | None:
    """What to say in place of an error that comes of the end of Spark's JVM."""
    if "pyspark" not in sys.modules:
        return None
    from calve import gateway

    return gateway.lost(1.0 if gateway.is_connection_error(error) else 0.0)


def _explain(debug: bool) -> None:
    if debug:
        logging.getLogger("calve").exception("")
