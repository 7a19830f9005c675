"""What declarations are made of."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from calve.model import (
    Duration,
    Flaw,
    Location,
    Model,
    Name,
    Problem,
    Secret,
    SecretText,
    Size,
    Text,
    documentation,
    suggestion,
)


class Inner(Model):
    """A part."""

    size: int = 1
    """How large it is."""


class Sample(Model):
    """A sample."""

    count: int | None = None
    """How many there are."""

    ratio: float = Field(default=0.5, gt=0)
    """Which share."""

    flag: bool = False
    """Whether it is so."""

    secret: Secret | None = None
    """What nobody sees."""

    kind: Literal["a", "b"] = "a"
    """Which kind."""

    inner: Inner = Inner()
    """A part."""


def made(type_: Any, value: Any, **context: Any) -> Any:
    return TypeAdapter(type_).validate_python(value, context=context)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30.0),
        ("10m", 600.0),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        (90, 90.0),
        ("90", 90.0),
    ],
)
def test_a_duration_is_held_in_seconds(text: Any, seconds: float) -> None:
    assert made(Duration, text) == seconds


@pytest.mark.parametrize("value", ["soon", "10 minutes", True, None, "", "-1s", [1]])
def test_what_is_no_duration_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        made(Duration, value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1MiB", 2**20),
        ("2GB", 2 * 10**9),
        ("512KiB", 2**19),
        ("7B", 7),
        (7, 7),
        ("7", 7),
        ("1.5mib", 1572864),
    ],
)
def test_a_size_is_held_in_bytes(text: Any, size: int) -> None:
    assert made(Size, text) == size


@pytest.mark.parametrize("value", ["big", 0, "0MiB", -1, True, "1XB"])
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        made(Size, value)


@pytest.mark.parametrize(("value", "text"), [("x", "x"), (5, "5"), (True, "true"), (False, "false")])
def test_properties_become_text(value: Any, text: str) -> None:
    assert made(Text, value) == text
    assert made(SecretText, value).reveal() == text


@pytest.mark.parametrize(
    ("value", "location"),
    [
        ("data", "/project/data"),
        ("./data/../in", "/project/in"),
        ("/abs/data", "/abs/data"),
        ("s3://bucket/key", "s3://bucket/key"),
        ("file:/data", "file:/data"),
        ("data/*.json", "/project/data/*.json"),
    ],
)
def test_a_relative_location_begins_at_the_declaration(value: str, location: str) -> None:
    assert made(Location, value, directory="/project") == location


def test_a_location_begins_at_the_working_directory_when_nothing_is_known() -> None:
    assert made(Location, "data") == str(Path.cwd() / "data")


@pytest.mark.parametrize("name", ["orders", "_x", "A-1"])
def test_names_are_letters_digits_and_lines(name: str) -> None:
    assert made(Name, name) == name


@pytest.mark.parametrize("name", ["", "1a", "a.b", "a b", "ä"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        made(Name, name)


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("geheim")
    sample = Sample(secret=secret)
    for shown in (
        str(secret),
        repr(secret),
        f"{secret}",
        repr(sample),
        sample.model_dump_json(),
        str(sample),
    ):
        assert "geheim" not in shown
    assert secret.reveal() == "geheim"


def test_secrets_are_equal_by_value() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a")}) == 1
    assert pickle.loads(pickle.dumps(Secret("a"))) == copy.deepcopy(Secret("a")) == Secret("a")


@pytest.mark.parametrize("value", [5, "", ["x"], {"a": "geheim"}])
def test_a_secret_is_text_that_is_not_empty(value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"secret": value})
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("key", ["count", "ratio"])
def test_true_is_no_number(key: str) -> None:
    with pytest.raises(ValidationError, match="Input should be a valid"):
        Sample.model_validate({key: True})


def test_a_model_is_frozen_and_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValidationError):
        Sample.model_validate({"cuont": 1})
    with pytest.raises(ValidationError):
        Sample().count = 5  # type: ignore[misc]


def test_a_model_has_no_flaws_of_its_own() -> None:
    assert Sample().flaws() == []


def test_the_string_under_a_field_documents_it() -> None:
    assert documentation(Sample)["ratio"] == "Which share."
    assert list(documentation(Sample)) == list(Sample.model_fields)


def test_a_problem_is_shown_with_file_line_and_path() -> None:
    assert str(Problem("f.yaml", 3, "a.b", "is wrong")) == "f.yaml:3: a.b: is wrong"
    assert str(Problem("f.yaml", 0, "", "is wrong")) == "f.yaml: is wrong"


def test_a_flaw_is_seen_from_further_out() -> None:
    assert Flaw(("c",), "is wrong").under("a", 0) == Flaw(("a", 0, "c"), "is wrong")


def test_a_suggestion_is_made_where_something_looks_alike() -> None:
    assert suggestion("Batch_Sise", ["batch_size", "table"]) == "; did you mean 'batch_size'?"
    assert suggestion("xyz", ["batch_size", "table"]) == ""
