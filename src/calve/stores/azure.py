"""Azure Data Lake Storage."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from calve.addresses import HttpAddress
from calve.model import Flaw, Secret
from calve.stores.store import Store, beside, given, together

_HOSTS = ("dfs.core.windows.net", "blob.core.windows.net")
_WAYS = ("access_key", "sas_token", "connection_string", "client_id")


def _account(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9]{3,24}", value):
        raise ValueError("not a storage account; 3 to 24 lower-case letters and digits")
    return value


class Azure(Store):
    """Azure Data Lake Storage."""

    component: ClassVar[str] = "azure"

    storage_account: Annotated[str, AfterValidator(_account)]
    """The name of the storage account."""

    access_key: Secret | None = None
    """The key of the storage account; left out, the default credentials of the machine are used."""

    sas_token: Secret | None = None
    """A shared access signature, in place of the key."""

    connection_string: Secret | None = None
    """A connection string with the key or a shared access signature, and perhaps the address."""

    tenant_id: str | None = Field(default=None, min_length=1)
    """The tenant of the application that `client_id` names."""

    client_id: str | None = Field(default=None, min_length=1)
    """The id of an application, in place of a key. A process can be one application."""

    client_secret: Secret | None = None
    """The secret of the application."""

    endpoint: HttpAddress | None = None
    """The address of a store other than Azure's, such as `http://localhost:10000/devstoreaccount1`."""

    def file_io(self) -> dict[str, str]:
        said = self._said()
        key = self.access_key or _secret(said.get("AccountKey"))
        sas = self.sas_token or _secret(said.get("SharedAccessSignature"))
        endpoint = self._endpoint()
        found: dict[str, str | Secret | None] = {
            "io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
            "adls.auth.shared-key.account.name": self.storage_account if key else None,
            "adls.auth.shared-key.account.key": key,
        }
        for host in _HOSTS:
            found[f"adls.sas-token.{self.storage_account}.{host}"] = sas and Secret(sas.reveal().lstrip("?"))
            found[f"adls.connection-string.{self.storage_account}.{host}"] = endpoint
        return given(found)

    @property
    def has_credentials(self) -> bool:
        return any(getattr(self, way) is not None for way in _WAYS)

    def environment(self) -> dict[str, Secret]:
        if self.client_id is None or self.tenant_id is None or self.client_secret is None:
            return {}
        return {
            "AZURE_TENANT_ID": Secret(self.tenant_id),
            "AZURE_CLIENT_ID": Secret(self.client_id),
            "AZURE_CLIENT_SECRET": self.client_secret,
        }

    def addresses(self) -> tuple[str, ...]:
        return (self._endpoint() or f"https://{self.storage_account}.{_HOSTS[0]}",)

    def in_the_clear(self) -> tuple[str, ...]:
        endpoint = self._endpoint()
        signed = self.access_key is not None or "AccountKey" in self._said()
        return (endpoint,) if endpoint and not signed else ()

    def flaws(self) -> list[Flaw]:
        ways = [(way, _WAYS[index + 1 :]) for index, way in enumerate(_WAYS)]
        return [
            *(flaw for way, others in ways for flaw in beside(self, way, *others)),
            *together(self, "tenant_id", "client_id", "client_secret"),
            *self._string_flaws(),
        ]

    def _string_flaws(self) -> list[Flaw]:
        if self.connection_string is None:
            return []
        said = self._said()
        if not {"AccountKey", "SharedAccessSignature"} & set(said):
            return [Flaw(("connection_string",), "has neither 'AccountKey' nor 'SharedAccessSignature'")]
        if said.get("AccountName", self.storage_account) != self.storage_account:
            return [Flaw(("connection_string",), "is of another account than 'storage_account'")]
        if self.endpoint and self._address():
            return [Flaw(("endpoint",), "'connection_string' has an address already; keep one of the two")]
        return []

    def _said(self) -> dict[str, str]:
        """The parts of the connection string."""
        text = self.connection_string.reveal() if self.connection_string else ""
        pairs = (part.partition("=") for part in text.split(";"))
        return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}

    def _address(self) -> str | None:
        said = self._said()
        return said.get("DfsEndpoint") or said.get("BlobEndpoint")

    def _endpoint(self) -> str | None:
        return self.endpoint or self._address()


def _secret(value: str | None) -> Secret | None:
    return Secret(value) if value else None
