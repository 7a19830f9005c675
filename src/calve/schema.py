"""Schemas: their DDL, Spark's JSON of them, and how two of them differ. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias


class SchemaError(ValueError):
    """A schema that cannot be read."""


@dataclass(frozen=True)
class Primitive:
    """A type without parts, by Spark's lower-case name; a length or precision is part of the name."""

    name: str

    def ddl(self) -> str:
        return self.name.upper()


@dataclass(frozen=True)
class Decimal:
    """A decimal number of `precision` digits, `scale` of them behind the point."""

    precision: int = 10
    scale: int = 0

    def ddl(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


@dataclass(frozen=True)
class Array:
    """A list of elements. DDL cannot say that elements are not null."""

    element: Type
    element_nullable: bool = True

    def ddl(self) -> str:
        return f"ARRAY<{self.element.ddl()}>"


@dataclass(frozen=True)
class Map:
    """Keys with values. DDL cannot say that values are not null."""

    key: Type
    value: Type
    value_nullable: bool = True

    def ddl(self) -> str:
        return f"MAP<{self.key.ddl()}, {self.value.ddl()}>"


@dataclass(frozen=True)
class Struct:
    """Columns inside a column."""

    columns: tuple[Column, ...]

    def ddl(self) -> str:
        return f"STRUCT<{', '.join(column.ddl(colon=':') for column in self.columns)}>"


Type: TypeAlias = Primitive | Decimal | Array | Map | Struct


@dataclass(frozen=True)
class Column:
    """A named value of a row or struct."""

    name: str
    type: Type
    nullable: bool = True
    comment: str | None = None

    def ddl(self, colon: str = "") -> str:
        words = [f"{_quoted_name(self.name)}{colon}", self.type.ddl()]
        words += [] if self.nullable else ["NOT NULL"]
        words += [] if self.comment is None else ["COMMENT", _quoted_text(self.comment)]
        return " ".join(words)


@dataclass(frozen=True)
class Schema:
    """The columns of a table or of the rows of a source."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        """The column called `name`, or, where `name` has dots, the one inside structs that it leads to."""
        return _find(self.columns, name)

    def ddl(self) -> str:
        """The text that reads back as this schema, here and in Spark."""
        return ", ".join(column.ddl() for column in self.columns)

    def to_spark_json(self) -> dict[str, Any]:
        """What Spark's `StructType.jsonValue()` gives for this schema."""
        return _struct_json(self.columns)


def _find(columns: Iterable[Column], name: str) -> Column | None:
    for column in columns:
        if column.name == name:
            return column
        if isinstance(column.type, Struct) and name.startswith(f"{column.name}."):
            return _find(column.type.columns, name[len(column.name) + 1 :])
    return None


_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {
    "\\": "\\\\",
    "'": "\\'",
    "\0": "\\0",
    "\b": "\\b",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\x1a": "\\Z",
}
_UNESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _quoted_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _quoted_text(text: str) -> str:
    return f"'{''.join(_ESCAPES.get(character, character) for character in text)}'"


_SYNONYMS = {
    **{name: name for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")},
    **{name: name for name in ("string", "binary", "date", "timestamp", "timestamp_ntz", "variant", "void")},
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "timestamp_ltz": "timestamp",
}
_DECIMALS = ("decimal", "dec", "numeric")
_SIZED = {"char": "char", "character": "char", "varchar": "varchar"}
_UNITS = {
    "year": ("month",),
    "month": (),
    "day": ("hour", "minute", "second"),
    "hour": ("minute", "second"),
    "minute": ("second",),
    "second": (),
}
_KNOWN = (*_SYNONYMS, *_DECIMALS, *_SIZED, "time", "interval", "array", "map", "struct")
_FOREIGN = {
    "text": "STRING",
    "uuid": "STRING",
    "json": "STRING",
    "datetime": "TIMESTAMP",
    "timestamptz": "TIMESTAMP",
    "number": "DECIMAL",
    "bool": "BOOLEAN",
    "bytes": "BINARY",
    "int64": "BIGINT",
    "int32": "INT",
}
_REFUSED = ("geometry", "geography")
_DEPTH = 64

_SPACE = " \t\n\f\r\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000"
_TOKENS = re.compile(
    rf"""(?P<space>[{_SPACE}]+|--(?:\\\n|[^\r\n])*)
    |(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<word>\w+)
    |(?P<symbol>[<>(),:])""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"\d+(?:l|s|y|(?:e\d+)?(?:f|d|bd)?)", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.DOTALL)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(text: str) -> Schema:
    """The schema that DDL such as `id BIGINT NOT NULL, tags ARRAY<STRING>` declares; raises SchemaError."""
    return _Parser(text).schema()


def _refuse(token: _Token, reason: str) -> NoReturn:
    shown = f"'{token.text}'" if token.kind != "end" else "the end"
    raise SchemaError(f"Cannot read the schema at character {token.at + 1} ({shown}): {reason}")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        if text.startswith("/*", at) and not text.startswith("/*+", at):
            at = _after_comment(text, at)
            continue
        match = _TOKENS.match(text, at)
        if match is None:
            reason = "the quote is not closed" if text[at] in "'\"`" else "unexpected character"
            _refuse(_Token("symbol", text[at], at), reason)
        if match.lastgroup != "space":
            yield _Token(match.lastgroup or "", match[0], at)
        at = match.end()
    yield _Token("end", "", len(text))


def _after_comment(text: str, start: int) -> int:
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    _refuse(_Token("symbol", "/*", start), "the comment is not closed")


def _unescaped(literal: str) -> str:
    if literal[0] in "rR":
        return literal[2:-1]
    text = _ESCAPE.sub(_unescape, _undoubled(literal[1:-1], literal[0]))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _undoubled(body: str, quote: str) -> str:
    return re.sub(rf"(\\.)|{quote}{quote}", lambda match: match[1] or f"\\{quote}", body, flags=re.DOTALL)


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code:
        return chr(min(int(code, 16), 0x10FFFF))
    return chr(int(match[3], 8)) if match[3] else _UNESCAPES.get(match[4], match[4])


class _Parser:
    """One pass over the tokens, a method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.at = 0
        self.depth = 0

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.next
        self.at += token.kind != "end"
        return token

    def take_if(self, *words: str) -> bool:
        found = self.tokens[self.at : self.at + len(words)]
        if tuple(token.text.lower() for token in found if token.kind in ("word", "symbol")) != words:
            return False
        self.at += len(words)
        return True

    def expect(self, symbol: str, reason: str) -> None:
        if not self.take_if(symbol):
            _refuse(self.next, reason)

    def schema(self) -> Schema:
        columns = self.columns(in_struct=False)
        if self.next.kind != "end":
            _refuse(self.next, self.unexpected())
        return Schema(columns)

    def unexpected(self) -> str:
        if self.next.text.lower() == "null":
            return "a column is nullable unless NOT NULL says otherwise; leave it out"
        if self.next.text.lower() == "collate":
            return "Iceberg has no collations; leave it out"
        return "expected a comma, NOT NULL or COMMENT"

    def columns(self, *, in_struct: bool) -> tuple[Column, ...]:
        columns: dict[str, Column] = {}
        while not columns or self.take_if(","):
            start = self.next
            column = self.column(in_struct)
            if column.name.lower() in columns:
                _refuse(start, "there is a column of this name already; names differ by more than case")
            columns[column.name.lower()] = column
        return tuple(columns.values())

    def column(self, in_struct: bool) -> Column:
        name = self.name()
        if self.next.text == ":" and not in_struct:
            _refuse(self.next, "a colon stands only inside STRUCT<…>; write the name and the type")
        self.take_if(":")
        type_ = self.type()
        nullable = not self.take_if("not", "null")
        return Column(name, type_, nullable, self.comment())

    def name(self) -> str:
        token = self.take()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word" or _NUMBER.fullmatch(token.text):
            _refuse(token, "expected the name of a column")
        if not token.text.isascii():
            _refuse(token, f"a name with such letters must be in backticks, `{token.text}`")
        return token.text

    def comment(self) -> str | None:
        if not self.take_if("comment"):
            return None
        if self.next.kind != "text":
            _refuse(self.next, "expected the text of the comment in quotes")
        parts = []
        while self.next.kind == "text":
            parts.append(_unescaped(self.take().text))
        return "".join(parts)

    def type(self) -> Type:
        token = self.take()
        name = token.text.lower()
        if token.kind != "word":
            _refuse(token, "expected a type")
        self.depth += 1
        if self.depth > _DEPTH:
            _refuse(token, f"types are nested deeper than {_DEPTH}")
        type_ = self.nested(name) or self.sized(name, token) or self.plain(name, token)
        self.depth -= 1
        return type_

    def nested(self, name: str) -> Type | None:
        if name not in ("array", "map", "struct"):
            return None
        self.expect("<", f"expected '<': {name.upper()} needs its parts")
        type_: Type
        if name == "array":
            type_ = Array(self.type())
        elif name == "map":
            key = self.type()
            self.expect(",", "expected a comma and the type of the values")
            type_ = Map(key, self.type())
        else:
            type_ = Struct(() if self.next.text == ">" else self.columns(in_struct=True))
        self.expect(">", f"expected '>' at the end of {name.upper()}")
        return type_

    def sized(self, name: str, token: _Token) -> Type | None:
        if name in _DECIMALS:
            return self.decimal(token)
        if name in _SIZED:
            return Primitive(f"{_SIZED[name]}({self.length(token)})")
        if name == "time":
            return self.time(token)
        return None

    def decimal(self, token: _Token) -> Decimal:
        numbers = self.numbers()
        if len(numbers) > 2:
            _refuse(token, "expected a precision and a scale at the most")
        decimal = Decimal(*numbers)
        if decimal.precision > 38:
            _refuse(token, f"the precision {decimal.precision} is above 38")
        if decimal.scale > decimal.precision:
            _refuse(token, f"the scale {decimal.scale} is above the precision {decimal.precision}")
        return decimal

    def length(self, token: _Token) -> int:
        numbers = self.numbers()
        if len(numbers) != 1:
            _refuse(token, f"expected one length, such as {token.text.upper()}(10)")
        return numbers[0]

    def time(self, token: _Token) -> Primitive:
        numbers = self.numbers() or [6]
        if len(numbers) > 1 or numbers[0] > 6:
            _refuse(token, "expected one precision from 0 to 6")
        return Primitive(f"time({numbers[0]})")

    def numbers(self) -> list[int]:
        if not self.take_if("("):
            return []
        numbers = [self.number()]
        while self.take_if(","):
            numbers.append(self.number())
        self.expect(")", "expected ')'")
        return numbers

    def number(self) -> int:
        token = self.take()
        if not (token.kind == "word" and re.fullmatch(r"[0-9]{1,9}", token.text)):
            _refuse(token, "expected a whole number")
        return int(token.text)

    def plain(self, name: str, token: _Token) -> Primitive:
        if name == "interval":
            return self.interval(token)
        if name == "timestamp" and self.take_if("without", "time", "zone"):
            return Primitive("timestamp_ntz")
        if name not in _SYNONYMS:
            _refuse(token, _unknown(name))
        if self.next.text == "(":
            _refuse(self.next, f"{token.text.upper()} has no length")
        return Primitive(_SYNONYMS[name])

    def interval(self, token: _Token) -> Primitive:
        start = self.next.text.lower()
        if start not in _UNITS:
            return Primitive("interval")
        self.take()
        if not self.take_if("to"):
            return Primitive(f"interval {start}")
        end = self.take().text.lower()
        if end not in _UNITS[start]:
            _refuse(token, f"there is no interval {start.upper()} TO {end.upper()}")
        return Primitive(f"interval {start} to {end}")


def _unknown(name: str) -> str:
    if name in _REFUSED:
        return "Spark cannot write it to Iceberg"
    close = [match.upper() for match in difflib.get_close_matches(name, _KNOWN, n=1)]
    guess = _FOREIGN.get(name) or next(iter(close), None)
    return f"unknown type; did you mean {guess}?" if guess else "unknown type"


_SPARK_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_OUR_NAMES = {spark: ours for ours, spark in _SPARK_NAMES.items()}


def _struct_json(columns: Iterable[Column]) -> dict[str, Any]:
    return {"type": "struct", "fields": [_column_json(column) for column in columns]}


def _column_json(column: Column) -> dict[str, Any]:
    metadata = {} if column.comment is None else {"comment": column.comment}
    type_ = _type_json(column.type)
    return {"name": column.name, "type": type_, "nullable": column.nullable, "metadata": metadata}


def _type_json(type_: Type) -> str | dict[str, Any]:
    if isinstance(type_, Primitive):
        return _SPARK_NAMES.get(type_.name, type_.name)
    if isinstance(type_, Decimal):
        return f"decimal({type_.precision},{type_.scale})"
    if isinstance(type_, Array):
        element = _type_json(type_.element)
        return {"type": "array", "elementType": element, "containsNull": type_.element_nullable}
    if isinstance(type_, Struct):
        return _struct_json(type_.columns)
    key, value = _type_json(type_.key), _type_json(type_.value)
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": type_.value_nullable}


def from_spark_json(value: Mapping[str, Any]) -> Schema:
    """The schema that Spark's `StructType.jsonValue()` describes."""
    return Schema(_columns_from_json(value))


def _columns_from_json(value: Mapping[str, Any]) -> tuple[Column, ...]:
    return tuple(
        Column(
            field["name"], _type_from_json(field["type"]), field["nullable"], field["metadata"].get("comment")
        )
        for field in value["fields"]
    )


def _type_from_json(value: str | Mapping[str, Any]) -> Type:
    if isinstance(value, str):
        decimal = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", value)
        return (
            Decimal(int(decimal[1]), int(decimal[2])) if decimal else Primitive(_OUR_NAMES.get(value, value))
        )
    if value["type"] == "array":
        return Array(_type_from_json(value["elementType"]), value["containsNull"])
    if value["type"] == "map":
        key, item = _type_from_json(value["keyType"]), _type_from_json(value["valueType"])
        return Map(key, item, value["valueContainsNull"])
    if value["type"] == "struct":
        return Struct(_columns_from_json(value))
    raise SchemaError(f"Cannot read a schema of Spark: unknown type '{value['type']}'")


def differences(declared: Schema, existing: Schema) -> list[str]:
    """A line for each column of `declared` that the table with `existing` does not have so, and the reverse.

    Columns that only the table has are no difference as long as they may be null.
    """
    return list(_column_differences("", declared.columns, existing.columns))


def _column_differences(path: str, declared: Iterable[Column], existing: Iterable[Column]) -> Iterator[str]:
    there = {column.name: column for column in existing}
    for column in declared:
        name = f"{path}{column.name}"
        other = there.pop(column.name, None)
        if other is None:
            yield f"column '{name}' is {_shown(column)} in the declaration and missing in the table"
        else:
            yield from _nullability(name, column.nullable, other.nullable)
            yield from _type_differences(name, column.type, other.type)
    for other in there.values():
        if not other.nullable:
            name = f"{path}{other.name}"
            yield f"column '{name}' is missing in the declaration and {_shown(other)} in the table"


def _shown(column: Column) -> str:
    return column.type.ddl() + ("" if column.nullable else " NOT NULL")


def _nullability(name: str, declared: bool, existing: bool) -> Iterator[str]:
    words = {True: "nullable", False: "NOT NULL"}
    if declared != existing:
        yield f"column '{name}' is {words[declared]} in the declaration and {words[existing]} in the table"


def _type_differences(name: str, declared: Type, existing: Type) -> Iterator[str]:
    if isinstance(declared, Struct) and isinstance(existing, Struct):
        yield from _column_differences(f"{name}.", declared.columns, existing.columns)
    elif isinstance(declared, Array) and isinstance(existing, Array):
        yield from _nullability(f"{name}.element", declared.element_nullable, existing.element_nullable)
        yield from _type_differences(f"{name}.element", declared.element, existing.element)
    elif isinstance(declared, Map) and isinstance(existing, Map):
        yield from _type_differences(f"{name}.key", declared.key, existing.key)
        yield from _nullability(f"{name}.value", declared.value_nullable, existing.value_nullable)
        yield from _type_differences(f"{name}.value", declared.value, existing.value)
    elif _stored(declared) != _stored(existing):
        yield f"column '{name}' is {declared.ddl()} in the declaration and {existing.ddl()} in the table"


def _stored(type_: Type) -> Type:
    if isinstance(type_, Primitive) and type_.name in ("tinyint", "smallint"):
        return Primitive("int")
    if isinstance(type_, Primitive) and type_.name.startswith(("char(", "varchar(")):
        return Primitive("string")
    return type_


def unsupported(schema: Schema, format_version: int = 2) -> list[str]:
    """A line for each column that an Iceberg table of `format_version` cannot hold, with the reason."""
    found = []
    for path, type_ in _parts("", schema.columns):
        reason = _reason(path, type_, format_version)
        if reason:
            found.append(f"column '{path}' is {type_.ddl()}: {reason}")
    return found


def _parts(path: str, columns: Iterable[Column]) -> Iterator[tuple[str, Type]]:
    for column in columns:
        yield from _inner(f"{path}{column.name}", column.type)


def _inner(path: str, type_: Type) -> Iterator[tuple[str, Type]]:
    yield path, type_
    if isinstance(type_, Struct):
        yield from _parts(f"{path}.", type_.columns)
    elif isinstance(type_, Array):
        yield from _inner(f"{path}.element", type_.element)
    elif isinstance(type_, Map):
        yield from _inner(f"{path}.key", type_.key)
        yield from _inner(f"{path}.value", type_.value)


def _reason(path: str, type_: Type, format_version: int) -> str | None:
    if not path or path.endswith("."):
        return "a column needs a name"
    if isinstance(type_, Struct) and not type_.columns:
        return "a struct without columns cannot be stored"
    if isinstance(type_, Decimal) and type_.precision == 0:
        return "the precision must be at least 1"
    if not isinstance(type_, Primitive):
        return None
    if type_.name == "variant" and format_version < 3:
        return "Iceberg holds it from format_version 3 on"
    reasons = {"interval": "Iceberg has no intervals", "time": "Spark cannot write it to Iceberg"}
    reasons["void"] = "a column of nulls only cannot be stored"
    return reasons.get(re.split(r"[ (]", type_.name)[0])
