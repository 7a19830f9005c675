"""Secret values are found in texts by their value, in whatever encoding."""

from __future__ import annotations

import base64
import html
import json
import logging
from pathlib import Path
from urllib.parse import quote, quote_plus, urlencode
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve import redaction
from calve.model import Secret
from calve.redaction import SHORTEST, cleaned, redacted


def fresh() -> None:
    redaction._register = redaction.Register()


SECRETS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=SHORTEST + 4, max_size=60
)
AROUND = st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=12)

ENCODINGS = {
    "plain": lambda text: text,
    "URL": quote,
    "URL, all of it": lambda text: quote(text, safe=""),
    "URL, lower case": lambda text: "".join(
        part.lower() if part.startswith("%") else part for part in _percented(quote(text, safe=""))
    ),
    "form": quote_plus,
    "URL, path": lambda text: quote(text, safe="!$&'()*+,;=:@/"),
    "hexadecimal": lambda text: text.encode().hex().upper(),
    "query": lambda text: urlencode({"password": text}),
    "JSON": json.dumps,
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON, slashes escaped": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "HTML": html.escape,
    "XML": escape,
    "XML attribute": lambda text: escape(text, {'"': "&quot;", "'": "&apos;"}),
    "XML attribute, quoted": quoteattr,
}


def _percented(text: str) -> list[str]:
    parts: list[str] = []
    while text:
        size = 3 if text.startswith("%") else 1
        parts.append(text[:size])
        text = text[size:]
    return parts


@settings(max_examples=40)
@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS.keys())
@given(secret=SECRETS, before=AROUND, after=AROUND)
def test_no_encoding_of_a_secret_is_left(encode, secret: str, before: str, after: str) -> None:
    fresh()
    redaction.remember(secret)
    shown = redacted(f"{before}{encode(secret)}{after}")
    assert encode(secret).strip("\"'") not in shown
    assert "***" in shown


@given(secret=SECRETS, before=st.binary(max_size=7), after=st.binary(max_size=7), url_safe=st.booleans())
def test_base64_of_a_secret_with_anything_around_it_is_not_left(
    secret: str, before: bytes, after: bytes, url_safe: bool
) -> None:
    fresh()
    redaction.remember(secret)
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    whole = encode(before + secret.encode() + after).decode()
    shown = redacted(f"Basic {whole}")
    assert "***" in shown
    kept = shown.removeprefix("Basic ").replace("***", "")
    # What is left besides the neighbours is at most one character on either side.
    assert len(kept) <= len(encode(before).decode()) + len(encode(after).decode()) + 4


@given(texts=st.lists(st.text(max_size=40), max_size=5), secret=SECRETS)
def test_what_is_no_secret_stays(texts: list[str], secret: str) -> None:
    fresh()
    redaction.remember(secret)
    forms = redaction.forms(secret)
    for text in texts:
        if not any(form in text for form in forms):
            assert redacted(text) == text


def test_nothing_is_changed_before_something_was_revealed() -> None:
    assert redacted("a-long-password") == "a-long-password"
    secret = Secret("a-long-password")
    assert redacted("a-long-password") == "a-long-password"
    secret.reveal()
    assert redacted("it is a-long-password!") == "it is ***!"


def test_a_short_value_is_not_looked_for_in_words() -> None:
    redaction.remember("table")
    assert redacted("Cannot load table 't'") == "Cannot load table 't'"


def test_the_secret_behind_an_id_is_one_by_itself() -> None:
    redaction.remember("client-id:client-secret-value")
    assert redacted("client_id=client-id&client_secret=client-secret-value") == (
        "client_id=client-id&client_secret=***"
    )


def test_the_signature_in_a_query_is_one_by_itself() -> None:
    redaction.remember("?sv=2021-08-06&sig=a-long-signature")
    assert redacted("GET /x?sig=a-long-signature&sv=2021-08-06") == "GET /x?sig=***&sv=2021-08-06"


def test_the_private_key_in_a_service_account_is_one_by_itself() -> None:
    lines = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----", ""])
    redaction.remember(json.dumps({"client_email": "me@example.org", "private_key": key}))
    for line in lines:
        assert redacted(f"near {line[:]} there") == "near *** there"
    assert redacted("me@example.org") == "me@example.org"


def test_values_inside_values_are_cleaned() -> None:
    redaction.remember("a-long-password")
    found = cleaned({"a": ["x a-long-password", 3, None], "a-long-password": {"b": ("a-long-password",)}})
    assert found == {"a": ["x ***", 3, None], "***": {"b": ["***"]}}


def test_logs_have_none_of_it_stack_traces_included(caplog: pytest.LogCaptureFixture) -> None:
    redaction.remember("a-long-password")
    log = logging.getLogger("calve.test_redaction")
    caplog.handler.addFilter(redaction.Filter())
    try:
        raise ValueError("no a-long-password here")
    except ValueError:
        log.warning("told %s", "a-long-password", exc_info=True)
    assert "told ***" in caplog.text
    assert "a-long-password" not in caplog.text
    assert "ValueError: no *** here" in caplog.text


def test_every_way_out_of_the_process_is_clean(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from calve import gateway
    from calve.cli import render
    from calve.cli.app import say
    from calve.runtime.progress import line
    from calve.runtime.report import Report

    secret = Secret('a-"long"-password/<&>').reveal()
    say(f"said {secret}")
    blocks = [
        render.Line(f"line {secret}"),
        render.Pairs({"x": secret}),
        render.Table(["y"], [[{"z": secret}]]),
    ]
    render.show("text", None, blocks)
    render.show("json", {"told": [secret, {"inner": f"{secret}!"}]}, [])
    report = Report("orders", tmp_path)
    report.update(state="failed", message=f"Cannot: {secret}")
    error = gateway.classify(f"java.net.ConnectException: Connection refused: {secret}", "reach it")
    out = "".join(capsys.readouterr()) + str(error) + line(report.status, 0.0)
    out += (tmp_path / "orders.json").read_text()
    assert out.count("***") == 9
    for form in redaction.forms(secret):
        assert form not in out
    assert json.loads((tmp_path / "orders.json").read_text())["message"] == "Cannot: ***"


@pytest.mark.thorough
def test_of_secrets_that_pass_the_last_are_looked_for_and_others_stay() -> None:
    redaction.remember("a-password-that-stays")
    tokens = [f"token-number-{number}-of-many" for number in range(redaction.PASSING + 5)]
    for token in tokens:
        redaction.remember(token, passing=True)
    shown = redacted(" ".join(["a-password-that-stays", *tokens])).split()
    assert shown == ["***", *tokens[:5], *["***"] * redaction.PASSING]


def test_names_of_other_alphabets_are_found_whatever_their_neighbours() -> None:
    for secret in ("ΟΔΥΣΣΕΥΣ-secret-Σ", "İstanbul-secret", "straße-secret-ß"):
        redaction.remember(secret)
        for text in (secret, f"{secret}Α", f"x{secret}x"):
            assert secret not in redacted(text)
