"""`python -m calve.cli`."""

from calve.cli import main

main()
