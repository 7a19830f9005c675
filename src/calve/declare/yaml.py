"""YAML text as plain values, with the line of each; refuses what only makes declarations hard to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from calve.model import Flaw, Path

MAX_BYTES = 2**20
MAX_DEPTH = 32
MAX_NODES = 50_000

_CONSTANTS: dict[str, bool | None] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_CONSTANTS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_OTHER_BASE = re.compile(r"0o[0-7]{1,40}|0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]{1,5})?|[-+]?[0-9]+[eE][-+]?[0-9]{1,5}"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


_FLOW_VARIABLE = re.compile(r"[\[{].*[\[{:,]\s*\$\{")


class Unreadable(Exception):
    """Text that cannot be read as one YAML document."""

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        self.message = message
        super().__init__(message)


@dataclass
class Document:
    """The values of a document, the line of each path, and what is wrong already, with lines of its own."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    flaws: list[tuple[int, Flaw]] = field(default_factory=list)


@dataclass(frozen=True)
class _Scalar:
    line: int
    tagged: bool
    value: Any


@dataclass(frozen=True)
class _Sequence:
    line: int
    tagged: bool
    items: list[_Node]


@dataclass(frozen=True)
class _Mapping:
    line: int
    tagged: bool
    entries: list[tuple[_Node, _Node]]


_Node: TypeAlias = _Scalar | _Sequence | _Mapping


def read(data: bytes) -> Document:
    """The one document in `data`; raises Unreadable."""
    if len(data) > MAX_BYTES:
        raise Unreadable(0, f"larger than {MAX_BYTES // 2**20} MiB")
    return _Expansion().run(_Composition(_text(data)).run())


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(data[: error.start].count(b"\n") + 1, "not text in UTF-8") from None


def _events(text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        advice = _advice(text, mark.line) if mark else ""
        raise Unreadable(
            mark.line + 1 if mark else 0, f"not YAML: {error.problem or error.context}{advice}"
        ) from None
    except ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise Unreadable(line, "not YAML: a character that is not allowed in text") from None


def _advice(text: str, line: int) -> str:
    """What to do about the usual mistake: a variable without quotes, whose brace is one of YAML's."""
    lines = text.splitlines()
    is_variable = line < len(lines) and _FLOW_VARIABLE.search(lines[line])
    return "; put a variable inside of { } or [ ] in quotes, as in {a: '${NAME}'}" if is_variable else ""


class _Composition:
    """Events become nodes; an alias stands for the same node again."""

    def __init__(self, text: str) -> None:
        self.events = _events(text)
        self.anchors: dict[str, _Node] = {}
        self.documents = 0
        self.nodes = 0

    def run(self) -> _Node:
        root: _Node | None = None
        for event in self.events:
            name = type(event).__name__
            if name == "DocumentStartEvent":
                self.documents += 1
                if self.documents > 1:
                    raise Unreadable(event.start_mark.line + 1, "a second document begins; a file holds one")
            elif name not in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent", "CommentEvent"):
                root = self.node(event, 0)
        if root is None or (isinstance(root, _Scalar) and root.value is None):
            raise Unreadable(0, "declares nothing; it is empty")
        return root

    def node(self, event: Any, depth: int) -> _Node:
        line = event.start_mark.line + 1
        if depth > MAX_DEPTH:
            raise Unreadable(line, f"nested deeper than {MAX_DEPTH}")
        self.nodes += 1
        # Keys count as nodes here and not when aliases are written out.
        if self.nodes > 2 * MAX_NODES:
            raise Unreadable(line, f"more than {MAX_NODES} values")
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self.alias(event.anchor, line)
        node = (
            self.scalar(event, line) if kind == "ScalarEvent" else self.collection(event, kind, line, depth)
        )
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def alias(self, name: str, line: int) -> _Node:
        if name not in self.anchors:
            raise Unreadable(line, f"no anchor '{name}' before its alias")
        return self.anchors[name]

    def scalar(self, event: Any, line: int) -> _Scalar:
        plain = not event.style
        return _Scalar(line, event.tag is not None, _resolved(event.value) if plain else event.value)

    def collection(self, event: Any, kind: str, line: int, depth: int) -> _Node:
        children = []
        for child in self.events:
            if type(child).__name__ in ("SequenceEndEvent", "MappingEndEvent"):
                break
            children.append(self.node(child, depth + 1))
        tagged = event.tag is not None
        if kind == "SequenceStartEvent":
            return _Sequence(line, tagged, children)
        return _Mapping(line, tagged, list(zip(children[::2], children[1::2], strict=True)))


def _resolved(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    return float(re.sub(r"\.(?=[A-Za-z])", "", text)) if _FLOAT.fullmatch(text) else text


class _Expansion:
    """Nodes become values and lines, aliases written out."""

    def __init__(self) -> None:
        self.document = Document()
        self.nodes = 0

    def run(self, root: _Node) -> Document:
        self.document.value = self.value(root, (), root.line)
        return self.document

    def flaw(self, line: int, path: Path, message: str) -> None:
        self.document.flaws.append((line, Flaw(path, message)))

    def value(self, node: _Node, path: Path, line: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            first = self.document.lines.get(path[:1], line)
            raise Unreadable(first, f"more than {MAX_NODES} values once aliases are written out")
        if len(path) > MAX_DEPTH:
            raise Unreadable(self.document.lines.get(path[:1], line), f"nested deeper than {MAX_DEPTH}")
        self.document.lines[path] = line
        if node.tagged:
            self.flaw(node.line, path, "has a tag; write the value alone")
        if isinstance(node, _Mapping):
            return self.mapping(node, path)
        if isinstance(node, _Sequence):
            return [self.value(item, (*path, index), item.line) for index, item in enumerate(node.items)]
        if node.value is None:
            self.flaw(line, path, "has no value; write one, or leave the key out")
        return node.value

    def mapping(self, node: _Mapping, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, child in self.entries(node, path):
            if key.value in lines:
                self.flaw(key.line, (*path, key.value), f"is there twice, first in line {lines[key.value]}")
                continue
            lines[key.value] = key.line
            found[key.value] = self.value(child, (*path, key.value), key.line)
        for merged in self.merged(node, path):
            for key, child in self.entries(merged, path):
                if key.value not in found:
                    found[key.value] = self.value(child, (*path, key.value), key.line)
        return found

    def entries(self, node: _Mapping, path: Path) -> Iterator[tuple[_Scalar, _Node]]:
        for key, child in node.entries:
            if not isinstance(key, _Scalar) or not isinstance(key.value, str):
                self.flaw(key.line, path, "has a key that is not text; put the key in quotes")
            elif key.tagged:
                self.flaw(key.line, path, "has a key with a tag; write the key alone")
            elif "${" in key.value:
                self.flaw(key.line, path, "has '${' in a key; variables are replaced in values only")
            elif key.value != "<<":
                yield key, child

    def merged(self, node: _Mapping, path: Path) -> Iterator[_Mapping]:
        for key, child in node.entries:
            if isinstance(key, _Scalar) and key.value == "<<":
                for one in child.items if isinstance(child, _Sequence) else [child]:
                    if isinstance(one, _Mapping):
                        yield one
                    else:
                        self.flaw(key.line, path, "merges ('<<') what is not keys and values")
