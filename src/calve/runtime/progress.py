"""A line per pipeline on the terminal while they run."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from calve.redaction import redacted
from calve.runtime.report import Status

if TYPE_CHECKING:
    from calve.runtime.run import Run


class Progress:
    """Shows nothing where the output is not a terminal."""

    def __init__(self, terminal: bool | None = None) -> None:
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._live: Any = None

    def __enter__(self) -> Progress:
        if self._terminal:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=5, transient=True)
            self._live.start()
        return self

    def show(self, runs: Sequence[Run]) -> None:
        """Draw the lines anew."""
        if self._live is not None:
            from rich.text import Text

            # Not as a str: rich would take '[…]' in a message for markup.
            self._live.update(Text("\n".join(line(one.report.status, time.time()) for one in runs)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


def line(status: Status, now: float) -> str:
    """What a pipeline has done so far, in one line."""
    seconds = max(now - status.started, 0.001)
    parts = [f"{status.pipeline} → {status.table or '…'}", status.state]
    if status.batches:
        parts.append(
            f"{status.rows:,} rows in {status.batches:,} commits, {status.rows / seconds:,.0f} rows/s"
        )
    if status.dead_letters:
        parts.append(f"{status.dead_letters:,} bad records")
    if status.waiting:
        parts.append(f"{status.waiting:,} waiting")
    if status.last_commit:
        parts.append(f"last commit {now - status.last_commit:.0f} s ago")
    return redacted(" · ".join([*parts, status.message] if status.message else parts))
