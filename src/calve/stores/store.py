"""What the stores have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from calve.model import Flaw, Model, Secret


class Store(Model, ABC):
    """One store as declared."""

    component: ClassVar[str]
    """The component of `jars.lock` that it needs."""

    allow_insecure: bool = False
    """Whether credentials may go to a plain `http` address of another machine, where others can read them."""

    instance_credentials: bool = False
    """Whether the address at which a cloud tells its machines their credentials may be asked. One store that
    asks is enough for all of a process."""

    @abstractmethod
    def file_io(self) -> dict[str, str]:
        """The properties of Iceberg's FileIO, secrets among them."""

    @property
    @abstractmethod
    def has_credentials(self) -> bool:
        """Whether the declaration says with which credentials it is opened."""

    def environment(self) -> dict[str, Secret]:
        """Environment variables of the process, for what no property can say."""
        return {}

    def addresses(self) -> tuple[str, ...]:
        """The addresses that it is declared to be at."""
        return ()

    def in_the_clear(self) -> tuple[str, ...]:
        """The addresses to which a credential itself is sent, not only a signature made with it."""
        return ()


def given(keys: dict[str, str | Secret | None]) -> dict[str, str]:
    """The properties that have a value."""
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in keys.items()
        if value is not None
    }


def beside(model: Model, first: str, *others: str) -> list[Flaw]:
    """A flaw for each of `others` that is given although `first` is."""
    if getattr(model, first) is None:
        return []
    return [
        Flaw((other,), f"stands beside '{first}'; keep one of the two")
        for other in others
        if getattr(model, other) is not None
    ]


def together(model: Model, *keys: str) -> list[Flaw]:
    """A flaw for each of `keys` that is missing although one of them is given."""
    values = {key: getattr(model, key) for key in keys}
    if all(value is None for value in values.values()):
        return []
    present = next(key for key, value in values.items() if value is not None)
    return [Flaw((key,), f"'{present}' needs it") for key, value in values.items() if value is None]


def needs(model: Model, key: str, other: str) -> list[Flaw]:
    """A flaw if `key` is given without `other`."""
    if getattr(model, key) is None or getattr(model, other) is not None:
        return []
    return [Flaw((key,), f"has no effect without '{other}'")]
