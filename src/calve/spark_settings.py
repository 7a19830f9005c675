"""Which settings of Spark a declaration may hold. Pure.

A list of what is allowed, because Spark has hundreds of settings and each release adds some. Many of them
name a class, a program or a script that is run, or an address at which others are let in.
"""

from __future__ import annotations

import re

_OWNED = {
    "spark.master": "use 'master'",
    "spark.driver.memory": "use 'driver_memory'",
    "spark.app.name": "Calve sets it",
    "spark.jars": "Calve brings the jars it needs",
    "spark.sql.session.timeZone": "it is always UTC",
    "spark.sql.variable.substitute": "it is always off",
    "spark.sql.extensions": "Calve sets it",
    "spark.redaction.regex": "Calve sets it",
    "spark.ui.showConsoleProgress": "Calve shows its own progress",
}
_OWNED_PREFIXES = {
    "spark.jars.": "Calve brings the jars it needs",
    "spark.sql.catalog.": "catalogs are declared with the sink",
    "spark.sql.redaction.": "Calve sets it",
}

_NAMES = frozenset(
    f"spark.{name}"
    for name in (
        *("default.parallelism", "cores.max", "port.maxRetries", "local.dir", "speculation", "authenticate"),
        *("blockManager.port", "driver.blockManager.port", "driver.port"),
        *("executor.memory", "executor.memoryOverhead", "executor.memoryOverheadFactor", "executor.cores"),
        *("executor.minMemoryOverhead", "executor.instances", "executor.heartbeatInterval"),
        *("executor.pyspark.memory", "executor.maxNumFailures", "executor.failuresValidityInterval"),
        *("executor.extraJavaOptions", "driver.extraJavaOptions", "driver.cores", "driver.maxResultSize"),
        *("driver.memoryOverhead", "driver.memoryOverheadFactor", "driver.minMemoryOverhead"),
        *("python.worker.memory", "python.worker.reuse", "python.worker.faulthandler.enabled"),
        *("python.authenticate.socketTimeout", "python.task.killTimeout"),
        *("sql.autoBroadcastJoinThreshold", "sql.broadcastTimeout", "sql.caseSensitive"),
        *("sql.crossJoin.enabled", "sql.defaultSizeInBytes", "sql.mapKeyDedupPolicy"),
        *("sql.maxPlanStringLength", "sql.storeAssignmentPolicy", "sql.timestampType"),
        *("ui.enabled", "ui.port", "ui.retainedJobs", "ui.retainedStages", "ui.retainedTasks"),
        *("ui.killEnabled", "ui.liveUpdate.period", "ui.dagGraph.retainedRootRDDs", "ui.timelineEnabled"),
        *("yarn.queue", "yarn.tags", "yarn.priority", "yarn.maxAppAttempts", "yarn.stagingDir"),
        *("yarn.am.memory", "yarn.am.memoryOverhead", "yarn.am.cores", "yarn.am.nodeLabelExpression"),
        *("yarn.executor.nodeLabelExpression", "yarn.max.executor.failures", "yarn.submit.file.replication"),
        *("kerberos.principal", "kerberos.keytab", "kerberos.access.hadoopFileSystems"),
        *("kerberos.relogin.period", "hadoop.fs.defaultFS"),
        *("hadoop.hadoop.security.authentication", "hadoop.hadoop.security.authorization"),
        *("hadoop.hadoop.rpc.protection", "hadoop.io.file.buffer.size"),
    )
)
_PREFIXES = tuple(
    f"spark.{prefix}."
    for prefix in (
        *("sql.adaptive", "sql.ansi", "sql.avro", "sql.cbo", "sql.codegen", "sql.csv", "sql.datetime"),
        *("sql.debug", "sql.decimalOperations", "sql.execution.arrow", "sql.execution.pyspark"),
        *("sql.execution.pythonUDF", "sql.execution.pythonUDTF", "sql.files", "sql.iceberg"),
        *("sql.inMemoryColumnarStorage", "sql.join", "sql.json", "sql.jsonGenerator", "sql.legacy"),
        *("sql.optimizer", "sql.orc", "sql.parquet", "sql.pyspark", "sql.shuffle", "sql.sort"),
        *("sql.sources", "sql.statistics", "sql.streaming", "sql.ui", "sql.window", "sql.xml"),
        *("memory", "shuffle", "network", "rpc", "task", "scheduler", "locality", "speculation", "stage"),
        *("dynamicAllocation", "eventLog", "io", "broadcast", "reducer", "storage", "cleaner", "rdd"),
        *("excludeOnFailure", "authenticate", "ssl", "kryoserializer", "files", "decommission"),
        *("executor.resource", "driver.resource", "task.resource", "executor.logs.rolling", "kubernetes"),
        *("hadoop.dfs", "hadoop.fs.s3a", "hadoop.fs.gs", "hadoop.fs.azure", "hadoop.google.cloud"),
        *("hadoop.mapreduce.fileoutputcommitter", "hadoop.ipc.client", "hadoop.yarn.resourcemanager"),
    )
)
_CODE = re.compile(
    r"class(?:es|Name|path)?$|\.class\.|[a-z]Class(?:es|Path)?$|\.impl$|plugin|listeners?$|filters?$|factory"
    r"|\.manager$|script|vendor$|template|featureSteps|hostPath|extension|module$|command|\.jars$"
    r"|scheduler\.allocation\.file$",
    re.IGNORECASE,
)
"""Names, or parts of them, by which Spark and Hadoop load classes, or run or open what is on the machine."""

