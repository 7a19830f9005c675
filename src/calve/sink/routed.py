"""A sink at work on several tables: the lead lists them, and holds the position.

A batch is committed table by table, the lead last. A table is listed before it is written to, and the mark of
each table has the bounds of its last batch, so that a start can tell which of them have one that the lead
does not have yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from calve import changes, clock, position
from calve.errors import CalveError, Unavailable
from calve.iceberg.evolve import Steps
from calve.iceberg.failures import translated
from calve.iceberg.lookup import rows_at
from calve.iceberg.name import TableName, quoted
from calve.iceberg.stage import NOTHING, Staged
from calve.iceberg.table import Table
from calve.patience import Patience
from calve.position import Mark, Position
from calve.schema import Schema
from calve.sink import batch, choice, prepare, refusals, routes
from calve.sink.choice import Needs
from calve.sink.declaration import IcebergSink
from calve.sink.routes import LIST, SINCE, TABLE, Bounds, Doubt, Sorted, Template, Unrouted
from calve.sink.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

    from calve.decode.route import Route

_ROUTE = "_calve_route"
_NEEDED = "_calve_needed"
_SHOWN = routes.LONGEST + 72
_PLAIN: dict[str, object] = {
    "partitioning": "none",
    "partition_fields": [],
    "partition_by": [],
    "sort_by": [],
    "commit_mode": "append",
    "key_fields": [],
    "order_by": None,
    "change_columns": False,
    "schema_evolution": "strict",
    "renames": {},
    "partition_evolution": False,
}


def writer_of(
    spark: SparkSession,
    sink: IcebergSink,
    sink_id: str,
    patience: Patience,
    declared: Collection[str] = (),
    declaration: str = "",
    overlaps: Callable[[Position], bool] = lambda position: True,
) -> Writer | Routed:
    """What writes to the table or the tables of `sink`; `declaration` tells one declaration from another.

    `overlaps` tells whether the position of another sink is about something that is read here as well.
    """
    if sink.template is None:
        return Writer(spark, sink, sink_id, patience, declared, overlaps=overlaps)
    return Routed(spark, sink, sink_id, patience, declared, declaration, overlaps)


def lead_of(sink: IcebergSink, sink_id: str) -> IcebergSink:
    """The sink that writes the list of the tables of `sink`."""
    # Iceberg refuses properties of columns that a table does not have.
    properties = {key: value for key, value in sink.table_properties.items() if ".column." not in key}
    own = {"table": routes.lead(sink_id), "table_properties": properties}
    return sink.model_copy(update={**own, **_PLAIN})


def route_of(sink: IcebergSink) -> Route | None:
    """What names the table of a row where it is decoded, if there are several.

    What empties tables is left to the sink, which stops, and so is one table more than may be.
    """
    from calve.decode.route import Route

    template = sink.template
    if template is None:
        return None
    passed_over = sink.commit_mode != "upsert" and not sink.change_columns
    exempt = (changes.TRUNCATE, *((changes.DELETE,) if passed_over else ()))
    return Route(template.literals, _fields(template), sink.confinement(template).refusal, exempt)


def _fields(template: Template) -> tuple[str, ...]:
    return tuple(changes.STREAM if name == routes.STREAM else name for name in template.fields)


def one_of(sink: IcebergSink, table: str) -> IcebergSink:
    """The sink that writes to one of the tables of `sink`."""
    return sink.model_copy(update={"table": table})


def listed(spark: SparkSession, lead: Table, branch: str) -> list[str]:
    """The tables that the lead has."""
    head = lead.metadata().head(branch)
    if head is None:
        return []
    with translated(f"read table '{lead.name}'"):
        rows = rows_at(spark, lead, head.snapshotId()).select(TABLE).distinct().collect()
    return sorted(row[0] for row in rows)


@dataclass(frozen=True)
class Shares(Staged):
    """A batch as it is staged for each table, and how many of its rows were routed there."""

    parts: Mapping[str, Staged] = field(default_factory=dict)
    routed: Mapping[str, int] = field(default_factory=dict)
    is_owed: bool = False
    frame: DataFrame | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be committed; what the lead lacks of an earlier life always is."""
        return not self.is_owed and all(part.is_empty for part in self.parts.values())

    @property
    def counts(self) -> dict[str, float]:
        total: Counter[str] = Counter()
        for part in self.parts.values():
            total.update(part.counts)
        return dict(total)

    def release(self) -> None:
        for part in self.parts.values():
            part.release()
        if self.frame is not None:
            self.frame.unpersist()


