"""`python -m calve.cli`."""

from calve.cli.app import main

main()
