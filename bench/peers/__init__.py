"""The peers: one file each, found by name."""

from __future__ import annotations

from importlib import import_module

from bench.peers.peer import Peer

PEERS = {
    "calve": "calve:Calve",
    "calve-equality": "calve:CalveEquality",
    "spark": "spark:HandWrittenSpark",
    "spark-merge-on-read": "spark:MergeOnReadSpark",
    "kafka-connect": "connect:KafkaConnect",
    "flink": "flink:Flink",
    "ingestr": "ingestr:Ingestr",
    "pyiceberg": "pyiceberg:PyIceberg",
    "dlt": "dlt:Dlt",
    "seatunnel": "seatunnel:SeaTunnel",
}


def find(name: str) -> Peer:
    """A peer by its name."""
    module, _, kind = PEERS[name].partition(":")
    made: Peer = getattr(import_module(f"bench.peers.{module}"), kind)()
    assert made.name == name, f"{kind} is called {made.name}"
    return made
