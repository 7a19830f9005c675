import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import peers
from bench.data import Expected, Shape
from bench.peers.__main__ import chosen, in_turn, installed
from bench.peers.connect import KafkaConnect
from bench.peers.flink import Flink
from bench.peers.ingestr import Ingestr
from bench.peers.peer import LOCK, CannotInstall, Inputs, Load, Peer, Topic, renamed
from bench.peers.seatunnel import SeaTunnel
from bench.peers.spark import spark_transform
from bench.stand import Stand
from bench.workloads import WORKLOADS, BulkParquet, Result
from calve import declare
from calve.runtime import jars

TOPIC = Inputs(Topic("127.0.0.1:9092", "orders"))
FILES = Inputs(
    TOPIC.topic,
    tuple(Path(f"/data/parquet/b/{n}.parquet") for n in range(3)),
    tuple(Path(f"/data/csv/b/{n}.csv") for n in range(3)),
)
BASE = Inputs(None, (Path("/data/parquet/base/0.parquet"),), (Path("/data/csv/base/0.csv"),))
WIDE = Shape("wide", wide=2)
RIGHT = Expected(10, 10, {})
LOADS = {
    "append": Load("W1", "w1-x-0", Shape(), TOPIC, RIGHT, rows=10),
    "upsert": Load("W2", "w2-x-0", Shape(), FILES, RIGHT, True, BASE, 300, 100, 3),
    "bulk": Load("W3", "w3-x-0", Shape(), Inputs(parquet=FILES.parquet), RIGHT, rows=10),
    "csv": Load("W3-csv", "w3-x-0", Shape(), Inputs(csv=FILES.csv), RIGHT, rows=10),
    "trickle": Load("W5", "w5-x-0", Shape(), TOPIC, RIGHT, rows=10, endless=10.0),
    "wide": Load("W6", "w6-x-0", WIDE, TOPIC, RIGHT, rows=10),
    "days": Load("W7", "w7-x-0", Shape(days=1000), TOPIC, RIGHT, rows=10, partition_by="day(ordered_at)"),
}


@pytest.mark.parametrize("name", peers.PEERS)
def test_every_peer_writes_its_configuration_for_what_it_does(name, tmp_path):
    peer = peers.find(name)
    done = [load for load in LOADS.values() if peer.refusal(load) is None]
    assert done
    for load in done:
        for file, text in peer.files(load, tmp_path).items():
            assert text, file
            if file.endswith(".json"):
                json.loads(text)


@pytest.mark.parametrize("name", peers.PEERS)
def test_what_a_peer_does_not_do_is_a_workload_and_has_a_reason(name):
    cannot = peers.find(name).cannot
    assert all(cannot.values())
    known = {one.split("-")[0] for one in WORKLOADS}
    assert {one.split("-")[0] for one in cannot} <= known


def test_what_a_peer_does_not_do_it_does_not_do_in_other_sizes(tmp_path):
    assert KafkaConnect().refusal(replace(LOADS["upsert"], workload="W2-large")) == "the sink only appends"
    assert SeaTunnel().refusal(replace(LOADS["trickle"], workload="W5-10s"))
    assert peers.find("dlt").refusal(LOADS["upsert"]) is None
    assert peers.find("dlt").refusal(replace(LOADS["upsert"], workload="W2-large"))


@pytest.mark.parametrize("kind", LOADS)
@pytest.mark.parametrize("name", ["calve", "calve-equality"])
def test_our_own_declarations_load(name, kind, tmp_path):
    peer, load = peers.find(name), LOADS[kind]
    if peer.refusal(load):
        pytest.skip("differs in upserts only")
    for file, text in peer.files(load, tmp_path).items():
        (tmp_path / file).write_text(text)
        project = declare.load(tmp_path / file)
        (pipeline,) = [project.pipeline(one) for one in project.pipelines]
        assert pipeline.sink.commit_mode == ("upsert" if load.is_upsert else "append")
        assert pipeline.sink.deletes == ("equality" if name == "calve-equality" else "position")
        assert list(pipeline.sink.partition_by or []) == [load.partition_by] * bool(load.partition_by)


