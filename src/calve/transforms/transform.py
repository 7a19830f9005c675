"""The contract of a transform."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from calve.model import Model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Transform(Model, ABC):
    """What is done with the rows of a batch on their way from the source to the sink.

    A pipeline's loop calls `apply` once a batch, and again after a failure: it must make the same rows of
    the same rows. It sees one batch at a time, so it may not depend on rows of others.
    """

    is_code: ClassVar[bool] = False
    """Whether it is code, which may do to rows what no plan shows."""

    def named(self, names: Collection[str]) -> set[str]:
        """Those of `names`, columns that rows carry beside their values, that it names itself."""
        return set()

    @abstractmethod
    def apply(self, rows: DataFrame) -> DataFrame:
        """The rows that `rows` become; raises ConfigurationError where it cannot be done."""

    def warnings(self) -> list[str]:
        """What in it may differ when a batch is read again, a line each. Cheap, without Spark."""
        return []
