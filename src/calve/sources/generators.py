"""Generators of column values: each is a pure function of the seed, the row's number and the field's name."""

from __future__ import annotations

import datetime
import decimal
import hashlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from calve.model import Duration, Model
from calve.schema import Column, Decimal, Primitive, Type

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression

_BIGGEST = 2**61


def salt(seed: int, name: str) -> int:
    """A signed 64-bit number that stands for a field under a seed."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


class Draw:
    """The chance of one field: numbers that depend on the row alone."""

    def __init__(self, row: Expression, seed: int, name: str) -> None:
        self.row = row
        self._salt = salt(seed, name)

    def bits(self, nth: int = 0) -> Expression:
        """64 bits."""
        from pyspark.sql import functions as f

        return f.xxhash64(f.lit(self._salt).cast("bigint"), f.lit(nth), self.row)

    def below(self, limit: int, nth: int = 0) -> Expression:
        """A whole number from 0 to `limit` - 1."""
        from pyspark.sql import functions as f

        zero = f.lit(0).cast("bigint")
        return f.coalesce(f.pmod(self.bits(nth), f.lit(limit).cast("bigint")), zero)

    def fraction(self, nth: int = 0) -> Expression:
        """A number from 0 up to, not including, 1."""
        from pyspark.sql import functions as f

        return f.shiftrightunsigned(self.bits(nth), 11).cast("double") * f.lit(2.0**-53)


class Generator(Model, ABC):
    """Values of one field."""

    nulls: float = Field(default=0.0, ge=0.0, le=1.0)
    """The share of rows in which the field is NULL. 0 makes the column NOT NULL."""

    @abstractmethod
    def sql_type(self) -> Type:
        """The type of the column."""

    @abstractmethod
    def value(self, draw: Draw) -> Expression:
        """The value of a row, never NULL."""

    def column(self, name: str) -> Column:
        """The column that the field becomes."""
        return Column(name, self.sql_type(), self.nulls > 0, None)

    def expression(self, draw: Draw) -> Expression:
        """The value of a row, NULL in the share of rows that `nulls` tells."""
        from pyspark.sql import functions as f

        value = self.value(draw).cast(self.sql_type().ddl())
        return value if not self.nulls else f.when(draw.fraction(-1) >= f.lit(self.nulls), value)


class _Between(Generator, ABC):
    """A whole number between two bounds."""

    min: int = Field(default=0, ge=-_BIGGEST, le=_BIGGEST)
    """The smallest value."""

    max: int = Field(default=1_000_000, ge=-_BIGGEST, le=_BIGGEST)
    """The greatest value."""

    @model_validator(mode="after")
    def _is_ordered(self) -> _Between:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self

    def value(self, draw: Draw) -> Expression:
        return draw.below(self.max - self.min + 1) + self.min


class SequenceGenerator(Generator):
    """BIGINT: the row's number, counted from `start` in steps."""

    type: Literal["sequence"] = "sequence"
    """A running number."""

    start: int = 1
    """The value of the first row."""

    step: int = 1
    """How much each row adds."""

    def sql_type(self) -> Type:
        return Primitive("bigint")

    def value(self, draw: Draw) -> Expression:
        return draw.row * self.step + self.start


class IntGenerator(_Between):
    """INT: a whole number."""

    type: Literal["int"] = "int"
    """A whole number of 32 bits."""

    @model_validator(mode="after")
    def _fits(self) -> IntGenerator:
        if self.min < -(2**31) or self.max >= 2**31:
            raise ValueError("min and max of an int have at most 32 bits; use bigint")
        return self

    def sql_type(self) -> Type:
        return Primitive("int")


class BigintGenerator(_Between):
    """BIGINT: a whole number."""

    type: Literal["bigint"] = "bigint"
    """A whole number of 64 bits."""

    def sql_type(self) -> Type:
        return Primitive("bigint")


class DoubleGenerator(Generator):
    """DOUBLE: a number between two bounds."""

    type: Literal["double"] = "double"
    """A binary fraction."""

    min: float = 0.0
    """The smallest value."""

    max: float = 1.0
    """The bound that values stay below."""

    def sql_type(self) -> Type:
        return Primitive("double")

    def value(self, draw: Draw) -> Expression:
        return draw.fraction() * (self.max - self.min) + self.min


