"""What pydantic found, in our words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from calve.declare import words
from calve.model import Model


class Tall(Model):
    """One choice."""

    kind: Literal["tall"]
    height: int = 1


class Wide(Model):
    """Another choice."""

    kind: Literal["wide"]
    width: int = 1


class Sample(Model):
    """Many types."""

    whole: int = 1
    number: float = Field(default=0.5, gt=0, lt=1)
    small: int = Field(default=1, ge=1, le=5)
    flag: bool = False
    text: str = "x"
    form: Annotated[str, Field(pattern="^a+$", max_length=3)] = "a"
    some: list[str] = Field(default_factory=list, max_length=2)
    two: list[str] | None = Field(default=None, min_length=2)
    keys: dict[str, int] = Field(default_factory=dict)
    choice: Annotated[Tall | Wide, Field(discriminator="kind")] | None = None
    either: Tall | Literal["off"] = "off"
    schema_: str = Field(default="", alias="schema")


def found(raw: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate(raw)
    return {".".join(map(str, flaw.path)): flaw.message for flaw in words.flaws(caught.value, raw, Sample)}


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        ({"whole": "x"}, "whole", "expected a whole number"),
        ({"whole": 1.5}, "whole", "expected a whole number"),
        ({"whole": [1]}, "whole", "expected a whole number"),
        ({"whole": "9" * 5000}, "whole", "expected a whole number"),
        ({"number": "x"}, "number", "expected a number"),
        ({"number": float("inf")}, "number", "expected a number"),
        ({"number": 0}, "number", "must be above 0.0"),
        ({"number": 1}, "number", "must be below 1.0"),
        ({"small": 0}, "small", "must be at least 1"),
        ({"small": 6}, "small", "must be at most 5"),
        ({"flag": "perhaps"}, "flag", "expected true or false"),
        ({"text": 5}, "text", "expected text; put the value in quotes"),
        ({"text": [5]}, "text", "expected text"),
        ({"form": "b"}, "form", "must match ^a+$"),
        ({"form": "aaaa"}, "form", "is longer than 3"),
        ({"some": "x"}, "some", "expected a list"),
        ({"some": ["a", "b", "c"]}, "some", "is longer than 2"),
        ({"some": ["a", 5]}, "some.1", "expected text; put the value in quotes"),
        ({"two": ["a"]}, "two", "is shorter than 2"),
        ({"keys": [1]}, "keys", "expected keys and values"),
        ({"keys": {"a": "x"}}, "keys.a", "expected a whole number"),
        ({"choice": {"kind": "deep"}}, "choice.kind", "expected one of tall, wide"),
        ({"choice": {"kind": "tal"}}, "choice.kind", "expected one of tall, wide; did you mean 'tall'?"),
        ({"choice": {}}, "choice.kind", "required key is missing"),
        ({"choice": {"kind": "tall", "hight": 5}}, "choice.hight", "unknown key; did you mean 'height'?"),
        ({"either": "on"}, "either", "expected keys and values or off"),
        ({"either": {"kind": "tall", "height": "x"}}, "either.height", "expected a whole number"),
        ({"schma": "x"}, "schma", "unknown key; did you mean 'schema'?"),
        ({"qqqq": "x"}, "qqqq", "unknown key"),
    ],
)
def test_a_wrong_value_is_told_at_its_key(raw: Any, path: str, message: str) -> None:
    assert found(raw) == {path: message}


def test_the_whole_may_have_the_wrong_shape() -> None:
    assert found([1]) == {"": "expected keys and values"}
