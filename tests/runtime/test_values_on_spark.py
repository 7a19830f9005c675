"""The table of values through whole pipelines, in three time zones, read by DuckDB and PyIceberg."""

from __future__ import annotations

import json

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