class DecimalGenerator(Generator):
    """DECIMAL: an exact number between two bounds."""

    type: Literal["decimal"] = "decimal"
    """An exact decimal number."""

    precision: int = Field(default=12, ge=1, le=18)
    """How many digits it has in all."""

    scale: int = Field(default=2, ge=0, le=18)
    """How many of them are behind the point."""

    min: decimal.Decimal = decimal.Decimal(0)
    """The smallest value."""

    max: decimal.Decimal = decimal.Decimal(1000)
    """The greatest value."""

    @model_validator(mode="after")
    def _fits(self) -> DecimalGenerator:
        low, high = self._bounds()
        if self.scale > self.precision or low > high or max(abs(low), abs(high)) >= 10**self.precision:
            raise ValueError(
                f"min {self.min} and max {self.max} do not fit DECIMAL({self.precision},{self.scale})"
            )
        return self

    def _bounds(self) -> tuple[int, int]:
        unit = decimal.Decimal(1).scaleb(-self.scale)
        return int(self.min / unit), int(self.max / unit)

    def sql_type(self) -> Type:
        return Decimal(self.precision, self.scale)

    def value(self, draw: Draw) -> Expression:
        from pyspark.sql import functions as f

        low, high = self._bounds()
        unit = decimal.Decimal(1).scaleb(-self.scale)
        units = (draw.below(high - low + 1) + low).cast("decimal(19,0)")
        exact = (units * f.lit(unit) if self.scale else units).cast(self.sql_type().ddl())
        return f.coalesce(exact, f.lit(unit - unit))


class ChoiceGenerator(Generator):
    """One of some values, all of one kind: STRING, BIGINT, DOUBLE or BOOLEAN."""

    type: Literal["choice"] = "choice"
    """One of the listed values."""

    values: list[Any] = Field(min_length=1, max_length=1000)
    """What may come up."""

    weights: list[float] | None = None
    """How often each comes up, in proportion; all alike when left out."""

    @model_validator(mode="after")
    def _is_even(self) -> ChoiceGenerator:
        if len({type(value) for value in self.values}) > 1 or type(self.values[0]) not in _KINDS:
            raise ValueError("values are all strings, all whole numbers, all fractions or all booleans")
        if self.weights is not None:
            if len(self.weights) != len(self.values):
                raise ValueError(f"{len(self.weights)} weights for {len(self.values)} values")
            if min(self.weights) < 0 or sum(self.weights) <= 0:
                raise ValueError("weights are not negative, and not all of them are zero")
        return self

    def sql_type(self) -> Type:
        return Primitive(_KINDS[type(self.values[0])])

    def value(self, draw: Draw) -> Expression:
        from pyspark.sql import functions as f

        options = [f.lit(value) for value in self.values]
        if self.weights is None:
            return f.coalesce(f.get(f.array(*options), draw.below(len(options)).cast("int")), options[0])
        return _weighted(options, self.weights, draw)


_KINDS: dict[type, str] = {str: "string", int: "bigint", float: "double", bool: "boolean"}


def _weighted(options: list[Expression], weights: list[float], draw: Draw) -> Expression:
    from pyspark.sql import functions as f

    reached, chosen, fraction = 0.0, None, draw.fraction()
    for option, weight in zip(options, weights, strict=True):
        reached += weight
        below = fraction < f.lit(reached / sum(weights))
        chosen = f.when(below, option) if chosen is None else chosen.when(below, option)
    assert chosen is not None
    last = max(index for index, weight in enumerate(weights) if weight > 0)
    return chosen.otherwise(options[last])


