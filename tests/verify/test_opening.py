"""The properties of a Spark catalog as PyIceberg wants them."""

from __future__ import annotations

import pytest

from calve.catalogs import Catalog
from calve.errors import ConfigurationError
from calve.stores import S3, Stores
from calve.verify import opening


def test_properties_are_renamed_and_what_only_spark_knows_is_left_out() -> None:
    declared = Catalog.model_validate(
        {"type": "rest", "rest": {"uri": "http://localhost:1", "username": "me", "password": "geheim"}}
    )
    keys = {"access_key_id": "a", "secret_access_key": "b", "region": "eu", "path_style_access": True}
    given = declared.with_stores(Stores(s3=S3.model_validate(keys))).spark_properties()
    assert opening.for_pyiceberg(given) == {
        "uri": "http://localhost:1",
        "auth": {"type": "basic", "basic": {"username": "me", "password": "geheim"}},
        "header.Cookie": "calve=1",
        "s3.region": "eu",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.path-style-access": "true",
        "s3.force-virtual-addressing": "false",
    }


def test_an_independent_reader_does_not_send_credentials_in_the_clear_either() -> None:
    declared = Catalog.model_validate(
        {"type": "rest", "rest": {"uri": "http://catalog.example.org", "credential": "geheim-token"}}
    )
    with pytest.raises(ConfigurationError, match="by plain http"):
        opening.rest(declared)
