"""Routes: which table a row goes to, which names are allowed, and what an interrupted batch left. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any

from calve.position import Position
from calve.schema import Column, Primitive, Schema

STREAM = "stream"
"""What stands in a template for the stream of the source."""

ROUTABLE = tuple(map(Primitive, ("string", "tinyint", "smallint", "int", "bigint")))
"""The types whose values can stand in the name of a table."""

EMPTY = "an empty value"
LONGEST = 128
LEAD = "__routes"
REPLAY = "+replay"
"""What is behind the name of a sink where its dead letters are replayed; no declaration can have that."""
REPLAY_LEAD = "__replay_routes"
TABLE = "table_name"
SINCE = "since"
LIST = Schema(
    (
        Column(TABLE, Primitive("string"), nullable=False),
        Column(SINCE, Primitive("timestamp"), nullable=False),
    )
)
"""The columns of the lead, which lists the tables."""

_OWN = (LEAD, REPLAY_LEAD, "__tombstones", "__dead_letter")
_PART = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(rf"[a-z0-9_]{{1,{LONGEST}}}")


@dataclass(frozen=True)
class Template:
    """The name of a table with places for values: a literal, a field, a literal and so on."""

    literals: tuple[str, ...]
    fields: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values are in the name."""
        return tuple(name for name in self.fields if name != STREAM)

    @property
    def is_by_stream(self) -> bool:
        return STREAM in self.fields

    @property
    def is_confined(self) -> bool:
        """Whether only tables of its own can be meant, whatever the values are."""
        return bool(self.literals[0])

    def has(self, name: str) -> bool:
        """Whether some values, none of them empty, make `name`."""
        return re.fullmatch("[a-z0-9_]+".join(map(re.escape, self.literals)), name) is not None


def lead(sink_id: str) -> str:
    """The table that lists the tables of a sink; replays of its dead letters have a list of their own."""
    if sink_id.endswith(REPLAY):
        return sink_id.removesuffix(REPLAY) + REPLAY_LEAD
    return sink_id + LEAD


def is_template(table: str) -> bool:
    """Whether `table` stands for several tables."""
    return "{" in table or "}" in table


def template(text: str) -> Template:
    """The template that `text` is; raises ValueError where it is none."""
    fields = tuple(_PART.findall(text))
    literals = tuple(_PART.split(text)[::2])
    if any(is_template(literal) for literal in literals):
        raise ValueError(
            "not the name of tables; a column is named between '{' and '}', as in orders_{region}"
        )
    if "" in fields:
        raise ValueError("not the name of tables; name a column, or the stream, between '{' and '}'")
    if not re.fullmatch("[a-z0-9_]*", "".join(literals)):
        raise ValueError("not the name of tables; beside '{…}' use small letters, digits and '_'")
    return Template(literals, fields)


@dataclass(frozen=True)
class Confinement:
    """The names that rows may be routed to."""

    template: Template
    allowed: frozenset[str] = frozenset()
    most: int = 1000

    def refusal(self, name: str | None) -> str | None:
        """Why no row may go to a table called `name`; None if rows may."""
        if name is None:
            return f"NULL in {' or '.join(f'{{{one}}}' for one in self.template.fields)}"
        if not _NAME.fullmatch(name):
            return f"a name has small letters, digits and '_', at most {LONGEST} of them"
        if not self.template.has(name):
            return EMPTY
        if name.endswith(_OWN):
            return "such names are kept for tables of Calve's own"
        if self.allowed and name not in self.allowed:
            return "'allowed_tables' does not have it"
        return None


def shared(tables: Collection[Schema]) -> Schema | None:
    """The columns on whose types the tables agree that have them; NOT NULL where they are so in each."""
    seen = [{column.name: column for column in one.columns} for one in tables]
    names = dict.fromkeys(name for one in seen for name in one)
    found = []
    for name in names:
        held = [one[name] for one in seen if name in one]
        if len({column.type for column in held}) == 1:
            is_needed = len(held) == len(seen) and not any(column.nullable for column in held)
            found.append(replace(held[0], nullable=not is_needed))
    return Schema(tuple(found)) if found else None


