"""A batch that is begun: what can be done of it before the batch that comes before it is in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calve.iceberg.stage import Staged


@dataclass(frozen=True)
class Begun:
    """Rows that were read as far as it does not matter what the table has; `finish` does the rest.

    `finish` is called once, when all batches before this one are in the table.
    """

    finish: Callable[[], Staged]
    is_read: bool = True
    """Whether all records were read, so that it is known which are bad."""
