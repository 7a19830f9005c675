"""Tables in a program: snapshots, time travel, changes, evolution, expiry."""

import datetime as dt

import pyarrow as pa
import pytest

import calve
from calve.errors import ConfigurationError, UsageError
from calve.position import parse
from tests.api.conftest import append


def ids(frame):
    return sorted(row.id for row in frame.collect())


def test_a_catalog_creates_lists_and_finds_tables(lake):
    catalog = calve.open_catalog(lake.declaration, spark=lake.spark)
    made = catalog.create_table(
        "shop.a", pa.schema([pa.field("id", pa.int64(), nullable=False), ("at", pa.timestamp("us", "UTC"))]),
        partition_by=["day(at)"], key_fields=["id"], table_properties={"team": "shop"}, format_version=3,
    )  # fmt: skip
    metadata = lake.catalog.load(lake.name("a")).metadata()
    assert made.schema().ddl() == "id BIGINT NOT NULL, at TIMESTAMP"
    assert metadata.format_version == 3
    assert metadata.property("team") == "shop"
    assert [str(field) for field in metadata.partition()] == ["day(at)"]
    assert metadata.identifier_fields() == ("id",)
    assert catalog.list_tables() == catalog.list_tables("shop") == ["shop.a"]
    assert catalog.list_tables("nowhere") == []
    assert not catalog.table_exists("shop.b")


def test_two_embedded_catalogs_are_two(lake, tmp_path):
    one, other = ({"warehouse": str(tmp_path / name)} for name in "ab")
    session = lake.spark.newSession()
    calve.open_catalog(one, spark=session).create_table("x.a", "id INT")
    calve.open_catalog(other).create_table("x.b", "id INT")
    assert calve.open_catalog(one, spark=session).list_tables() == ["x.a"]
    assert calve.open_catalog(other).list_tables() == ["x.b"]
    with pytest.raises(ConfigurationError, match="keeps what it opened first; use a session of its own"):
        calve.open_catalog(other, spark=session)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            lambda c: c.load_table("shop.nobody"),
            "Cannot find table 'shop.nobody': the memory catalog .* has none",
        ),
        (lambda c: c.load_table("orders"), "name it with its namespace, such as 'shop.orders'"),
        (lambda c: c.create_table("shop.orders", "id INT"), "Cannot create table 'shop.orders': it exists"),
        (
            lambda c: c.create_table("shop.new", "id INT", partition_by=["day(at)"]),
            "'at' of 'partition_by' is none of its columns",
        ),
        (lambda c: c.create_table("shop.new", "id INT", partition_by=["day(id)"]), "'id' is INT"),
        (lambda c: c.create_table("shop.new", "v VARIANT"), "Iceberg holds it from format_version 3 on"),
    ],
)
def test_what_a_catalog_cannot_do_is_refused(lake, orders, work, message):
    catalog = calve.open_catalog(lake.declaration, spark=lake.spark)
    with pytest.raises(UsageError, match=message):
        work(catalog)
    assert catalog.list_tables() == ["shop.orders"]


def test_a_key_that_makes_no_table_is_refused(lake):
    catalog = calve.open_catalog(lake.declaration, spark=lake.spark)
    with pytest.raises(calve.errors.DeclarationError, match=r"create_table: partition_bye: .*did you mean"):
        catalog.create_table("shop.new", "id INT", partition_bye=["id"])


def test_every_state_can_be_read(lake, orders):
    first, second = orders.snapshots()
    assert orders.current_snapshot() == second == orders.snapshot_by_id(second.id)
    assert ids(orders.read()) == [1, 2, 3]
    assert ids(orders.as_of_version(first.id)) == [1, 2]
    between = dt.datetime.fromtimestamp(first.committed_ms / 1000, dt.timezone.utc)
    assert orders.snapshot_at(between) == first
    assert ids(orders.as_of_timestamp(between.isoformat(sep=" ", timespec="milliseconds"))) == [1, 2]
    lake.spark.sql(f"ALTER TABLE {lake.name('orders').sql()} CREATE TAG v1 AS OF VERSION {first.id}")
    assert ids(orders.as_of_version("v1")) == [1, 2]
    assert ids(orders.as_of_version("main", where="id > 1", columns=["id"])) == [2, 3]


