"""Starts ministack with what its S3 Tables lack of Amazon's: locations for new tables, and deletes."""

from typing import Any
from urllib.parse import unquote

from ministack import app
from ministack.services import s3, s3tables

_create, _answer = s3tables._iceberg_create_table, s3tables._handle_iceberg_request


def create(namespace: str, data: dict[str, Any], *more: Any, **named: Any) -> Any:
    """Java's client says `null` where nothing was asked for, and ministack takes that for the location."""
    asked = {key: value for key, value in data.items() if value is not None}
    return _create(namespace, asked, *more, **named)


async def answer(method: str, path: str, *more: Any) -> Any:
    """By the REST protocol ministack deletes nothing, though it can."""
    kind, prefix, rest = s3tables._iceberg_route(method, path) or ("", [], [])
    if method != "DELETE" or kind != "namespaces":
        return await _answer(method, path, *more)
    bucket = unquote("/".join(prefix))
    if len(rest) == 1:
        return s3tables._delete_namespace(bucket, rest[0])
    _delete_files(bucket, rest[0], rest[-1])
    return s3tables._delete_table(bucket, rest[0], rest[-1])


def _delete_files(bucket: str, namespace: str, name: str) -> None:
    """Amazon deletes a table's files with it; ministack would take them for those of the next of its name."""
    key = s3tables._table_key(s3tables._existing_bucket_arn(bucket), namespace, name)
    location = s3tables._tables.get(key, {}).get("metadataLocation", "").rpartition("/metadata/")[0]
    store, _, prefix = location.removeprefix("s3://").partition("/")
    if prefix:
        objects = s3._ensure_bucket(store)["objects"]
        for path in [path for path in objects if path.startswith(f"{prefix}/")]:
            del objects[path]


s3tables._iceberg_create_table, s3tables._handle_iceberg_request = create, answer
app.main()
