"""Google Cloud Storage."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, ValidationInfo

from calve.addresses import HttpAddress
from calve.model import Flaw, Secret, location
from calve.stores.store import Store, beside, given

KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
"""Where Google's libraries look for the key of a service account; Iceberg has no property for one."""

_PUBLIC = "https://storage.googleapis.com"


def _key(value: Any, info: ValidationInfo) -> Any:
    text = value.reveal() if isinstance(value, Secret) else value
    if isinstance(text, str) and text.strip() and not text.lstrip().startswith("{"):
        return location(text, info)
    return value


class Gcs(Store):
    """Google Cloud Storage."""

    component: ClassVar[str] = "gcp"

    project_id: str | None = Field(default=None, min_length=1)
    """The Google Cloud project; left out, the one of the service account."""

    service_account_key: Annotated[Secret, BeforeValidator(_key)] | None = None
    """The key of a service account, as JSON or the path of a JSON file; left out, the default credentials of
    the machine are used. A process can have one."""

    endpoint: HttpAddress | None = None
    """The address of a store other than Google's, such as an emulator at `http://localhost:4443`."""

    no_auth: bool | None = None
    """Whether the store is asked without credentials, as an emulator or a public bucket wants it."""

    def file_io(self) -> dict[str, str]:
        return given(
            {
                "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO",
                "gcs.project-id": self.project_id or self._project(),
                "gcs.service.host": self.endpoint,
                "gcs.no-auth": "true" if self.no_auth else None,
            }
        )

    @property
    def has_credentials(self) -> bool:
        return self.service_account_key is not None or bool(self.no_auth)

    def environment(self) -> dict[str, Secret]:
        return {KEY_FILE: self.service_account_key} if self.service_account_key else {}

    def addresses(self) -> tuple[str, ...]:
        return (self.endpoint or _PUBLIC,)

    def in_the_clear(self) -> tuple[str, ...]:
        return (self.endpoint,) if self.endpoint and not self.no_auth else ()

    def flaws(self) -> list[Flaw]:
        found = beside(self, "service_account_key", "no_auth") if self.no_auth else []
        wrong = self._document() is None
        return found + ([Flaw(("service_account_key",), "not the key of a service account")] if wrong else [])

    def _document(self) -> dict[str, Any] | None:
        """What the key says; nothing where it is the path of a file, None where it is no key."""
        text = self.service_account_key.reveal().strip() if self.service_account_key else ""
        if not text.startswith("{"):
            return {}
        try:
            found = json.loads(text)
        except ValueError:
            return None
        return found if {"client_email", "private_key"} <= set(found) else None

    def _project(self) -> str | None:
        found = (self._document() or {}).get("project_id")
        return found if isinstance(found, str) else None
