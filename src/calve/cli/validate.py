"""`calve validate`."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from calve import declare
from calve.cli import render
from calve.cli.app import config_option, debug_option, output_option, say
from calve.errors import CalveError, DeclarationError, exit_code
from calve.model import Problem
from calve.project import Project


@click.command("validate")
@click.argument("files", type=click.Path(path_type=Path), nargs=-1)
@config_option
@output_option
@debug_option
def command(files: tuple[Path, ...], config: Path, output: str, debug: bool) -> int:
    """Check declarations without reaching anything; ends with 78 if something is wrong."""
    results = [_validated(file) for file in files or (config,)]
    errors = [error for _, error in results if error is not None]
    if output == "json":
        render.show(output, _value(files or (config,), results), ())
    else:
        for file, (project, error) in zip(files or (config,), results, strict=True):
            _report(file, project, error)
    return exit_code(errors[0]) if errors else 0


Result = tuple[Project | None, CalveError | None]


def _validated(file: Path) -> Result:
    try:
        return declare.load(file), None
    except CalveError as error:
        return None, error


def _report(file: Path, project: Project | None, error: CalveError | None) -> None:
    if error is not None:
        say(str(error))
    elif project is not None:
        click.echo(f"{file}: {_contents(project)}")


def _contents(project: Project) -> str:
    parts: dict[str, Sized] = {
        "source": project.sources,
        "sink": project.sinks,
        "pipeline": project.pipelines,
    }
    return ", ".join(render.count(len(declared), noun) for noun, declared in parts.items())


def _value(files: Sequence[Path], results: Sequence[Result]) -> dict[str, Any]:
    failed = [(file, error) for file, (_, error) in zip(files, results, strict=True) if error is not None]
    problems = [problem for file, error in failed for problem in _problems(file, error)]
    return {
        "valid": not problems,
        "files": [str(file) for file in files],
        "problems": [asdict(problem) for problem in problems],
    }


def _problems(file: Path, error: CalveError) -> Sequence[Problem]:
    if isinstance(error, DeclarationError):
        return error.problems
    return [Problem(str(file), 0, "", str(error))]
