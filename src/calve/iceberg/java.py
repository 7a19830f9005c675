"""Values for Java, and members that Py4J does not find by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calve import gateway


def string_array(values: Sequence[str]) -> Any:
    """A `String[]`, as variable arguments of Java want it."""
    array = _gateway().new_array(gateway.jvm().java.lang.String, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def string_map(values: Mapping[str, str]) -> Any:
    """A `Map<String, String>`."""
    result = gateway.jvm().java.util.HashMap()
    for key, value in values.items():
        result.put(key, value)
    return result


def static_member(owner: str, name: str) -> Any:
    """A static method, also where the class has an instance method of the same name."""
    from py4j.java_gateway import JavaMember

    return JavaMember(name, None, f"z:{owner}", _gateway()._gateway_client)


def _gateway() -> Any:
    from pyspark import SparkContext

    running = SparkContext._active_spark_context
    assert running is not None, "no Spark session is running"
    return running._gateway
