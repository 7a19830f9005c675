"""Values for Java, and members that Py4J does not find by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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


def int_array(values: Sequence[int]) -> Any:
    """An `int[]`."""
    array = _gateway().new_array(gateway.jvm().int, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def object_list(values: Iterable[Any]) -> Any:
    """A `List`."""
    result = gateway.jvm().java.util.ArrayList()
    for value in values:
        result.add(value)
    return result


def always_true() -> Any:
    """The expression that every row satisfies."""
    return gateway.jvm().org.apache.iceberg.expressions.Expressions.alwaysTrue()


class _Function:
    """A `java.util.function.Function`; Java calls `apply`."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.apply = function

    class Java:
        implements = ("java.util.function.Function",)


def function(called: Callable[[Any], Any]) -> Any:
    """A `Function` that calls back into Python."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(_gateway())
    return _Function(called)


def static_member(owner: str, name: str) -> Any:
    """A static method, also where the class has an instance method of the same name."""
    from py4j.java_gateway import JavaMember

    return JavaMember(name, None, f"z:{owner}", _gateway()._gateway_client)


def _gateway() -> Any:
    from pyspark import SparkContext

    running = SparkContext._active_spark_context
    assert running is not None, "no Spark session is running"
    return running._gateway
