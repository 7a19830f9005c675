"""Where tables may lie."""

from __future__ import annotations

import pytest

from calve.errors import ConfigurationError
from calve.trust import Policy, locations

KNOWN = Policy(catalog="c", roots=("s3://lake/wh", "s3://more"), local=False)
NAMED = Policy(catalog="c", roots=(), local=False)


@pytest.mark.parametrize(
    ("policy", "location", "paths"),
    [
        (KNOWN, "s3://lake/wh/shop/orders", {}),
        (KNOWN, "s3a://more/orders", {"write.data.path": "s3://lake/wh/data"}),
        (NAMED, "s3://anything/shop/orders", {"write.data.path": "s3://anything/shop/orders/d"}),
        (Policy(catalog="c"), "file:/srv/lake/orders", {}),
    ],
)
def test_a_table_in_its_place(policy: Policy, location: str, paths: dict[str, str]) -> None:
    assert list(locations.refusals(policy, location, paths)) == []


@pytest.mark.parametrize(
    ("policy", "location", "paths", "why"),
    [
        (KNOWN, "s3://lake/other", {}, "it lies in 's3://lake/other', outside of the warehouse"),
        (KNOWN, "s3://lake/wh/../x", {}, "outside of the warehouse"),
        (KNOWN, "file:///etc", {}, "outside of the warehouse"),
        (KNOWN, "s3://lake/wh/t", {"write.data.path": "s3://evil/d"}, "'write.data.path' is 's3://evil/d'"),
        (KNOWN, "s3://lake/wh/t", {"write.metadata.path": "/tmp/m"}, "'write.metadata.path'"),
        (KNOWN, "s3://lake/wh/t", {"write.object-storage.path": "s3://e"}, "'write.object-storage.path'"),
        (KNOWN, "s3://lake/wh/t", {"write.folder-storage.path": "s3://e"}, "'write.folder-storage.path'"),
        (NAMED, "file:///etc/calve", {}, "which is on this machine"),
        (NAMED, "http://evil/t", {}, "is not a location"),
        (NAMED, "s3://a/../b", {}, "is not a location"),
        (NAMED, "s3://anything/t", {"write.data.path": "s3://evil/d"}, "'write.data.path'"),
    ],
)
def test_a_table_elsewhere(policy: Policy, location: str, paths: dict[str, str], why: str) -> None:
    (found,) = locations.refusals(policy, location, paths)
    assert why in found
    with pytest.raises(ConfigurationError, match=r"Cannot use table 'shop.orders'"):
        locations.refuse(policy, "shop.orders", location, paths)


def test_a_class_that_says_where_files_lie_is_refused_unless_it_is_allowed() -> None:
    said = {locations.PROVIDER: "com.evil.Provider"}
    (why,) = locations.refusals(KNOWN, "s3://lake/wh/t", said)
    assert "we load no code" in why
    allowing = Policy(catalog="c", roots=KNOWN.roots, properties=(locations.PROVIDER,))
    assert list(locations.refusals(allowing, "s3://lake/wh/t", said)) == []


def test_a_file_of_this_machine_is_not_taken_for_one_of_a_table_elsewhere() -> None:
    inside = ["s3://lake/wh/t/a.parquet", "s3://anywhere/b.parquet"]
    locations.refuse_files(KNOWN, "shop.t", "s3://lake/wh/t", inside)
    locations.refuse_files(NAMED, "shop.t", "file:/srv/t", ["/srv/t/data/a.parquet", "file:///srv/t/b"])
    for file in ("file:///etc/passwd", "/etc/passwd", "file:/srv/t/../../etc/passwd"):
        with pytest.raises(ConfigurationError, match="on this machine, outside of the warehouse"):
            locations.refuse_files(NAMED, "shop.t", "file:/srv/t", [file])
        with pytest.raises(ConfigurationError, match="on this machine, outside of the warehouse"):
            locations.refuse_files(KNOWN, "shop.t", "s3://lake/wh/t", [*inside, file])
