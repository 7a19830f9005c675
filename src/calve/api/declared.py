"""Keys that a program gives become the models that declarations are made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from calve import pending
from calve.api import arguments
from calve.catalogs import Catalog
from calve.declare import words
from calve.errors import DeclarationError, UsageError
from calve.iceberg.name import TableName
from calve.model import Flaw, Model, Problem

M = TypeVar("M", bound=Model)


def built(model: type[M], keys: Mapping[str, Any], caller: str) -> M:
    """The model with these keys; raises DeclarationError, which names `caller` and each wrong key."""
    try:
        made = model.model_validate(dict(keys), context={"directory": os.getcwd()})
    except ValidationError as error:
        raise refused(words.flaws(error, dict(keys), model), caller) from None
    if flaws := made.flaws():
        raise refused(flaws, caller)
    return made


def refused(flaws: list[Flaw], caller: str) -> DeclarationError:
    """The error for keys that are wrong."""
    return DeclarationError([Problem(caller, 0, ".".join(map(str, one.path)), one.message) for one in flaws])


def refuse_pending(kind: str, keys: Mapping[str, Any], caller: str) -> None:
    """Raise DeclarationError for keys of an Iceberg source or sink that are not available yet."""
    entry = {f"{kind}s": {"one": {"connector": "iceberg", "config": dict(keys)}}}
    within = (f"{kind}s", "one", "config")
    flaws = [one for one in pending.flaws(entry) if one.path[:3] == within]
    if flaws:
        raise refused([Flaw(one.path[3:], one.message) for one in flaws], caller)


def catalog(given: object, caller: str) -> Catalog:
    """The catalog as it is declared; None stands for the embedded one in `warehouse`."""
    if isinstance(given, Catalog):
        return given
    if given is not None and not isinstance(given, Mapping):
        why = f"{given!r} is not a catalog; give its keys, such as {{'warehouse': 'lake'}}"
        raise UsageError(f"Cannot open a catalog: {why}")
    return built(Catalog, given or {}, caller)


def table_name(catalog_: str, text: str) -> TableName:
    """The table that `text`, such as `shop.orders`, names."""
    arguments.text(text, "find a table", "name it with its namespace, such as 'shop.orders'")
    *namespace, name = text.split(".")
    if not namespace or not all((name, *namespace)):
        raise UsageError(f"Cannot find table '{text}': name it with its namespace, such as 'shop.orders'")
    return TableName(catalog_, tuple(namespace), name)