_CLASS = re.compile(r"(?:^|[,;\s])(?:[a-z_]\w*\.)+[A-Z]\w*")
_CLASSES_OF = re.compile(r"spark\.sql\.optimizer\.excludedRules|spark\.hadoop\..*\.providers?(?:\.[\w-]+)?")
"""Settings whose values are names of classes: rules to leave out, and what Hadoop itself brings."""
_OF_HADOOP = re.compile(r"(?:(?:org\.apache\.hadoop|software\.amazon\.awssdk\.auth)\.[\w.$]+[,\s]*)+")

_ON_CLUSTERS = ("spark.driver.host", "spark.driver.bindAddress", "spark.pyspark.python")
"""Settings that a cluster needs, and that let others in, or run another program, on this machine."""

_JAVA_OPTION = re.compile(
    r"-Xm[snx]\d+[kmgt]?|-Xss\d+[kmg]?|-Xshare:(?:auto|on|off)|-Xlog:disable|-Xint"
    r"|-XX:[+-](?:Use\w+GC|UseStringDeduplication|AlwaysPreTouch|UseContainerSupport|UseNUMA"
    r"|UseCompressedOops|UseLargePages|UseTransparentHugePages|TieredCompilation|DisableExplicitGC"
    r"|ExitOnOutOfMemoryError|CrashOnOutOfMemoryError|ExplicitGCInvokesConcurrent|ParallelRefProcEnabled)"
    r"|-XX:(?:\w*(?:HeapSize|MetaspaceSize|DirectMemorySize|RAMPercentage|CodeCacheSize|StackSize|RegionSize"
    r"|Threads|Percent|PauseMillis|Ratio|ProcessorCount|TieredStopAtLevel))=[\d.]+[kmgt]?"
    r"|-D(?:user\.timezone|file\.encoding|java\.net\.preferIPv[46](?:Stack|Addresses)|https\.protocols"
    r"|jdk\.tls\.client\.protocols|sun\.net\.inetaddr\.(?:negative\.)?ttl|java\.security\.krb5\.\w+"
    r"|javax\.net\.ssl\.trustStore(?:Type)?)=\S+",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"secret|password|token|credential|access[._-]?key|account\.key|jaas|authorization|connection-string|sas\b",
    re.IGNORECASE,
)
_CODECS = ("lz4", "lzf", "snappy", "zstd", "none", "uncompressed", "gzip")

_ADVICE = "write 'allow_unsafe_config: true' beside 'config' if whoever writes the declaration may do that"


def refusal(name: str, value: str, *, is_local: bool, allow_unsafe: bool = False) -> str | None:
    """Why a declaration may not set `name` to `value`; None where it may."""
    owner = _OWNED.get(name) or next(
        (why for prefix, why in _OWNED_PREFIXES.items() if name.startswith(prefix)), None
    )
    if owner:
        return f"cannot be set here: {owner}"
    if not name.startswith("spark."):
        return "not a setting of Spark; it begins with 'spark.'"
    if is_local and name.startswith("spark.authenticate"):
        return "cannot be set here: it is always on where Spark works on this machine"
    if allow_unsafe:
        return None
    why = _unsafe(name, value, is_local)
    return f"cannot be set here: {why}; {_ADVICE}" if why else None


def _unsafe(name: str, value: str, is_local: bool) -> str | None:
    if name in _ON_CLUSTERS:
        if is_local:
            return "it runs another program" if "python" in name else "it opens Spark to other machines"
        return "it names a program with arguments" if re.search(r"\s", value) else None
    if name not in _NAMES and not name.startswith(_PREFIXES):
        return "it is not among the settings that are known to run no code and to let nobody in"
    if name.endswith("extraJavaOptions"):
        return _java_options(value)
    if _CODE.search(name):
        return "it loads code, or opens files of the machine"
    if name.endswith("compression.codec") and value.lower() not in _CODECS:
        return f"it loads code: one of {', '.join(_CODECS)} is a codec"
    if _CLASS.search(value) and not _is_known_class(name, value):
        return "its value is the name of a class"
    return None


def _is_known_class(name: str, value: str) -> bool:
    if not _CLASSES_OF.fullmatch(name):
        return False
    return name.endswith("excludedRules") or bool(_OF_HADOOP.fullmatch(value.strip()))


def _java_options(value: str) -> str | None:
    for option in value.split():
        if not _JAVA_OPTION.fullmatch(option):
            return f"the option '{_option_name(option)}' of Java may load code"
    return None


def _option_name(option: str) -> str:
    """The name of an option, without its value, which may be a secret."""
    found = re.match(r"[-@]*[A-Za-z]*(?::[+-]?[A-Za-z]+)?", option)
    return found[0] if found else ""


def is_secret(name: str) -> bool:
    """Whether the value of a setting is a secret, by its name."""
    return bool(_SECRET.search(name))