@dataclass(frozen=True)
class Unrouted:
    """Rows that go nowhere: the name that they would have, how many they are, and why."""

    name: str | None
    rows: int
    why: str


@dataclass(frozen=True)
class Sorted:
    """A batch by its tables: the rows of each, those that no table needs, and those that go nowhere."""

    tables: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    unrouted: tuple[Unrouted, ...] = ()


def sort(
    counts: Iterable[tuple[str | None, bool, int]], confinement: Confinement, listed: Collection[str]
) -> Sorted:
    """The batch whose rows `counts` tells: a name, whether a table needs the rows, and how many they are."""
    found = list(counts)
    needed = {name for name, is_needed, _ in found if is_needed}
    reasons = {name: confinement.refusal(name) for name in needed}
    names = sorted(name for name in needed if name is not None and reasons[name] is None)
    room = max(0, confinement.most - len(listed))
    over = [name for name in names if name not in listed][room:]
    reasons |= dict.fromkeys(over, f"it would be one more than 'max_tables' ({confinement.most}) allows")
    tables = {name: _rows(found, name) for name in names if name not in over}
    unrouted = [Unrouted(name, _rows(found, name), why) for name, why in reasons.items() if why]
    dropped = sum(rows for name, _, rows in found if name not in needed)
    return Sorted(tables, dropped, tuple(sorted(unrouted, key=lambda one: one.name or "")))


def _rows(counts: Iterable[tuple[str | None, bool, int]], name: str | None) -> int:
    return sum(rows for one, _, rows in counts if one == name)


def fingerprint(value: Any) -> str:
    """A short text that is the same for the same JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Bounds:
    """What the mark of a routed table holds in the place of a position: the last batch that the table has.

    `after` is the fingerprint of the lead's position before that batch, `to` the position behind it, `rows`
    how many of its rows went to the table (None: not to be compared), and `life` the lead's epoch.
    """

    after: str
    to: Position
    declaration: str
    rows: int | None
    life: int

    @classmethod
    def fresh(cls, at: Position, declaration: str, life: int) -> Bounds:
        """Those of a table that has no batch yet."""
        return cls(fingerprint(at), at, declaration, 0, life)

    def dump(self) -> Position:
        """As the mark has it."""
        return asdict(self)

    @property
    def is_fresh(self) -> bool:
        """Whether it tells of no batch at all."""
        return self.after == fingerprint(self.to)

    def is_ahead_of(self, lead: Position) -> bool:
        """Whether the table has the batch that begins where the lead stands."""
        return self.after == fingerprint(lead) and not self.is_fresh


def is_bounds(position: Position) -> bool:
    """Whether a mark belongs to one of several tables."""
    return set(position) == set(Bounds.__dataclass_fields__)


def bounds(position: Position) -> Bounds:
    """The bounds that a mark holds; raises ValueError where it holds something else."""
    if not is_bounds(position) or not isinstance(position["to"], dict):
        raise ValueError("not the mark of a routed table")
    return Bounds(**position)


def ahead(lead: Position, found: Mapping[str, Bounds]) -> dict[str, Bounds]:
    """The tables that have a batch already which the lead does not know of."""
    return {name: one for name, one in found.items() if one.is_ahead_of(lead)}


class Doubt(Enum):
    """Why an interrupted batch must not be finished."""

    ENDS = "its tables do not agree where it ends"
    DECLARATION = "the declaration was changed"


def doubt(having: Mapping[str, Bounds], declaration: str) -> Doubt | None:
    """What speaks against finishing the batch that the tables `having` have."""
    if len({fingerprint(one.to) for one in having.values()}) > 1:
        return Doubt.ENDS
    if any(one.declaration != declaration for one in having.values()):
        return Doubt.DECLARATION
    return None


def differing(having: Mapping[str, Bounds], tables: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The tables that would get another number of rows of the batch now: the one they have, and that one."""
    return {
        name: (one.rows, tables.get(name, 0))
        for name, one in having.items()
        if one.rows is not None and one.rows != tables.get(name, 0)
    }
