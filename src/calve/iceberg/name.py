"""Names of tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TableName:
    """A table by its Spark catalog, namespace and name."""

    catalog: str
    namespace: tuple[str, ...]
    table: str

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.table))

    def sql(self) -> str:
        """The name as Spark SQL reads it, whatever characters it has."""
        return ".".join(map(quoted, (self.catalog, *self.namespace, self.table)))


def quoted(name: str) -> str:
    """One name as Spark SQL reads it, whatever characters it has."""
    return f"`{name.replace('`', '``')}`"
