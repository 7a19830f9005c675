"""The lines on the terminal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from calve.runtime.progress import Progress
from calve.runtime.report import Status


@pytest.mark.parametrize("message", ["[/x] is away", "[ERROR_CLASS] cannot be read", "[red]x"])
def test_a_message_with_brackets_is_shown_as_it_is(message: str) -> None:
    runs: Any = [SimpleNamespace(report=SimpleNamespace(status=Status("p", message=message)))]
    with Progress(terminal=True) as progress:
        progress.show(runs)
        shown = progress._live.get_renderable()
    console = Console(width=200)
    with console.capture() as text:
        console.print(shown)
    assert message in text.get()
