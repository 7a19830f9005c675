"""The command line, one file a verb."""

from calve.cli.app import main

__all__ = ["main"]
