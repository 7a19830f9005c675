"""`calve init`."""

from __future__ import annotations

from pathlib import Path

import click

from calve.cli.app import debug_option, say
from calve.errors import ConfigurationError

DECLARATION = """\
# A Calve project: where rows come from (sources), where they go (sinks) and what connects them (pipelines).
# `calve validate` checks this file, `calve plan` shows what a run would do, `calve run` does it.
version: "1.0"

sources:
  orders:
    connector: datagen            # generated rows: the same seed gives the same rows
    config:
      rows: 20000                 # leave it out for rows without end
      rows_per_second: 2000
      seed: 7
      fields:
        id: sequence
        customer: {type: string, template: "customer-{}", distinct: 500}
        status: {type: choice, values: [new, paid, shipped, returned], weights: [4, 3, 2, 1]}
        amount: {type: decimal, precision: 12, scale: 2, min: 1, max: 5000}
        order_date: {type: timestamp, start: 2026-01-01T00:00:00, step: 30s}

  # The same rows from a Kafka topic. Remove the '#' and name it in the pipeline below.
  # orders_topic:
  #   connector: kafka
  #   config:
  #     bootstrap_servers: ${KAFKA:-localhost:9092}     # the environment's, or what follows ':-'
  #     topics: [orders]
  #     format: json
  #     schema: >-
  #       id BIGINT NOT NULL, customer STRING, status STRING, amount DECIMAL(12,2), order_date TIMESTAMP

sinks:
  lake:
    connector: iceberg
    config:
      # Without a 'catalog' the tables are kept in ./warehouse, with nothing to install or start.
      namespace: shop
      table: orders
      partition_by: ["day(order_date)"]
      batch_size: 4000            # commit when so many rows are waiting …
      flush_interval_secs: 5      # … or so many seconds after the last commit
      max_batch_size: 4000        # take no more at once; the default, 1000000, catches up faster

pipelines:
  orders:
    source: orders
    # transforms:
    #   - sql: SELECT * FROM input WHERE status <> 'returned'
    sink: lake
"""

IGNORED = """\
# What Calve keeps beside the declaration: status and logs, and the tables of the embedded catalog.
.calve/
warehouse/
"""

FILES = {"calve.yaml": DECLARATION, ".gitignore": IGNORED}


@click.command("init")
@click.argument("directory", type=click.Path(path_type=Path), default=Path("."))
@debug_option
def command(directory: Path, debug: bool) -> None:
    """Write a small project to DIRECTORY that runs as it is: generated orders into a local Iceberg table."""
    write(directory)
    say(f"Wrote {directory / 'calve.yaml'}. Now type:")
    steps = [] if directory.resolve() == Path.cwd() else [f"cd {directory}"]
    for step in (*steps, "calve run", "calve read orders"):
        say(f"  {step}")


def write(directory: Path) -> None:
    """Write the project; a file that is there already is never touched."""
    declaration = directory / "calve.yaml"
    if declaration.exists():
        raise ConfigurationError(f"Cannot write '{declaration}': it is there already; name another directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            if not (directory / name).exists():
                (directory / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"Cannot write to '{directory}': {error.strerror}") from error
