"""The table of values through whole pipelines, in three time zones, read by DuckDB and PyIceberg."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.catalogs import Catalog
from calve.project import ResolvedPipeline
from calve.runtime.report import Report
from calve.runtime.runner import Runner
from calve.runtime.stop import Stop
from calve.sink.declaration import IcebergSink
from calve.sources.files import FilesSource
from tests.decode import values
from tests.decode.values import Refused, same
from tests.lake import Lake
from tests.test_readers import with_duckdb, with_pyiceberg

ZONES = ("UTC", "Asia/Kolkata", "America/St_Johns")
REQUIRED = "BIGINT NOT NULL"


def cases(table):
    return [(kind, text, value) for kind, found in table.items() for text, value in found]


def json_lines():
    names = values.columns(values.JSON)
    for number, (kind, text, _) in enumerate(cases(values.JSON)):
        required = text if kind == REQUIRED else "1"
        member = f', "{names[kind]}": {text}' if kind in names else ""
        yield f'{{"n": {number}, "r": {required}{member}}}'


def csv_lines():
    names = list(values.CSV)
    for number, (kind, text, _) in enumerate(cases(values.CSV)):
        fields = ["" if one != kind else text for one in names]
        yield ",".join([str(number), "1", *fields])


FORMATS = {"json": (values.JSON, json_lines), "csv": (values.CSV, csv_lines)}


def schema(table):
    held = [f"{name} {kind}" for kind, name in values.columns(table).items()]
    return ", ".join(["n INT NOT NULL", f"r {REQUIRED}", *held])


def run(lake, folder, format):
    table, _ = FORMATS[format]
    source = FilesSource.model_validate(
        {"path": str(folder / format), "format": format, "schema": schema(table)}
    )
    sink = IcebergSink.model_validate({"catalog": lake.declaration, "namespace": "shop", "table": format})
    report = Report(format)
    Runner(ResolvedPipeline(format, source, sink, (), format, True), lake.spark, Stop(), report, True).run()
    return report.status


def differences(table, rows):
    """The cases whose value is not stored as the table of values says."""
    found = {row["n"]: row for row in rows}
    names = {**values.columns(table), REQUIRED: "r"}
    for number, (kind, text, expected) in enumerate(cases(table)):
        if isinstance(expected, Refused):
            if number in found:
                yield kind, text, expected, found[number][names[kind]]
        elif number not in found or not same(found[number][names[kind]], expected):
            yield kind, text, expected, found.get(number)


@pytest.fixture
def folder(tmp_path):
    for format, (_, lines) in FORMATS.items():
        (tmp_path / format).mkdir()
        (tmp_path / format / "a").write_text("".join(line + "\n" for line in lines()))
    return tmp_path


@pytest.mark.parametrize("zone", ZONES)
def test_every_value_is_stored_as_it_is_or_is_a_dead_letter(spark, folder, zone):
    warehouse = folder / "warehouse"
    lake = Lake.open(spark, Catalog.model_validate({"type": "memory", "warehouse": str(warehouse)}))
    lake.spark.conf.set("spark.sql.session.timeZone", zone)
    for format, (table, _) in FORMATS.items():
        status = run(lake, folder, format)
        assert status.rows + status.dead_letters == len(cases(table))
        for read in (with_duckdb, with_pyiceberg):
            rows = read(lake.catalog.load(lake.name(format)).metadata().file)
            assert len(rows) == status.rows
            assert list(differences(table, rows)) == []
            letters = read(lake.catalog.load(lake.name(f"{format}__dead_letter")).metadata().file)
            lines = {json.loads(one["position"])["line"] - 1: one["reason"] for one in letters}
            wanted = {n: e.reason for n, (_, _, e) in enumerate(cases(table)) if isinstance(e, Refused)}
            assert lines == wanted


def random_rows(count):
    chance = random.Random(20261118)
    begin, utc = dt.datetime(1, 1, 1), dt.timezone.utc
    for number in range(count):
        at = begin + dt.timedelta(microseconds=chance.randrange(9998 * 365 * 86_400_000_000))
        yield {
            "n": number,
            "u": chance.choice([0, 2**63 - 1, chance.randrange(2**63)]),
            "d": Decimal(chance.randrange(-(10**20) + 1, 10**20)),
            "s": "".join(chance.choice("aé😀\0 ") for _ in range(chance.randint(0, 9))),
            "t": at.replace(tzinfo=utc),
            "l": at,
            "x": chance.choice([-0.0, 5e-324, 1e308, chance.random()]),
        }


def write_parquet(path, rows):
    kinds = {"n": pa.int64(), "u": pa.uint64(), "d": pa.decimal128(38, 0), "s": pa.binary(),
             "l": pa.timestamp("us"), "t": pa.timestamp("us", "Europe/Berlin"),
             "x": pa.float64()}  # fmt: skip
    values = {name: [row[name] for row in rows] for name in kinds}
    values["s"] = [text.encode() for text in values["s"]]
    pq.write_table(pa.table({name: pa.array(values[name], kind) for name, kind in kinds.items()}), path)


def write_avro(path, rows):
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
    kinds = {"n": "int", "u": "long", "d": decimal,
             "s": "string", "t": {"type": "long", "logicalType": "timestamp-micros"},
             "l": {"type": "long", "logicalType": "local-timestamp-micros"}, "x": "double"}  # fmt: skip
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, rows)


@pytest.mark.parametrize(("format", "write"), [("parquet", write_parquet), ("avro", write_avro)])
def test_other_readers_see_what_is_in_files_with_types_of_their_own(spark, tmp_path, format, write):
    lake = Lake.open(
        spark, Catalog.model_validate({"type": "memory", "warehouse": str(tmp_path / "warehouse")})
    )
    lake.spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    rows = list(random_rows(500))
    (tmp_path / "in").mkdir()
    write(tmp_path / "in" / "a", rows)
    declared = "n INT NOT NULL, u BIGINT, d DECIMAL(38,18), s STRING, t TIMESTAMP, l TIMESTAMP_NTZ, x DOUBLE"
    source = FilesSource.model_validate({"path": str(tmp_path / "in"), "format": format, "schema": declared})
    sink = IcebergSink.model_validate({"catalog": lake.declaration, "namespace": "shop", "table": "t"})
    Runner(ResolvedPipeline("t", source, sink, (), "t", True), lake.spark, Stop(), Report("t"), True).run()
    for read in (with_duckdb, with_pyiceberg):
        found = {row["n"]: row for row in read(lake.catalog.load(lake.name("t")).metadata().file)}
        assert len(found) == len(rows)
        for row in rows:
            wrong = {
                name: found[row["n"]][name] for name in row if not is_alike(found[row["n"]][name], row[name])
            }
            assert wrong == {}, row


def is_alike(found, expected):
    return found == expected if isinstance(expected, Decimal) else same(found, expected)
