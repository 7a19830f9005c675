"""What the S3 stores of the tests have in common."""

from abc import abstractmethod

from tests.servers.process import Server

BUCKET = "lake"
KEY, SECRET = "tests", "tests-secret"
REGION = "us-east-1"


class S3Server(Server):
    """A store that speaks S3, with one bucket."""

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """Its address."""

    @property
    def file_io(self) -> dict[str, str]:
        """The properties by which Iceberg's FileIO reaches it."""
        return {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "client.region": REGION,
        }

    @property
    def declared(self) -> dict[str, object]:
        """The keys of a declaration by which Calve reaches it."""
        keys = {"access_key_id": KEY, "secret_access_key": SECRET}
        return {"endpoint": self.endpoint, "region": REGION, "path_style_access": True, **keys}
