"""Reaches a host step by step with plain sockets: its name, a connection, and TLS."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass

from calve.addresses import host, is_loopback, is_metadata, port
from calve.errors import CalveError, ConfigurationError, NotPermitted, Unavailable

PATIENCE = 10.0


@dataclass(frozen=True)
class Endpoint:
    """One address of a server that is to be reached."""

    whose: str
    uri: str

    @property
    def is_tls(self) -> bool:
        return self.uri.lower().startswith("https:")

    def __str__(self) -> str:
        return f"{host(self.uri)}:{port(self.uri)}"


def resolve(endpoint: Endpoint) -> list[str]:
    """The addresses that the name of the host stands for."""
    name = host(endpoint.uri)
    if not name:
        raise ConfigurationError(f"Cannot resolve '{endpoint.uri}': it names no host")
    try:
        found = socket.getaddrinfo(name, port(endpoint.uri), type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise Unavailable(f"Cannot resolve '{name}': the name is not known") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if any(is_metadata(address) for address in addresses) and not is_loopback(name):
        raise ConfigurationError(
            f"Cannot use '{name}': it is where a cloud tells its machines their credentials"
        )
    return addresses


def connect(endpoint: Endpoint) -> None:
    """Connect and hang up."""
    with _connected(endpoint):
        pass


def shake_hands(endpoint: Endpoint) -> str:
    """Shake hands by TLS, as a client that trusts what this machine trusts; the version spoken."""
    name = host(endpoint.uri)
    with _connected(endpoint) as plain:
        try:
            with ssl.create_default_context().wrap_socket(plain, server_hostname=name) as secure:
                return secure.version() or "TLS"
        except ssl.SSLCertVerificationError as error:
            raise NotPermitted(
                f"Cannot trust '{name}': its certificate is refused: {error.verify_message}"
            ) from error
        except (ssl.SSLError, OSError) as error:
            raise Unavailable(f"Cannot speak TLS with '{endpoint}': {_reason(error)}") from error


def _connected(endpoint: Endpoint) -> socket.socket:
    try:
        return socket.create_connection((host(endpoint.uri), port(endpoint.uri)), PATIENCE)
    except OSError as error:
        raise _failure(endpoint, error) from error


def _failure(endpoint: Endpoint, error: OSError) -> CalveError:
    if isinstance(error, socket.gaierror):
        return Unavailable(f"Cannot resolve '{host(endpoint.uri)}': the name is not known")
    if isinstance(error, ConnectionRefusedError):
        return Unavailable(f"Cannot connect to '{endpoint}': connection refused")
    if isinstance(error, TimeoutError):
        return Unavailable(f"Cannot connect to '{endpoint}': timed out after {PATIENCE:.0f} s")
    return Unavailable(f"Cannot connect to '{endpoint}': {_reason(error)}")


def _reason(error: OSError) -> str:
    return (getattr(error, "reason", None) or error.strerror or str(error)).replace("_", " ").lower()
