"""What a whole process has to be told, because no property of a catalog can say it: environment variables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field

from calve.catalogs import Catalog
from calve.errors import ConfigurationError
from calve.model import Secret
from calve.runtime import scratch
from calve.stores.gcs import KEY_FILE

CLOSED = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_GCE_CHECK": "true",
    "AZURE_TOKEN_CREDENTIALS": "dev",
}
"""By these the libraries of the clouds leave alone the addresses at which machines are told credentials."""

_APPLICATION = "AZURE_CLIENT_ID"


@dataclass(frozen=True)
class Surroundings:
    """The environment that catalogs and stores want the process to have."""

    variables: Mapping[str, Secret] = field(default_factory=dict)
    asks_instance: bool = False

    def environment(self) -> dict[str, str]:
        """The variables with their values; the addresses of clouds stay closed unless they are asked for."""
        found = {name: value.reveal() for name, value in self.variables.items()}
        if self.asks_instance:
            return found
        closed = dict(CLOSED)
        if _APPLICATION in found or os.environ.get(_APPLICATION):
            # The only other value that Azure knows; the application of the environment comes first in it.
            closed["AZURE_TOKEN_CREDENTIALS"] = "prod"
        return {**closed, **found}

    def apply(self, is_local: bool = True, environ: MutableMapping[str, str] = os.environ) -> dict[str, str]:
        """Change `environ`, and return what executors on other machines need to be told."""
        found = self.environment()
        key = found.get(KEY_FILE, "")
        if key.lstrip().startswith("{"):
            if not is_local:
                raise ConfigurationError(
                    "Cannot start Spark on a cluster with 'service_account_key' as JSON: name a file that "
                    "every machine has"
                )
            found[KEY_FILE] = str(scratch.write_private(key, "service-account.json"))
        environ.update(found)
        return {} if is_local else {f"spark.executorEnv.{name}": value for name, value in found.items()}


def of(catalogs: Iterable[Catalog]) -> Surroundings:
    """What `catalogs` want together; raises ConfigurationError where two of them want different things."""
    variables: dict[str, Secret] = {}
    asks = False
    for catalog in catalogs:
        asks = asks or catalog.asks_instance
        for name, value in catalog.environment().items():
            if variables.setdefault(name, value) != value:
                raise ConfigurationError(
                    f"Cannot open {catalog.description()} beside another catalog: each wants its own {name}, "
                    "and a process can have one"
                )
    return Surroundings(variables, asks)
