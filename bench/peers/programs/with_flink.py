"""Run by the bench: `with_flink.py statements.json`."""

import json
import sys
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment


def main(file: str) -> None:
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for statement in json.loads(Path(file).read_text()):
        if statement.startswith("SET "):
            name, value = (part.strip().strip("'") for part in statement[4:].split("=", 1))
            environment.get_config().set(name, value)
            continue
        result = environment.execute_sql(statement)
        if statement.startswith("INSERT"):
            result.wait()


if __name__ == "__main__":
    main(sys.argv[1])
