"""The Kafka source on a broker that wants a password, a certificate and TLS: both clients prove the same."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calve.errors import CalveError, NotPermitted
from calve.gateway import WorkerError, classify, translated
from calve.sources import kafka_consumer
from calve.sources.kafka import KafkaSource
from calve.sources.kafka_position import Range
from calve.sources.kafka_records import ByWorkers
from calve.sources.source import Limits
from tests.servers.kafka import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = "broker-side-password"
SECRET = 'pass;"word\\of-the-client'
LISTENER = "listener.name.sasl_ssl"
ONLY_JAVA = {"socket.connection.setup.timeout.max.ms": "30000"}


class SecuredBroker(KafkaBroker):
    """A broker with one listener, SASL_SSL, which wants certificates of its clients."""

    def _format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.broker, self.client = self._pair("broker"), self._pair("client")
        for name, pair in (("broker", self.broker), ("client", self.client)):
            store = ["-keystore", self.folder / "trust", "-alias", name]
            self._keytool("-importcert", "-noprompt", "-file", pair["cert"], *store)
        super()._format()

    def lines(self) -> dict[str, Any]:
        quoted = SECRET.replace("\\", "\\\\").replace('"', '\\"')
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        users = f'username="admin" password="{PASSWORD}" user_admin="{PASSWORD}" user_me="{quoted}";'
        return {
            "listeners": f"SASL_SSL://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller}",
            "advertised.listeners": f"SASL_SSL://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"{LISTENER}.sasl.enabled.mechanisms": "PLAIN",
            f"{LISTENER}.plain.sasl.jaas.config": f"{login} {users}".replace("\\", "\\\\"),
            f"{LISTENER}.ssl.client.auth": "required",
            "ssl.keystore.location": self.broker["store"],
            "ssl.keystore.password": PASSWORD,
            "ssl.truststore.location": self.folder / "trust",
            "ssl.truststore.password": PASSWORD,
        }

    def _pair(self, name: str) -> dict[str, Path]:
        """A key, and the certificate that it has signed itself."""
        store, cert = self.folder / f"{name}.p12", self.folder / f"{name}.pem"
        named = ["-alias", name, "-keystore", store]
        made = ["-keyalg", "RSA", "-validity", "9", "-dname", f"CN={name}", "-ext", "SAN=IP:127.0.0.1"]
        self._keytool("-genkeypair", *named, *made)
        self._keytool("-exportcert", "-rfc", *named, "-file", cert)
        return {"store": store, "cert": cert}

    def _keytool(self, *arguments: Any) -> None:
        tool = Path(self.java).resolve().with_name("keytool")
        stored = ["-storetype", "PKCS12", "-storepass", PASSWORD]
        subprocess.run([tool, *map(str, arguments), *stored], check=True, capture_output=True)

    def _client(self, **more: Any) -> dict[str, Any]:
        proof = {"sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": SECRET}
        own = {"ssl.keystore.location": str(self.client["store"]), "ssl.keystore.password": PASSWORD}
        trust = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.broker["cert"])}
        return super()._client(**proof, **own, **trust, **more)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    broker.start()
    yield broker
    broker.remove()


@pytest.fixture(scope="module")
def key(spark: SparkSession, secured: SecuredBroker) -> str:
    """The key of the client as PEM; Java takes it out of the store."""
    jvm: Any = spark.sparkContext._jvm
    password: Any = spark.sparkContext._gateway.new_array(jvm.char, len(PASSWORD))
    for index, character in enumerate(PASSWORD):
        password[index] = character
    security = jvm.java.security
    store = security.KeyStore.getInstance(jvm.java.io.File(str(secured.client["store"])), password)
    kind = jvm.java.lang.Class.forName("java.security.spec.PKCS8EncodedKeySpec")
    found = security.KeyFactory.getInstance("RSA").getKeySpec(store.getKey("client", password), kind)
    text = base64.encodebytes(bytes(found.getEncoded())).decode()
    return f"-----BEGIN PRIVATE KEY-----\n{text}-----END PRIVATE KEY-----\n"


@pytest.fixture
def keys(secured: SecuredBroker, key: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": secured.bootstrap,
        "format": "text",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "username": "me",
        "password": SECRET,
        "ssl_ca": str(secured.broker["cert"]),
        "ssl_cert": str(secured.client["cert"]),
        "ssl_key": key,
    }


@pytest.fixture
def topic(secured: SecuredBroker) -> str:
    name = f"secured.{uuid.uuid4().hex[:8]}"
    secured.create_topic(name)
    secured.produce(name, ["a", "b"])
    return name


@pytest.mark.parametrize("options", [{}, ONLY_JAVA])
def test_both_clients_prove_who_they_are(
    spark: SparkSession, topic: str, keys: dict[str, Any], options: dict[str, str]
) -> None:
    reader = KafkaSource.model_validate({**keys, "topics": [topic], "options": options})
    start = reader.start()
    frame = reader.read(spark, start, reader.latest(start, Limits(100)).to)
    with translated("read Kafka"):
        assert sorted(row.value for row in frame.collect()) == ["a", "b"]
    assert (reader.why_java() is None) == (not options)
    if not options:
        plan = frame._jdf.queryExecution().toString()
        assert not any(one in plan for one in (SECRET, "of-the-client", "PRIVATE KEY"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"password": "another-password"}, "uthentication"),
        ({"ssl_ca": "client"}, "certificate verify failed"),
    ],
)
def test_who_proves_nothing_is_not_permitted_to_read(
    secured: SecuredBroker, topic: str, keys: dict[str, Any], wrong: dict[str, str], why: str
) -> None:
    if "ssl_ca" in wrong:
        wrong = {"ssl_ca": str(secured.client["cert"])}
    reader = KafkaSource.model_validate({**keys, **wrong, "topics": [topic]})._reader()
    assert isinstance(reader, ByWorkers)
    with pytest.raises(WorkerError) as caught:
        list(kafka_consumer._blocks([Range(topic, 0, 0, 2)], reader.client, None))
    found: CalveError = classify(f"PythonException: {caught.value}", "read Kafka")
    assert type(found) is NotPermitted
    assert why in str(found)
    assert "another-password" not in str(found)