def test_our_batches_are_as_large_as_those_of_the_workload(tmp_path):
    files = peers.find("calve").files(LOADS["upsert"], tmp_path)
    sink = json.loads(files["calve.yaml"])["sinks"]["lake"]["config"]
    assert (sink["batch_size"], sink["max_batch_size"]) == (100, 100)
    base = json.loads(files["base.yaml"])
    assert "max_batch_size" not in base["sinks"]["lake"]["config"]
    assert base["pipelines"].keys() != json.loads(files["calve.yaml"])["pipelines"].keys()


def test_only_what_is_loaded_before_is_not_counted(tmp_path):
    for name in ("calve", "spark", "flink", "ingestr", "pyiceberg", "dlt"):
        peer = peers.find(name)
        steps = peer.steps(LOADS["upsert"], tmp_path)
        assert [step.counted for step in steps[:2]] == [False, True], name
        assert all(step.ends for step in steps)
    assert len(Ingestr().steps(LOADS["upsert"], tmp_path)) == 4


def test_a_trickle_has_no_end_by_itself(tmp_path):
    for name in ("calve", "spark", "flink", "ingestr"):
        (step,) = peers.find(name).steps(LOADS["trickle"], tmp_path)
        assert not step.ends, name
        assert "--once" not in step.command


def test_the_worker_of_kafka_connect_has_names_that_no_other_run_has(tmp_path):
    sink = KafkaConnect().sink(LOADS["append"], tmp_path)
    assert sink["name"] == "w1-x-0"
    assert {sink["iceberg.control.topic"], sink["errors.deadletterqueue.topic.name"]} == set(
        KafkaConnect().topics(LOADS["append"])
    )
    assert sink["iceberg.control.commit.interval-ms"] == 10_000
    lines = KafkaConnect().files(LOADS["append"], tmp_path)["sink.properties"].splitlines()
    assert all(line.count("=") >= 1 for line in lines)


def test_flink_has_a_statement_for_each_batch(tmp_path):
    statements = Flink().statements(LOADS["upsert"], tmp_path, FILES)
    assert sum(one.startswith("INSERT") for one in statements) == 3
    assert all(str(file) in "".join(statements) for file in FILES.csv)


def test_flink_has_one_writer_for_a_partition():
    assert Flink().properties(LOADS["days"]) == {"write.distribution-mode": "hash"}
    assert Flink().properties(LOADS["upsert"]) == {"write.upsert.enabled": "true"}
    assert Flink().properties(LOADS["append"]) == {}


def test_a_folder_that_is_loaded_whole_is_one_statement(tmp_path):
    statements = Flink().statements(LOADS["csv"], tmp_path, LOADS["csv"].inputs)
    assert sum(one.startswith("INSERT") for one in statements) == 1
    assert "file:///data/csv/b'" in "".join(statements)
    files = SeaTunnel().files(LOADS["csv"], tmp_path)
    assert [name for name in files if name.startswith("load")] == ["load0.conf"]


def test_flink_reads_a_topic_up_to_its_end_unless_rows_keep_coming(tmp_path):
    for kind, is_bounded in (("append", True), ("trickle", False)):
        text = "".join(Flink().statements(LOADS[kind], tmp_path, TOPIC))
        assert ("scan.bounded.mode" in text) == is_bounded


def test_nested_types_have_the_words_of_flink(tmp_path):
    text = "".join(Flink().statements(LOADS["wide"], tmp_path, TOPIC))
    assert "address ROW<street STRING, city STRING, zip INT>" in text
    assert "items ARRAY<ROW<sku STRING, quantity INT, price DOUBLE>>" in text
    assert "amount DECIMAL(12,2)" in text


