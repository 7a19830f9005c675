"""Many objects of Java told of at once: a round trip for a whole list, instead of several for each of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from calve import gateway
from calve.iceberg import java

_LISTS = java.Statics("org.apache.iceberg.relocated.com.google.common.collect.Lists")
_BETWEEN = "\0"
"""What stands between texts; no location has it in it."""


@dataclass(frozen=True)
class Method:
    """A method, by the class that has it and what it takes."""

    owner: str
    name: str
    takes: tuple[str, ...] = ()


FILE_OF = Method("org.apache.iceberg.ContentScanTask", "file")
DELETES = Method("org.apache.iceberg.FileScanTask", "deletes")
LOCATION = Method("org.apache.iceberg.ContentFile", "location")
ROWS = Method("org.apache.iceberg.ContentFile", "recordCount")
BYTES = Method("org.apache.iceberg.ContentFile", "fileSizeInBytes")
FORMAT = Method("org.apache.iceberg.ContentFile", "format")
CONTENT = Method("org.apache.iceberg.ContentFile", "content")
OFFSET = Method("org.apache.iceberg.DeleteFile", "contentOffset")
SIZE = Method("java.util.Collection", "size")
_STREAM = Method("java.util.Collection", "stream")
_GET = Method("java.util.List", "get", ("int",))
_TEXT = Method("java.util.Objects", "toString", ("java.lang.Object",))

_made: WeakKeyDictionary[Any, dict[Method, Any]] = WeakKeyDictionary()
"""Functions that were made, for each JVM."""


class Listed:
    """A list of Java's."""

    def __init__(self, found: Any) -> None:
        """`found` is an `Iterable`, which is gone through once."""
        self.java = _LISTS.newArrayList(found)

    def __len__(self) -> int:
        return int(self.java.size())

    def __getitem__(self, index: int) -> Any:
        return self.java.get(index)

    def texts(self, *methods: Method) -> list[str]:
        """What one method after the other gives for each element, as text; `null` for NULL."""
        if not len(self):
            return []
        stream = self._mapped(methods).map(_function(_TEXT))
        joined: str = stream.collect(java.Statics("java.util.stream.Collectors").joining(_BETWEEN))
        return joined.split(_BETWEEN)

    def numbers(self, *methods: Method) -> list[int]:
        """The same, where numbers are given."""
        return [int(text) for text in self.texts(*methods)]

    def inside(self, *methods: Method) -> Listed:
        """The elements of all the collections that the methods give, one behind the other."""
        return Listed(self._mapped(methods).flatMap(_function(_STREAM)).toList())

    def picked(self, indices: Sequence[int]) -> Any:
        """Some of the elements, as a list of Java's."""
        mapper = java.Statics("org.apache.iceberg.util.JsonUtil").mapper()
        numbers = mapper.readValue(json.dumps(list(indices)), _class("java.util.ArrayList"))
        return numbers.stream().map(_as_function(_handle(_GET).bindTo(self.java))).toList()

    def _mapped(self, methods: Iterable[Method]) -> Any:
        stream = self.java.stream()
        for method in methods:
            stream = stream.map(_function(method))
        return stream


def planned(scan: Any) -> Listed:
    """The tasks of a scan."""
    tasks = scan.planFiles()
    try:
        return Listed(tasks)
    finally:
        tasks.close()


@dataclass(frozen=True)
class Place:
    """An element of a list."""

    listed: Listed
    index: int


def gathered(places: Iterable[Place]) -> Any:
    """The elements at `places`, as a list of Java's; those of one list stay together."""
    by_list: dict[int, list[Place]] = {}
    for place in places:
        by_list.setdefault(id(place.listed), []).append(place)
    found = java.new("java.util.ArrayList")
    for some in by_list.values():
        found.addAll(some[0].listed.picked([place.index for place in some]))
    return found


def _function(method: Method) -> Any:
    """A method as a function of the object that has it, or of its argument if it is static; made once."""
    made = _made.setdefault(java.running(), {})
    if method not in made:
        made[method] = _as_function(_handle(method))
    return made[method]


def _handle(method: Method) -> Any:
    kinds = [_class(one) for one in method.takes]
    found = _class(method.owner).getMethod(method.name, java.array("java.lang.Class", kinds))
    return java.Statics("java.lang.invoke.MethodHandles").publicLookup().unreflect(found)


def _as_function(handle: Any) -> Any:
    """A handle as a `Function`: a call of it does not come back to Python."""
    proxies = java.Statics("java.lang.invoke.MethodHandleProxies")
    return proxies.asInterfaceInstance(_class("java.util.function.Function"), handle)


def _class(name: str) -> Any:
    """A class, also of a jar that was added after Java was started."""
    if name == "int":
        return gateway.jvm().java.lang.Integer.TYPE
    loader = java.Statics("java.lang.Thread").currentThread().getContextClassLoader()
    return java.Statics("java.lang.Class").forName(name, True, loader)