class StringGenerator(Generator):
    """STRING: random characters, or a template with a number in it."""

    type: Literal["string"] = "string"
    """A text."""

    length: int = Field(default=16, ge=1, le=4096)
    """How many characters (0 to 9 and a to f) it has, where no template is given."""

    template: str | None = None
    """A text with one `{}`, which becomes a number, such as `user-{}`."""

    distinct: int = Field(default=1000, ge=1, le=_BIGGEST)
    """How many different numbers the template is filled with, from 0 on."""

    @model_validator(mode="after")
    def _has_one_gap(self) -> StringGenerator:
        if self.template is not None and self.template.count("{}") != 1:
            raise ValueError("a template holds '{}' exactly once")
        return self

    def sql_type(self) -> Type:
        return Primitive("string")

    def value(self, draw: Draw) -> Expression:
        from pyspark.sql import functions as f

        if self.template is not None:
            before, after = self.template.split("{}")
            return f.concat(f.lit(before), draw.below(self.distinct).cast("string"), f.lit(after))
        parts = [_digits(draw, nth) for nth in range(-(-self.length // 16))]
        return f.substring(f.concat(*parts), 1, self.length)


def _digits(draw: Draw, nth: int) -> Expression:
    from pyspark.sql import functions as f

    return f.lower(f.lpad(f.hex(draw.bits(nth)), 16, "0"))


class BooleanGenerator(Generator):
    """BOOLEAN: true in a share of the rows."""

    type: Literal["boolean"] = "boolean"
    """True or false."""

    probability: float = Field(default=0.5, ge=0.0, le=1.0)
    """The share of rows in which it is true."""

    def sql_type(self) -> Type:
        return Primitive("boolean")

    def value(self, draw: Draw) -> Expression:
        from pyspark.sql import functions as f

        return draw.fraction() < f.lit(self.probability)


class TimestampGenerator(Generator):
    """TIMESTAMP: a clock that each row moves on, or a random time before `end`."""

    type: Literal["timestamp"] = "timestamp"
    """A point in time."""

    start: datetime.datetime = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    """The time of the first row; UTC where it names no zone."""

    step: Duration = 1.0
    """How much each row moves the clock."""

    end: datetime.datetime | None = None
    """Where it is given, times are random between `start` and `end`, and `step` has no effect."""

    @model_validator(mode="after")
    def _is_one_way(self) -> TimestampGenerator:
        if self.end is not None and "step" in self.model_fields_set:
            raise ValueError("step has no effect beside end; give one of them")
        if self.end is not None and _micros(self.end) <= _micros(self.start):
            raise ValueError("end is not after start")
        return self

    def sql_type(self) -> Type:
        return Primitive("timestamp")

    def value(self, draw: Draw) -> Expression:
        from pyspark.sql import functions as f

        start = _micros(self.start)
        passed = (
            draw.row * round(self.step * 1e6) if self.end is None else draw.below(_micros(self.end) - start)
        )
        return f.timestamp_micros(passed + start)


def _micros(time: datetime.datetime) -> int:
    zoned = time if time.tzinfo else time.replace(tzinfo=datetime.timezone.utc)
    return (zoned - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) // datetime.timedelta(
        microseconds=1
    )


class DateGenerator(Generator):
    """DATE: a random day between two days."""

    type: Literal["date"] = "date"
    """A day."""

    start: datetime.date = datetime.date(2024, 1, 1)
    """The first day."""

    end: datetime.date = datetime.date(2024, 12, 31)
    """The last day."""

    @model_validator(mode="after")
    def _is_ordered(self) -> DateGenerator:
        if self.end < self.start:
            raise ValueError(f"end {self.end} is before start {self.start}")
        return self

    def sql_type(self) -> Type:
        return Primitive("date")

    def value(self, draw: Draw) -> Expression:
        from pyspark.sql import functions as f

        return f.date_add(f.lit(self.start), draw.below((self.end - self.start).days + 1).cast("int"))


class UuidGenerator(Generator):
    """STRING: a UUID of version 4."""

    type: Literal["uuid"] = "uuid"
    """A UUID."""

    def sql_type(self) -> Type:
        return Primitive("string")

    def value(self, draw: Draw) -> Expression:
        from pyspark.sql import functions as f

        high, low = _digits(draw, 0), _digits(draw, 1)
        parts = [
            f.substring(high, 1, 8),
            f.substring(high, 9, 4),
            f.concat(f.lit("4"), f.substring(high, 14, 3)),
        ]
        return f.concat_ws("-", *parts, f.concat(f.lit("a"), f.substring(low, 2, 3)), f.substring(low, 5, 12))


def _named(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


def _tag(value: Any) -> str | None:
    name = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return name if isinstance(name, str) else None


AnyGenerator = (
    Annotated[SequenceGenerator, Tag("sequence")]
    | Annotated[IntGenerator, Tag("int")]
    | Annotated[BigintGenerator, Tag("bigint")]
    | Annotated[DoubleGenerator, Tag("double")]
    | Annotated[DecimalGenerator, Tag("decimal")]
    | Annotated[ChoiceGenerator, Tag("choice")]
    | Annotated[StringGenerator, Tag("string")]
    | Annotated[BooleanGenerator, Tag("boolean")]
    | Annotated[TimestampGenerator, Tag("timestamp")]
    | Annotated[DateGenerator, Tag("date")]
    | Annotated[UuidGenerator, Tag("uuid")]
)
Named = Annotated[AnyGenerator, Discriminator(_tag), BeforeValidator(_named)]
"""A generator: its name alone, or its name as `type` with its options."""
