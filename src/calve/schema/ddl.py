"""DDL text becomes a schema, as Spark reads it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from calve.schema.types import Array, Column, Decimal, Map, Primitive, Schema, SchemaError, Struct, Type

_UNESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
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
