"""Key columns that were read, held for the next look-up: a data file never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 128 * 2**20
"""How many bytes of key columns a process holds, at most."""


class Held:
    """Columns by what they were read from; those that nobody has asked for go first. Safe for threads."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._columns: OrderedDict[Hashable, pa.Table] = OrderedDict()
        self.bytes = 0

    def get(self, place: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
        """The columns at `place`, read if they are not held."""
        with self._lock:
            found = self._columns.get(place)
            if found is not None:
                self._columns.move_to_end(place)
                return found
        found = read()
        with self._lock:
            self._hold(place, found)
        return found

    def _hold(self, place: Hashable, columns: pa.Table) -> None:
        if place in self._columns or columns.nbytes > self._most:
            return
        self._columns[place] = columns
        self.bytes += columns.nbytes
        while self.bytes > self._most:
            _, gone = self._columns.popitem(last=False)
            self.bytes -= gone.nbytes