def test_a_table_without_snapshots_has_columns_and_no_rows(lake):
    empty = calve.open_catalog(lake.declaration, spark=lake.spark).create_table(
        "shop.e", "id BIGINT, x STRING"
    )
    assert empty.current_snapshot() is None
    assert (empty.read().columns, empty.read(columns=["x"]).columns) == (["id", "x"], ["x"])
    assert empty.read().count() == 0


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda t: t.snapshot_by_id(7),
            "at snapshot 7: it has no such snapshot, or it was expired; the oldest",
        ),
        (lambda t: t.as_of_version(7), "at snapshot 7: it has no such snapshot"),
        (lambda t: t.as_of_version("v9"), "at branch 'v9': there is no such branch; there is main"),
        (lambda t: t.snapshot_at("2999-01-01"), "at 2999-01-01 00:00:00.000 UTC: that is in the future"),
        (lambda t: t.snapshot_at("2000-01-01"), "at 2000-01-01 00:00:00.000 UTC: its history begins at"),
        (lambda t: t.snapshot_at("yesterday"), "at 'yesterday': not a time"),
    ],
)
def test_a_state_that_is_not_there_is_refused(orders, ask, message):
    with pytest.raises(UsageError, match=f"Cannot read table 'shop.orders' {message}"):
        ask(orders)


def test_changes_are_told_snapshot_by_snapshot(orders):
    first, second = orders.snapshots()
    found = orders.changes_between(None).collect()
    assert sorted((row.id, row._change_ordinal, row._commit_snapshot_id) for row in found) == [
        (1, 0, first.id),
        (2, 0, first.id),
        (3, 1, second.id),
    ]


def test_columns_follow_and_what_cannot_be_is_refused(lake, orders):
    text = calve.Primitive("string")
    assert orders.evolve(
        calve.RenameColumn(("name",), "label"), calve.AddColumn((), calve.Column("note", text))
    ).names == ("id", "label", "note")
    assert [row.label for row in orders.read(where="id = 1").collect()] == ["n1"]
    with pytest.raises(UsageError, match="Iceberg does not read values of the one as the other"):
        orders.evolve(to="id INT NOT NULL, label STRING, note STRING")
    with pytest.raises(UsageError, match="give either changes or 'to'"):
        orders.evolve()
    assert orders.schema().names == ("id", "label", "note")


def test_old_snapshots_go_and_those_that_are_needed_stay(lake, orders, sink):
    writer = sink(table="orders", checkpoint_interval=0)
    writer.write(lake.rows([4]), id="four")
    marked = orders.current_snapshot()
    append(lake, "shop.orders", [5])
    append(lake, "shop.orders", [6])
    kept = orders.snapshots()[1]
    now = dt.datetime.now(dt.timezone.utc) + dt.timedelta(minutes=1)
    before = [one.id for one in orders.snapshots()]
    would = orders.expire_snapshots(now, keep=[kept.id], dry_run=True)
    assert [one.id for one in orders.snapshots()] == before
    gone = orders.expire_snapshots(now, keep=[kept.id])
    assert gone == would
    left = [one.id for one in orders.snapshots()]
    assert set(left) == {kept.id, marked.id, orders.current_snapshot().id}
    assert ids(orders.read()) == [1, 2, 3, 4, 5, 6]
    writer.write(lake.rows([7]), id="seven")
    assert parse(lake.catalog.load(lake.name("orders")).metadata().property("calve.sink.loader")).epoch == 1
    with pytest.raises(UsageError, match="'retain_last' is at least 1"):
        orders.expire_snapshots(now, retain_last=0)