def test_types_are_renamed_whole():
    assert renamed("ARRAY<STRUCT<a: TIMESTAMP>>", {"STRUCT": "ROW", "TIMESTAMP": "T"}) == "ARRAY<ROW<a: T>>"
    assert renamed("DECIMAL(12,2)", {"DECIMAL(12,2)": "d"}) == "d"


def test_partitions_have_the_words_of_spark():
    assert spark_transform("day(ordered_at)") == "days(ordered_at)"
    assert spark_transform("bucket(16, id)") == "bucket(16, id)"
    assert spark_transform("region") == "region"


def test_seatunnel_has_a_configuration_for_each_file(tmp_path):
    files = SeaTunnel().files(LOADS["upsert"], tmp_path)
    assert [name for name in files if name.startswith("load")] == ["load0.conf", "load1.conf", "load2.conf"]
    assert "upsert-mode-enabled = true" in files["load0.conf"]
    assert "upsert" not in SeaTunnel().files(LOADS["append"], tmp_path)["load0.conf"]
    assert all(text.count("{") == text.count("}") for text in files.values())


def test_ingestr_is_told_the_types_of_the_columns(tmp_path):
    command = Ingestr().steps(LOADS["csv"], tmp_path)[0].command
    assert command[command.index("--columns") + 1].startswith("id:bigint,customer:string,")
    assert "--columns" not in Ingestr().steps(LOADS["bulk"], tmp_path)[0].command


def test_the_jars_of_the_peers_are_pinned_and_agree_with_ours():
    ours = {one.file_name: one.sha256 for one in jars.load()}
    for name in peers.PEERS:
        for component in peers.find(name).jars:
            assert jars.needed([component], LOCK)
    assert all(ours.get(one.file_name, one.sha256) == one.sha256 for one in jars.load(LOCK))


class Missing(Peer):
    name, takes = "missing", ("parquet",)

    def version(self):
        return "none"

    def install(self):
        raise CannotInstall("there is no such package")

    def files(self, load, folder):
        return {}

    def steps(self, load, folder):
        raise OSError("no such program")


def test_a_peer_that_cannot_be_installed_is_named_and_the_others_go_on(monkeypatch, capsys):
    known = {"missing": Missing(), "calve": peers.find("calve")}
    monkeypatch.setattr("bench.peers.__main__.find", known.get)
    found, missing = installed(["missing", "calve"])
    assert [peer.name for peer in found] == ["calve"]
    assert missing == {"missing": "cannot be installed: there is no such package"}
    assert "missing: cannot be installed" in capsys.readouterr().out


def test_a_peer_that_breaks_is_named_and_not_asked_again(tmp_path):
    stand = Stand(tmp_path, scale=0.00001)
    results = list(in_turn(stand, BulkParquet(), [Missing()], rounds=3))
    assert [one.wrong for one in results] == [["OSError: no such program"]]
    assert results[0].wall is None


def test_peers_take_turns(tmp_path):
    class Fake(BulkParquet):
        def run(self, stand, peer, number):
            return Result("W3", peer.name, number, wall=1.0, cpu=1.0, right=True)

    order = list(in_turn(Stand(tmp_path), Fake(), [peers.find("spark"), peers.find("calve")], 2))
    assert [(one.peer, one.round) for one in order] == [
        ("spark", 0), ("calve", 0), ("spark", 1), ("calve", 1)
    ]  # fmt: skip


def test_names_are_chosen_by_commas_spaces_and_stars():
    known = ["W1", "W1-steady", "W2", "W8-append-1", "W8-append-10"]
    assert chosen("W1,w2", known) == ["W1", "W2"]
    assert chosen("W8* W1", known) == ["W8-append-1", "W8-append-10", "W1"]
    assert chosen("all", known) == known
    with pytest.raises(SystemExit, match="'W3' is not known"):
        chosen("W3", known)
