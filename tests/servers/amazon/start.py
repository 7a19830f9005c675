"""Starts ministack. A table that is created without a location gets one, as Amazon gives it one."""

from typing import Any

from ministack import app
from ministack.services import s3tables

_create = s3tables._iceberg_create_table


def _create_as_amazon_does(namespace: str, data: dict[str, Any], *more: Any, **named: Any) -> Any:
    """Java's client says `null` where nothing was asked for, and ministack takes that for the location."""
    asked = {key: value for key, value in data.items() if value is not None}
    return _create(namespace, asked, *more, **named)


s3tables._iceberg_create_table = _create_as_amazon_does
app.main()
