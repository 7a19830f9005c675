"""The command line, one file a verb."""

from __future__ import annotations

import signal
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point; until it has imported what it needs, Ctrl-C ends the process without a word."""
    # Python leaves it ignored where it was, as behind nohup.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from calve.cli import app

    app.main(arguments)


__all__ = ["main"]
