"""The declarations of docs/changes.md, each with records as their writers write them."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
from ruamel.yaml import YAML

from calve.decode.reading import Layout, file_rows
from calve.decode.rows import Topics
from calve.sources.files import FilesSource
from calve.sources.kafka import KafkaSource
from calve.sources.source import Limits

PAGE = (Path(__file__).parents[2] / "docs" / "changes.md").read_text()

MAXWELL = [
    '{"database":"shop","table":"people","type":"bootstrap-insert","ts":1477053217,"data":{"id":1,"name":"a"}}',
    '{"database":"shop","table":"people","type":"update","ts":1477053234,"xid":23396,"commit":true,'
    '"data":{"id":1,"name":"b"},"old":{"name":"a"}}',
    '{"database":"shop","table":"people","type":"delete","ts":1477053240,"data":{"id":1,"name":"b"}}',
]
CANAL = [
    '{"data":[{"id":"1","name":"a"},{"id":"2","name":null}],"database":"shop","es":1589373560000,"id":9,'
    '"isDdl":false,"mysqlType":{"id":"bigint"},"old":null,"pkNames":["id"],"sql":"","table":"people",'
    '"ts":1589373560798,"type":"INSERT"}',
    '{"data":[{"id":"1","name":"b"}],"isDdl":false,"old":[{"name":"a"}],"table":"people","type":"UPDATE"}',
    '{"data":[{"id":"1","name":"b"}],"isDdl":false,"old":null,"table":"people","type":"DELETE"}',
    '{"data":null,"isDdl":true,"old":null,"sql":"truncate table people","table":"people","type":"TRUNCATE"}',
]
DMS = "I,1,a\nU,1,b\nD,1,b\n"


def block(heading: str, kind: str) -> dict[str, Any]:
    """The first block of a kind under a heading of the page."""
    part = re.split(rf"^#+ {heading}$", PAGE, flags=re.MULTILINE)[1]
    body = re.search(rf"^```yaml {kind}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    assert body
    return dict(YAML(typ="safe").load(body[1]))


def kafka_changes(heading: str, records: list[str], keys: list[str] | None = None) -> pa.RecordBatch:
    """What the documented source makes of records, from offset 0 on."""
    source = KafkaSource.model_validate(block(heading, "source")["config"])
    assert source.flaws() == []
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([record.encode() for record in records], pa.binary()),
            pa.array([0] * len(records), pa.int32()),
            pa.array(range(len(records)), pa.int64()),
            pa.array([key.encode() for key in keys] if keys else [None] * len(records), pa.binary()),
        ],
        names=["value", "partition", "offset", "key"],
    )
    [made] = source._changes({}, Topics(("topic",)), None)([batch])
    return made


def test_files_of_dms_are_changes(tmp_path: Path) -> None:
    source = FilesSource.model_validate(block("AWS DMS", "source")["config"] | {"path": str(tmp_path)})
    assert source.flaws() == []
    (tmp_path / "LOAD00000001.csv").write_text(DMS)
    [file] = source._files({}, source.latest(source.start(), Limits(1000)).to)
    work = file_rows(source._decoder(), [list(source._splits(file))], Layout(), source._row_changes())
    [made] = work([pa.RecordBatch.from_pydict({"id": [0]})])
    rows = [(row["id"], row["name"], row["_calve_op"], row["_calve_order"]["at"]) for row in made.to_pylist()]
    assert rows == [(1, "a", "i", 0), (1, "b", "u", 1), (1, "b", "d", 2)]
    assert "Op" not in made.schema.names


def test_records_of_maxwell_are_changes() -> None:
    made = kafka_changes("Maxwell", MAXWELL).to_pylist()
    rows = [(row["data"], row["_calve_op"], row["_calve_order"]["at"]) for row in made]
    assert rows == [
        ({"id": 1, "name": "a"}, "i", 0),
        ({"id": 1, "name": "b"}, "u", 1),
        ({"id": 1, "name": "b"}, "d", 2),
    ]


def test_records_of_canal_are_changes() -> None:
    made = kafka_changes("Canal", CANAL).to_pylist()
    assert [row["_calve_op"] for row in made] == ["i", "u", "d", "t"]
    assert made[0]["data"] == [{"id": "1", "name": "a"}, {"id": "2", "name": None}]


def test_records_of_debezium_are_changes() -> None:
    told = {
        "before": None,
        "after": {"id": 1, "status": "new", "amount": "BOI=", "placed": 1_714_564_800_000_000},
        "source": {"version": "3.6.2.Final", "connector": "postgresql", "lsn": 24023128, "ts_ms": 5},
        "transaction": None,
        "op": "c",
        "ts_ms": 6,
    }
    [row] = kafka_changes("Debezium", [json.dumps(told)], ['{"id": 1}']).to_pylist()
    assert (row["id"], str(row["amount"]), row["placed"].year) == (1, "12.50", 2024)
    assert row["_calve_order"] == {"seq": 24023128, "lane": 0, "at": 0, "part": 0, "time": None}
