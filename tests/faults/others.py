"""What others do to a table that a pipeline writes to, and what that makes of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from calve.iceberg.name import TableName
from tests.lake import Lake

NOW = "TIMESTAMP '2100-01-01'"
Row = tuple[int, int | None]
FOREIGN: Row = (100, 1000)


@dataclass(frozen=True)
class Place:
    """A table of a lake."""

    lake: Lake
    namespace: str
    table: str

    @property
    def name(self) -> TableName:
        return self.lake.name(self.table, self.namespace)

    @property
    def sql(self) -> str:
        return self.name.sql()

    @property
    def plain(self) -> str:
        return f"'{self.namespace}.{self.table}'"

    @property
    def moved(self) -> Place:
        """Where the table is after a rename."""
        return replace(self, table=f"{self.table}_moved")

    def run(self, statement: str) -> None:
        self.lake.spark.sql(statement).collect()


def compaction(at: Place) -> None:
    at.lake.call("rewrite_data_files", table=at.plain, options="map('rewrite-all', 'true')")


def expiry(at: Place) -> None:
    at.lake.call("expire_snapshots", table=at.plain, older_than=NOW, retain_last="1")


def maintenance(at: Place) -> None:
    compaction(at)
    expiry(at)


def orphan_removal(at: Place) -> None:
    at.lake.call("remove_orphan_files", table=at.plain)


def roll_back(at: Place) -> None:
    first = at.lake.catalog.load(at.name).metadata().snapshots()[0].id
    at.lake.call("rollback_to_snapshot", table=at.plain, snapshot_id=str(first))


def column_added(at: Place) -> None:
    at.run(f"ALTER TABLE {at.sql} ADD COLUMN note STRING")


def column_dropped(at: Place) -> None:
    at.run(f"ALTER TABLE {at.sql} DROP COLUMN amount")


def column_renamed(at: Place) -> None:
    at.run(f"ALTER TABLE {at.sql} RENAME COLUMN amount TO total")


def column_made_anew(at: Place) -> None:
    column_dropped(at)
    at.run(f"ALTER TABLE {at.sql} ADD COLUMN amount INT")


def spec_change(at: Place) -> None:
    at.run(f"ALTER TABLE {at.sql} ADD PARTITION FIELD bucket(4, id)")


def format_upgrade(at: Place) -> None:
    at.run(f"ALTER TABLE {at.sql} SET TBLPROPERTIES ('format-version' = '3')")


def foreign_append(at: Place) -> None:
    at.run(f"INSERT INTO {at.sql} (id, part, amount) VALUES ({FOREIGN[0]}, 9, {FOREIGN[1]})")


def foreign_update(at: Place) -> None:
    at.run(f"UPDATE {at.sql} SET amount = 200 WHERE id = 2")


def drop(at: Place) -> None:
    at.lake.catalog.drop(at.name)


def recreation(at: Place) -> None:
    drop(at)
    at.lake.table(at.name, "id BIGINT NOT NULL, part INT, amount INT")


def table_renamed(at: Place) -> None:
    at.run(f"ALTER TABLE {at.sql} RENAME TO {at.namespace}.{at.moved.table}")


def _same(rows: list[Row]) -> list[Row]:
    return rows


def _without_amounts(rows: list[Row]) -> list[Row]:
    return [(number, None) for number, _ in rows]


@dataclass(frozen=True)
class Deed:
    """Something that another process does: to the table, to the rows in it, and how we may end of it.

    `code` is the exit code of the refusal that must come, and `said` a part of its words.
    """

    do: Callable[[Place], None]
    rows: Callable[[list[Row]], list[Row]] = _same
    code: int | None = None
    said: str = ""
    touches: tuple[int, ...] = ()
    """The partitions whose data it changes, all of them where it is -1."""

    def __str__(self) -> str:
        return self.do.__name__


ALL = (-1,)
DEEDS = (
    Deed(compaction, touches=ALL),
    Deed(expiry),
    Deed(maintenance, touches=ALL),
    Deed(roll_back, lambda rows: [], 65, "was rolled back behind the last commit"),
    Deed(column_added),
    Deed(column_dropped, _without_amounts),
    Deed(column_renamed, _same, 78, "its column 'amount' was renamed to 'total'"),
    Deed(column_made_anew, _without_amounts),
    Deed(spec_change, _same, 78, "partitioned by"),
    Deed(format_upgrade),
    Deed(foreign_append, lambda rows: [*rows, FOREIGN], touches=(9,)),
    Deed(foreign_update, lambda rows: [(one[0], 200) if one[0] == 2 else one for one in rows], touches=(0,)),
    Deed(drop, lambda rows: [], 78, "is no longer there"),
    Deed(recreation, lambda rows: [], 65, "was dropped and created again"),
    Deed(table_renamed, _same, 78, "is no longer there"),
)
