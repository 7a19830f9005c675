"""What a declaration may set Spark to."""

from __future__ import annotations

import pytest

from calve.spark_settings import is_secret, refusal


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.pyspark.python", "/x/evil.sh"),
        ("spark.pyspark.driver.python", "/x/evil.sh"),
        ("spark.python.daemon.module", "evil"),
        ("spark.python.worker.module", "evil"),
        ("spark.driver.extraJavaOptions", "-XX:Flags=/x/flags"),
        ("spark.driver.extraJavaOptions", "-XX:VMOptionsFile=/x/options"),
        ("spark.driver.extraJavaOptions", "@/x/arguments"),
        ("spark.driver.extraJavaOptions", "-Dlog4j2.configurationFile=http://evil.example/x.xml"),
        ("spark.driver.extraJavaOptions", "-Dcom.sun.management.jmxremote.port=9"),
        ("spark.driver.extraJavaOptions", "-XX:OnOutOfMemoryError=/x/evil.sh"),
        ("spark.driver.extraJavaOptions", "-Xmx1g -agentlib:jdwp=transport=dt_socket,server=y"),
        ("spark.executor.extraJavaOptions", "-javaagent:/x.jar"),
        ("spark.shuffle.manager", "com.example.Manager"),
        ("spark.shuffle.sort.io.plugin.class", "com.example.Plugin"),
        ("spark.hadoop.fs.file.impl", "com.example.FileSystem"),
        ("spark.hadoop.fs.s3a.impl", "com.example.FileSystem"),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", "com.example.Provider"),
        ("spark.hadoop.net.topology.script.file.name", "/x/evil.sh"),
        ("spark.executor.resource.gpu.discoveryScript", "/x/evil.sh"),
        ("spark.driver.resource.gpu.discoveryScript", "/x/evil.sh"),
        ("spark.ui.filters", "com.example.Filter"),
        ("spark.kubernetes.executor.podTemplateFile", "/x/pod.yaml"),
        ("spark.kubernetes.executor.volumes.hostPath.root.mount.path", "/host"),
        ("spark.kubernetes.executor.pod.featureSteps", "com.example.Step"),
        ("spark.driver.bindAddress", "0.0.0.0"),
        ("spark.driver.host", "10.0.0.1"),
        ("spark.io.compression.codec", "com.example.Codec"),
        ("spark.eventLog.compression.codec", "com.example.Codec"),
        ("spark.sql.sources.commitProtocolClass", "com.example.Protocol"),
        ("spark.sql.sources.outputCommitterClass", "com.example.Committer"),
        ("spark.sql.streaming.stateStore.providerClass", "com.example.Provider"),
        ("spark.sql.streaming.streamingQueryListeners", "com.example.Listener"),
        ("spark.sql.hive.metastore.jars", "/x"),
        ("spark.sql.cache.serializer", "com.example.Serializer"),
        ("spark.scheduler.allocation.file", "/x/pools.xml"),
        ("spark.serializer", "com.example.Serializer"),
        ("spark.submit.pyFiles", "/x/evil.py"),
        ("spark.files", "/etc/passwd"),
        ("spark.executorEnv.LD_PRELOAD", "/x/evil.so"),
        ("spark.sql.files.anything", "a.b.Name"),
    ],
)
def test_a_setting_that_runs_code_or_opens_the_machine_is_refused_unless_that_is_allowed(
    name: str, value: str
) -> None:
    why = refusal(name, value, is_local=True)
    assert why is not None
    assert why.startswith("cannot be set here: ")
    assert "allow_unsafe_config: true" in why
    assert refusal(name, value, is_local=True, allow_unsafe=True) is None


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.executor.memory", "8g"),
        ("spark.sql.shuffle.partitions", "8"),
        ("spark.sql.adaptive.enabled", "true"),
        ("spark.sql.files.maxPartitionBytes", "128m"),
        ("spark.sql.execution.arrow.maxBytesPerBatch", "64m"),
        ("spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.ColumnPruning"),
        ("spark.sql.streaming.stateStore.maintenanceInterval", "60s"),
        ("spark.dynamicAllocation.maxExecutors", "10"),
        ("spark.kubernetes.container.image", "registry.example.org/spark:4"),
        ("spark.kubernetes.namespace", "data"),
        ("spark.kubernetes.authenticate.driver.serviceAccountName", "spark"),
        ("spark.yarn.queue", "etl"),
        ("spark.hadoop.fs.s3a.endpoint", "https://s3.example.org"),
        ("spark.hadoop.fs.s3a.secret.key", "x"),
        (
            "spark.hadoop.fs.s3a.aws.credentials.provider",
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        ),
        ("spark.hadoop.dfs.nameservices", "lake"),
        (
            "spark.hadoop.dfs.client.failover.proxy.provider.lake",
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
        ),
        ("spark.io.compression.codec", "zstd"),
        ("spark.eventLog.dir", "file:///var/log/spark"),
        ("spark.driver.extraJavaOptions", "-Xss4m -XX:+UseG1GC -XX:MaxGCPauseMillis=200 -Duser.timezone=UTC"),
        ("spark.ui.enabled", "true"),
        ("spark.network.timeout", "300s"),
        ("spark.local.dir", "/scratch"),
    ],
)
def test_what_tunes_spark_or_finds_a_cluster_is_taken(name: str, value: str, is_local: bool) -> None:
    assert refusal(name, value, is_local=is_local) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.pyspark.python", "/opt/venv/bin/python"),
        ("spark.driver.host", "10.0.0.1"),
        ("spark.driver.bindAddress", "0.0.0.0"),
        ("spark.authenticate", "true"),
        ("spark.authenticate.secret.file", "/etc/spark/secret"),
    ],
)
def test_what_only_a_cluster_needs_is_taken_there(name: str, value: str) -> None:
    assert refusal(name, value, is_local=False) is None
    assert refusal(name, value, is_local=True)


@pytest.mark.parametrize("name", ["spark.master", "spark.jars.packages", "spark.sql.catalog.x", "x.y"])
def test_what_calve_sets_itself_is_never_taken(name: str) -> None:
    assert refusal(name, "x", is_local=True, allow_unsafe=True)


def test_secrets_are_known_by_their_names() -> None:
    assert is_secret("spark.hadoop.fs.s3a.secret.key")
    assert is_secret("spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net")
    assert is_secret("spark.ssl.keyStorePassword")
    assert is_secret("spark.executorEnv.AZURE_CLIENT_SECRET")
    assert not is_secret("spark.executor.memory")
