"""Values for Java, and members that Py4J does not find by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from calve import gateway


def string_array(values: Sequence[str]) -> Any:
    """A `String[]`, as variable arguments of Java want it."""
    return array("java.lang.String", values)


def array(kind: str, values: Sequence[Any]) -> Any:
    """An array of a class or of `int`, `long` and the like."""
    from py4j.java_gateway import JavaClass

    made = running().new_array(JavaClass(kind, running()._gateway_client), len(values))
    for index, value in enumerate(values):
        made[index] = value
    return made


def string_map(values: Mapping[str, str]) -> Any:
    """A `Map<String, String>`."""
    result = gateway.jvm().java.util.HashMap()
    for key, value in values.items():
        result.put(key, value)
    return result


def strings(values: Any) -> dict[str, str]:
    """A `Map<String, String>` as Java tells it in one answer."""
    told: dict[str, str] = json.loads(
        Statics("org.apache.iceberg.util.JsonUtil").mapper().writeValueAsString(values)
    )
    return told


def json_node(value: Any) -> Any:
    """A value as the tree that Iceberg's parsers read."""
    return Statics("org.apache.iceberg.util.JsonUtil").mapper().readTree(json.dumps(value))


def each(collection: Any) -> list[Any]:
    """The elements of a `Collection`; the end of an iterator of Java's is an exception, which takes long."""
    listed = new("java.util.ArrayList", collection)
    return [listed.get(index) for index in range(listed.size())]


def new(owner: str, *arguments: Any) -> Any:
    """A new object; a package that is walked by its dots asks Java at each of them."""
    from py4j.java_gateway import JavaClass

    return JavaClass(owner, running()._gateway_client)(*arguments)


class Statics:
    """The static methods of a class, called without asking Java first what they are."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return static_member(self._owner, name)


EXPRESSIONS = Statics("org.apache.iceberg.expressions.Expressions")


def int_array(values: Sequence[int]) -> Any:
    """An `int[]`."""
    return array("int", values)


def object_list(values: Iterable[Any]) -> Any:
    """A `List`."""
    result = new("java.util.ArrayList")
    for value in values:
        result.add(value)
    return result


def long_list(values: Sequence[int]) -> Any:
    """A `List<Long>`; on a way through Python alone, a small number would become an `Integer`."""
    longs = Statics("org.apache.iceberg.relocated.com.google.common.primitives.Longs")
    return longs.asList(array("long", values))


def long_map(values: Mapping[int, int]) -> Any:
    """A `Map<Integer, Long>`."""
    mapper = Statics("org.apache.iceberg.util.JsonUtil").mapper()
    kinds = [Statics("java.lang.Class").forName(name) for name in _LONG_MAP]
    return mapper.readValue(json.dumps(dict(values)), mapper.getTypeFactory().constructMapType(*kinds))


_LONG_MAP = ("java.util.HashMap", "java.lang.Integer", "java.lang.Long")


def always_true() -> Any:
    """The expression that every row satisfies."""
    return EXPRESSIONS.alwaysTrue()


class _Function:
    """A `java.util.function.Function`; Java calls `apply`."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.apply = function

    class Java:
        implements = ("java.util.function.Function",)


def function(called: Callable[[Any], Any]) -> Any:
    """A `Function` that calls back into Python."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(running())
    return _Function(called)


def is_a(value: Any, kind: str) -> bool:
    """Whether an object of Java is of the class or interface `kind`."""
    from py4j.java_gateway import is_instance_of

    return bool(is_instance_of(running(), value, kind))


def static_member(owner: str, name: str) -> Any:
    """A static method, also where the class has an instance method of the same name."""
    from py4j.java_gateway import JavaMember

    return JavaMember(name, None, f"z:{owner}", running()._gateway_client)


def running() -> Any:
    """The gateway to the JVM of the running Spark."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None, "no Spark session is running"
    return context._gateway
