"""What a declaration of a table begins with: its catalog, and the stores that its files are in."""

from __future__ import annotations

from typing import cast

from pydantic import Field, model_validator

from calve.catalogs import Catalog
from calve.model import Flaw, Model
from calve.stores import S3, Azure, Gcs, Stores


class Placed(Model):
    """A table that is registered in a catalog and lies in stores."""

    catalog: Catalog = Field(default=cast(Catalog, {}), validate_default=True)
    """The catalog that the table is registered in. Left out: a SQLite catalog and files under `warehouse`,
    beside the declaration; nothing to install or start."""

    s3: S3 | None = None
    """How Amazon S3, or a store that speaks its protocol, is reached."""

    gcs: Gcs | None = None
    """How Google Cloud Storage is reached."""

    azure: Azure | None = None
    """How Azure Data Lake Storage is reached."""

    @model_validator(mode="after")
    def _catalog_in_stores(self) -> Placed:
        """Whoever has the catalog can open its files, and nobody else's."""
        stores = Stores(self.s3, self.gcs, self.azure)
        if stores.declared():
            self.__dict__["catalog"] = self.catalog.with_stores(stores)
        return self

    def place_flaws(self) -> list[Flaw]:
        """What is wrong with the catalog, the stores, and both together."""
        stores = self.catalog.stores.declared().items()
        inner = [flaw.under(name) for name, store in stores for flaw in store.flaws()]
        catalog = [flaw.under("catalog") for flaw in self.catalog.flaws()]
        return [*catalog, *inner, *self.catalog.store_flaws()]