class Routed:
    """One life of a sink that writes to several tables."""

    def __init__(
        self,
        spark: SparkSession,
        sink: IcebergSink,
        sink_id: str,
        patience: Patience,
        declared: Collection[str],
        declaration: str,
        overlaps: Callable[[Position], bool] = lambda position: True,
    ) -> None:
        assert sink.template is not None, "a sink of one table"
        self.sink = sink
        self.told = str(prepare.table_name(sink))
        self.owed: Position | None = None
        self.made_by = choice.described(Needs(sink, decodes=False))
        self._template: Template = sink.template
        self._confinement = sink.confinement(self._template)
        self._spark = spark
        self._sink_id = sink_id
        self._patience = patience
        self._declared = declared
        self._declaration = declaration
        self._overlaps = overlaps
        self._lead = Writer(spark, lead_of(sink, sink_id), sink_id, patience, declared, overlaps=overlaps)
        self._writers: dict[str, Writer] = {}
        self._listed: list[str] = []
        self._known: frozenset[str] = frozenset()
        self._having: dict[str, Bounds] = {}
        self._source = ""
        self._columns = Schema(())
        self._is_said = True
        self._fitted: set[str] = set()
        self._life = 0

    @property
    def name(self) -> TableName:
        """The lead's name."""
        return self._lead.name

    @property
    def uuid(self) -> str | None:
        """The lead's UUID."""
        return self._lead.uuid

    @property
    def held(self) -> Mark | None:
        """The lead's mark that this life has written last."""
        return self._lead.held

    @property
    def tables(self) -> list[str]:
        """The tables that the lead lists."""
        return self._listed

    def find(self, source: str) -> Mark | None:
        """The lead's mark, if it is there and an interrupted batch can be finished; nothing is written."""
        mark = self._lead.find(source)
        if self._lead.uuid is None:
            return None
        self._listed = self._read_list()
        self._writers = {name: self._writer(name) for name in self._listed}
        marks = {name: writer.find(source) for name, writer in self._writers.items()}
        if mark is not None:
            self._owe(mark.position, {name: one for name, one in marks.items() if one is not None})
        return mark

    @property
    def columns(self) -> Schema | None:
        """What the columns of the tables have in common, if there are any."""
        there = (writer.columns for writer in self._writers.values())
        return routes.shared([columns for columns in there if columns is not None])

    def check(self, columns: Schema, is_said: bool = True) -> Steps:
        """What is to be done to the tables for rows with `columns`; refuses tables that cannot fit."""
        if not columns.columns:
            return Steps()
        prepare.check_routes(columns, self._template, self.told, is_said)
        found = [
            writer.check(columns, is_said)
            for name, writer in self._writers.items()
            if writer.uuid is not None and self._confinement.refusal(name) is None
        ]
        # What is done to several tables is one change of the declaration.
        return Steps(
            tuple(dict.fromkeys(change for steps in found for change in steps.columns)),
            tuple(dict.fromkeys(change for steps in found for change in steps.partition)),
        )

    def fit(self, columns: Schema, is_said: bool = True) -> None:
        """Have each table fit rows with `columns` once it gets some; the lead stays as it is."""
        prepare.check_routes(columns, self._template, self.told, is_said)
        self._columns, self._is_said, self._fitted = columns, is_said, set()

    def open(self, source: str, start: Position, columns: Schema, is_said: bool = True) -> Mark:
        """Take the next epoch of the lead and then of every table it lists, and see which are ahead of it.

        A table that is listed and not there is created: an older process may be about to do so. Where one
        cannot fit, none is changed.
        """
        self.check(columns, is_said)
        lead = self._lead.open(source, start, LIST)
        self._source, self._life = source, lead.epoch
        self._columns, self._is_said, self._fitted = columns, is_said, set()
        self._listed = self._patience.keep_trying(self._read_list)
        self._known, self._writers = frozenset(self._listed), {}
        marks = {name: self._open(name, lead.position) for name in self._listed}
        if marks:
            self._check_lead()
        self._owe(lead.position, {name: mark for name, mark in marks.items() if mark is not None})
        return lead

    def stage(self, frame: DataFrame, rows: int, size: int = 0) -> Staged:
        """Write the rows of `frame` as files of the tables they go to; new tables are listed and opened."""
        routed = frame.withColumn(_ROUTE, self._route(frame)).persist()
        try:
            return self._staged(routed, size)
        except BaseException:
            routed.unpersist()
            raise

    def commit(self, staged: Staged, to: Position) -> Mark:
        """Commit what was staged to one table after the other, and then the position to the lead."""
        assert isinstance(staged, Shares), "staged by another writer"
        after = routes.fingerprint(self._at())
        try:
            for name, part in sorted(staged.parts.items()):
                if not part.is_empty:
                    bounds = Bounds(after, to, self._declaration, staged.routed[name], self._life)
                    self._writers[name].commit(part, bounds.dump())
            mark = self._lead.commit(NOTHING, to)
        finally:
            staged.release()
        self._having, self.owed = {}, None
        return mark

    def _read_list(self) -> list[str]:
        return listed(self._spark, self._lead.table, self.sink.branch)

    def _at(self) -> Position:
        """The position of the lead, where every batch begins until it is committed."""
        held = self._lead.committer.held
        assert held is not None, "the lead is not open"
        return held.position

    def _staged(self, routed: DataFrame, size: int) -> Shares:
        found = self._sorted(routed)
        self._take_unrouted(found.unrouted)
        differing = routes.differing(self._having, found.tables)
        if differing:
            raise refusals.other_routes(self.name, differing)
        self._fit([name for name in found.tables if name in self._writers and name not in self._having])
        self._add([name for name in found.tables if name not in self._writers])
        parts: dict[str, Staged] = {}
        total = sum(found.tables.values())
        try:
            for name, count in found.tables.items():
                if name not in self._having:
                    parts[name] = self._writers[name].stage(
                        self._rows(routed, name), count, size * count // total
                    )
                    self._check_count(parts[name], name, count)
        except BaseException:
            for part in parts.values():
                part.release()
            raise
        return Shares(
            tuple(file for part in parts.values() for file in part.files),
            sum(part.rows for part in parts.values()),
            sum(part.bytes for part in parts.values()),
            found.dropped + sum(part.dropped for part in parts.values()),
            parts,
            found.tables,
            self.owed is not None,
            routed,
        )

    def _fit(self, names: Collection[str]) -> None:
        """Have tables fit the rows of a batch; one that cannot is refused before another is changed."""
        unfit = [name for name in names if name not in self._fitted]
        for name in unfit:
            self._writers[name].check(self._columns, self._is_said)
        for name in unfit:
            self._writers[name].fit(self._columns, self._is_said)
            self._fitted.add(name)

    def _check_count(self, part: Staged, name: str, count: int) -> None:
        """Refuse to commit where rows were read twice and differed."""
        if self.sink.commit_mode != "upsert" and part.rows + part.dropped != count:
            raise Unavailable(
                f"Cannot commit to table '{self.table_name(name)}': {count} rows were routed to it, "
                f"{part.rows + part.dropped} were written"
            )

    @clock.timed("read")
    def _sorted(self, routed: DataFrame) -> Sorted:
        """The batch by its tables, in one pass; more names than may be are not fetched."""
        from pyspark.sql import functions as f

        name = f.substring(_ROUTE, 1, _SHOWN).alias(_ROUTE)
        counts = routed.groupBy(name, self._is_needed(routed).alias(_NEEDED)).agg(f.count("*"))
        with translated(f"route rows to '{self.told}'"):
            rows = counts.limit(2 * self._confinement.most + 3).collect()
        return routes.sort([tuple(row) for row in rows], self._confinement, self._listed)

    def _is_needed(self, routed: DataFrame) -> Expression:
        """Whether a table takes anything from a row; those that none does need no route."""
        from pyspark.sql import functions as f

        if self.sink.commit_mode != "upsert":
            return batch.is_row(routed, self.sink.change_columns)
        return ~batch.is_truncate() if self.sink.truncate == "ignore" else f.lit(True)

    def _take_unrouted(self, found: Collection[Unrouted]) -> None:
        """What becomes of rows that go nowhere and are no dead letters: they stop the pipeline."""
        if found:
            raise refusals.unrouted(self.told, list(found), self._at())

    def _route(self, frame: DataFrame) -> Expression:
        """The name of a row's table; NULL where one of its values is. A dot leads into a struct."""
        from pyspark.sql import functions as f

        parts: list[Expression] = [f.lit(self._template.literals[0])]
        for name, literal in zip(_fields(self._template), self._template.literals[1:], strict=True):
            place = quoted(name) if name in frame.columns else ".".join(map(quoted, name.split(".")))
            parts += [f.col(place).cast("string"), f.lit(literal)]
        return reduce(f.concat, parts)

    def _rows(self, routed: DataFrame, name: str) -> DataFrame:
        from pyspark.sql import functions as f

        return routed.where(f.col(_ROUTE) == name).drop(_ROUTE, changes.STREAM)

    def _add(self, names: Collection[str]) -> None:
        """List new tables in the lead, and open them: never the other way round.

        Whoever takes the lead's next epoch then knows every table that this life may write to.
        """
        unknown = sorted(set(names) - set(self._listed))
        if unknown:
            self._lead.commit(self._lead.stage(self._entries(unknown), len(unknown)), self._at())
            self._listed = sorted({*self._listed, *unknown})
        for name in sorted(names):
            self._open(name, self._at())
        if names:
            self._check_lead()

    def _check_lead(self) -> None:
        """Refuse to write to tables that were opened after another process had taken the lead.

        It leaves a table alone that is not there and that it does not name. One that takes the lead from now
        on finds the table, and closes it.
        """
        self._lead.check_still_held()

    def _entries(self, names: Collection[str]) -> DataFrame:
        from pyspark.sql import functions as f

        rows = self._spark.createDataFrame([(name,) for name in names], f"{TABLE} STRING NOT NULL")
        return rows.withColumn(SINCE, f.current_timestamp())

    def _open(self, name: str, at: Position) -> Mark | None:
        """Take the next epoch of a table; None where there is none and the declaration names it no more."""
        writer = self._writer(name)
        self._patience.keep_trying(lambda: writer.find(self._source))
        is_named = self._confinement.refusal(name) is None
        if writer.uuid is None and not is_named:
            return None
        fresh = Bounds.fresh(at, self._declaration, self._life)
        mark = writer.open(self._source, fresh.dump(), self._columns, self._is_said, fits=is_named)
        self._writers[name] = writer
        self._fitted |= {name} if is_named else set()
        return mark

    def _writer(self, name: str) -> Writer:
        sink = one_of(self.sink, name)
        names = (self._sink_id, self._patience, self._declared)
        return Writer(self._spark, sink, *names, partial(self._accepted, name), self._is_of_same_records)

    def _is_of_same_records(self, found: Position) -> bool:
        """Whether the mark of one of several tables is about something that is read here as well."""
        return self._overlaps(found["to"] if routes.is_bounds(found) else found)

    def _accepted(self, name: str, mark: Mark) -> Mark:
        """The mark of a table as this life takes it over; refused where a later life, or none, wrote it."""
        bounds = self._bounds(name, mark)
        if self._life == 0:
            return mark
        is_ours = name in self._known or bounds.is_fresh
        if bounds.life > self._life or not is_ours:
            raise self._overtaken(name, mark)
        taken = replace(bounds, life=self._life)
        return mark.moved(position=taken.dump(), commit=mark.commit, above=mark.above)

    def _bounds(self, name: str, mark: Mark) -> Bounds:
        try:
            return routes.bounds(mark.position)
        except ValueError as error:
            raise refusals.one_alone(self.table_name(name), self._sink_id) from error

    def _overtaken(self, name: str, mark: Mark) -> CalveError:
        held = self._lead.committer.held
        lead = self._lead.table.refresh().mark(position.property_name(self._sink_id, self.sink.branch))
        if lead != held:
            return refusals.fenced(self.name, self._sink_id, held, lead)
        return refusals.unlisted(self.table_name(name), self._sink_id, self.name)

    def move(self, to: Position) -> Mark:
        """Commit a position that no rows have led to."""
        return self._lead.move(to)

    def check_still_held(self) -> None:
        """Refuse to go on where another process has taken the lead."""
        self._lead.check_still_held()

    def table_name(self, name: str) -> TableName:
        """One of the tables by its whole name."""
        return replace(self.name, table=name)

    def _owe(self, lead: Position, marks: Mapping[str, Mark]) -> None:
        """Find the tables that are ahead of the lead; refuse a batch that cannot be finished."""
        having = routes.ahead(lead, {name: self._bounds(name, mark) for name, mark in marks.items()})
        found = routes.doubt(having, self._declaration)
        if found is Doubt.ENDS:
            raise refusals.ends_differ(self.name, having)
        if found is Doubt.DECLARATION:
            raise refusals.other_declaration(self.name, having)
        self._having = having
        self.owed = next((one.to for one in having.values()), None)
