"""Object stores: where files are kept, as declared, and the FileIO properties that open them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calve.stores.azure import Azure
from calve.stores.gcs import Gcs
from calve.stores.s3 import S3
from calve.stores.store import Store

__all__ = ["S3", "Azure", "Gcs", "Store", "Stores"]

_RESOLVING = "org.apache.iceberg.io.ResolvingFileIO"


@dataclass(frozen=True)
class Stores:
    """The stores that one sink declares, each with credentials of its own."""

    s3: S3 | None = None
    gcs: Gcs | None = None
    azure: Azure | None = None

    def declared(self) -> dict[str, Store]:
        """Those that are declared, by the name of their section."""
        found: dict[str, Store | None] = {"s3": self.s3, "gcs": self.gcs, "azure": self.azure}
        return {name: store for name, store in found.items() if store is not None}

    def __iter__(self) -> Iterator[Store]:
        return iter(self.declared().values())

    def file_io(self) -> dict[str, str]:
        """The properties of Iceberg's FileIO, secrets among them; several stores are told apart by scheme."""
        found = {key: value for store in self for key, value in store.file_io().items()}
        return found | {"io-impl": _RESOLVING} if len(self.declared()) > 1 else found

    @property
    def have_credentials(self) -> bool:
        """Whether a store is opened with credentials that are declared, and not with what a catalog vends."""
        return any(store.has_credentials for store in self)
