"""How a Kafka client proves who it is: typed keys → client settings. Pure but for reading PEM files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo

from calve.errors import ConfigurationError
from calve.model import Flaw, Model, Secret, location

_BEGIN = "-----BEGIN"


def _pem(value: Any, info: ValidationInfo) -> Any:
    text = value.reveal() if isinstance(value, Secret) else value
    if isinstance(text, str) and text and _BEGIN not in text:
        return location(text, info)
    return value


Pem = Annotated[str, BeforeValidator(_pem)]
"""The text of a PEM file, or its path."""

SecretPem = Annotated[Secret, BeforeValidator(_pem)]
"""The text of a PEM file that is secret, or its path."""

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class KafkaSecurity(Model):
    """The keys of a Kafka source that concern security."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How brokers are talked to: with or without encryption (SSL) and a user name (SASL)."""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """How the user name and password are proven; needed with a SASL protocol."""

    username: str | None = Field(default=None, min_length=1)
    """The user name, with a SASL protocol."""

    password: Secret | None = None
    """The password, with a SASL protocol."""

    ssl_ca: Pem | None = None
    """The certificates that are trusted, as PEM text or the path of a PEM file; left out: those of Java."""

    ssl_cert: Pem | None = None
    """The client's own certificate chain, as PEM text or the path of a PEM file."""

    ssl_key: SecretPem | None = None
    """The client's own private key (PKCS #8, not encrypted), as PEM text or the path of a PEM file."""

    def security_flaws(self) -> list[Flaw]:
        """Keys that contradict the protocol or each other."""
        sasl = ("sasl_mechanism", "username", "password")
        ssl = ("ssl_ca", "ssl_cert", "ssl_key")
        found = self._unused(sasl, "SASL_", "SASL_SSL or SASL_PLAINTEXT") + self._unused(
            ssl, "SSL", "SSL or SASL_SSL"
        )
        if self.security_protocol.startswith("SASL_"):
            needed = [name for name in sasl if getattr(self, name) is None]
            found += [
                Flaw((name,), f"needed by security_protocol {self.security_protocol}") for name in needed
            ]
        if (self.ssl_cert is None) != (self.ssl_key is None):
            lacking = "ssl_key" if self.ssl_key is None else "ssl_cert"
            found.append(Flaw((lacking,), "ssl_cert and ssl_key are given together or not at all"))
        return found

    def _unused(self, names: tuple[str, ...], part: str, protocols: str) -> list[Flaw]:
        if part in self.security_protocol:
            return []
        given = [name for name in names if getattr(self, name) is not None]
        why = f"has no effect with security_protocol {self.security_protocol}; it needs {protocols}"
        return [Flaw((name,), why) for name in given]

    def security_settings(self) -> dict[str, str]:
        """The client settings; PEM files are read here, so that executors do not need them."""
        settings: dict[str, str] = {"security.protocol": self.security_protocol}
        if self.sasl_mechanism and self.username and self.password:
            settings["sasl.mechanism"] = self.sasl_mechanism
            settings["sasl.jaas.config"] = jaas(self.sasl_mechanism, self.username, self.password.reveal())
        if self.ssl_ca:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(self.ssl_ca)}
        if self.ssl_cert and self.ssl_key:
            settings["ssl.keystore.type"] = "PEM"
            settings["ssl.keystore.certificate.chain"] = _text(self.ssl_cert)
            settings["ssl.keystore.key"] = _text(self.ssl_key.reveal())
        return settings

    def librdkafka_settings(self) -> dict[str, str]:
        """The same for librdkafka, which wants the certificates that are trusted to be named."""
        settings: dict[str, str] = {"security.protocol": self.security_protocol}
        if self.sasl_mechanism and self.username and self.password:
            settings["sasl.mechanism"] = self.sasl_mechanism
            settings |= {"sasl.username": self.username, "sasl.password": self.password.reveal()}
        if self.ssl_ca:
            settings["ssl.ca.pem"] = _text(self.ssl_ca)
        if self.ssl_cert and self.ssl_key:
            settings["ssl.certificate.pem"] = _text(self.ssl_cert)
            settings["ssl.key.pem"] = _text(self.ssl_key.reveal())
        return settings


def jaas(mechanism: str, username: str, password: str) -> str:
    """What Java's login wants to know, with every character of the values kept as it is."""
    return f"{_MODULES[mechanism]} required username={_quoted(username)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


def _text(pem: str) -> str:
    if _BEGIN in pem:
        return pem
    try:
        return Path(pem).read_text()
    except OSError as error:
        raise ConfigurationError(f"Cannot read '{pem}': {error.strerror}") from error
