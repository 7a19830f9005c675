"""A Hive metastore on the loopback interface, from the jars of Spark, with Derby behind it."""

from importlib.util import find_spec
from pathlib import Path

from tests.servers.process import Server, class_path, free_port, is_open

LAUNCHER = Path(__file__).with_name("HiveServer.java")
_JVM = [
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.net", "java.util", "java.util.concurrent")
    ),
]


class HiveMetastore(Server):
    """A Hive metastore with locks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def command(self) -> list[str]:
        (self.folder / "hive-site.xml").write_text(_xml(self._settings()))
        (self.folder / "log4j2.properties").write_text("rootLogger.level = warn\n")
        spark = find_spec("pyspark")
        assert spark is not None
        jars = Path(str(spark.origin)).parent / "jars"
        path = ":".join([str(self.folder), class_path("hive"), f"{jars}/*"])
        return [*_JVM, "-cp", path, str(LAUNCHER), str(self.port)]

    def _settings(self) -> dict[str, str]:
        return {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self.folder}/metastore;create=true",
            "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": self.warehouse.as_uri(),
            "hive.support.concurrency": "true",
            "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
            # A class that this needs is not among the jars of Spark.
            "hive.async.log.enabled": "false",
        }

    def is_ready(self) -> bool:
        return is_open(self.port)


def _xml(settings: dict[str, str]) -> str:
    lines = (
        f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items()
    )
    return f"<configuration>{''.join(lines)}</configuration>"
