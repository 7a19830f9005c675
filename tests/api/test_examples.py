"""The examples in the docstrings of what is public."""

import datetime as dt
import doctest
from importlib import import_module

import pytest

import calve

MODULES = ("catalog", "session", "sink", "source", "table")


def examples():
    for name in MODULES:
        module = import_module(f"calve.api.{name}")
        for found in doctest.DocTestFinder(exclude_empty=True).find(module, f"calve.api.{name}"):
            if found.examples:
                yield pytest.param(found, id=found.name.removeprefix("calve.api."))


@pytest.fixture
def world(lake, orders, tmp_path):
    """What the examples take for granted."""
    empty = {"type": "memory", "warehouse": str(tmp_path / "empty")}
    return {
        "calve": calve,
        "dt": dt,
        "spark": lake.spark,
        "memory": lake.declaration,
        "warehouse": str(tmp_path / "other"),
        "catalog": calve.open_catalog(empty, spark=lake.spark),
        "orders": orders,
        "source": calve.IcebergSource(catalog=lake.declaration, namespace="shop", table="orders"),
    }


@pytest.mark.parametrize("example", list(examples()))
def test_the_example_gives_what_it_says(example, world):
    example.globs = dict(world)
    told = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(example, out=told.append)
    assert runner.failures == 0, "".join(told)


def test_every_public_verb_of_a_table_has_an_example_or_is_plain():
    plain = {"current_snapshot", "snapshot_by_id", "name"}
    public = {name for name in vars(calve.Table) if not name.startswith("_")}
    shown = {one.id.rpartition(".")[2] for one in examples() if one.id.startswith("table.")}
    assert public - shown == plain
