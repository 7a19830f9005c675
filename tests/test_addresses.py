"""Hosts and locations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve import addresses


@pytest.mark.parametrize(
    "name",
    [
        *("169.254.169.254", "[fd00:ec2::254]", "fd00:ec2::254", "metadata.google.internal", "169.254.170.2"),
        *("100.100.100.200", "168.63.129.16", "[64:ff9b::a9fe:a9fe]", "169.254.0.1", "fe80::1%eth0"),
        *("::ffff:169.254.169.254", "2002:a9fe:a9fe::1"),
        *("metadata.google.internal.", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0xa9.254.43518"),
        *("::ffff:169.254.169.254", "METADATA.google.internal"),
    ],
)
def test_where_clouds_tell_credentials_is_known_in_every_spelling(name: str) -> None:
    assert addresses.is_metadata(name)


@pytest.mark.parametrize(
    "name", ["catalog.example.org", "127.0.0.1", "169.253.1.1", "1.2.3", "", "9999999999"]
)
def test_other_hosts_are_others(name: str) -> None:
    assert not addresses.is_metadata(name)


@pytest.mark.parametrize(
    ("uri", "is_open"),
    [
        ("http://catalog.example.org", True),
        ("HTTP://catalog.example.org", True),
        ("http://polaris:8181", True),
        ("http://localhost:8181", False),
        ("http://127.8.0.1", False),
        ("http://[::1]:80", False),
        ("http://127.0.0.1.example.org", True),
        ("http://localhost.example.org", True),
        ("http://me@localhost:1", False),
        ("http://localhost@example.org", True),
        ("https://catalog.example.org", False),
    ],
)
def test_plain_http_to_another_machine_is_open(uri: str, is_open: bool) -> None:
    assert addresses.is_open(uri) is is_open


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("s3://lake/shop/orders", "s3://lake"),
        ("s3a://lake/shop/orders", "s3://lake/shop"),
        ("file:/srv/lake/t", "/srv/lake"),
        ("file:///srv/lake/t", "/srv/lake/"),
        ("/srv/lake", "file:///srv/lake"),
        ("abfss://c@a.dfs.core.windows.net/w/t", "abfss://c@a.dfs.core.windows.net/w"),
        ("hdfs:///wh/t", "hdfs:///wh"),
        ("s3://lake//shop/./t", "s3://lake/shop"),
    ],
)
def test_a_location_inside(location: str, root: str) -> None:
    assert addresses.is_inside(location, [root])


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("s3://lake2/t", "s3://lake"),
        ("s3://lake/shopping", "s3://lake/shop"),
        ("s3://lake/shop/../other", "s3://lake/shop"),
        ("s3://lake/shop/%2e%2e/other", "s3://lake/shop"),
        ("s3://lake/shop/..\\other", "s3://lake/shop"),
        ("gs://lake/t", "s3://lake"),
        ("/etc/passwd", "/srv"),
        ("http://lake/t", "http://lake"),
        ("lake/t", "/lake"),
        ("", "/"),
        ("hdfs://other/wh/t", "hdfs:///wh"),
    ],
)
def test_a_location_outside(location: str, root: str) -> None:
    assert not addresses.is_inside(location, [root])


STEP = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=5)


@given(root=st.lists(STEP, max_size=3), more=st.lists(STEP, max_size=3), other=STEP)
def test_below_a_root_is_inside_and_a_neighbour_is_not(root: list[str], more: list[str], other: str) -> None:
    base = "/".join(["s3://lake", *root])
    assert addresses.is_inside("/".join([base, *more]), [base])
    assert not addresses.is_inside(f"{base}{other}/x", [base])
    assert not addresses.is_inside("/".join([base, *more, *[".."] * (len(more) + 1), other]), [base])


def test_the_store_of_a_location() -> None:
    kinds = {
        one: addresses.store_of(one) for one in ("s3n://b", "gs://b", "wasbs://b", "/x", "file:/x", "lake")
    }
    assert list(kinds.values()) == ["s3", "gcs", "azure", "local", "local", None]
    assert addresses.store_of("tabular://my-org/lake") is None
    assert addresses.store_of("arn:aws:s3tables:eu:1:bucket/b") is None


@pytest.mark.parametrize(
    ("location", "path"),
    [("file:/a/b", "/a/b"), ("file:///a/b", "/a/b"), ("/a/b", "/a/b"), ("s3://a/b", None)],
)
def test_paths_of_this_machine(location: str, path: str | None) -> None:
    assert addresses.local_path(location) == path
