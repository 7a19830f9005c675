"""The profiles of AWS: what its shared files say of one of them."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from calve.errors import ConfigurationError
from calve.model import Secret

_ELSEWHERE = ("role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file")


@dataclass(frozen=True)
class Profile:
    """The keys of a profile."""

    access_key_id: Secret
    secret_access_key: Secret
    session_token: Secret | None = None
    region: str | None = None


def read(name: str, environment: Mapping[str, str] = os.environ) -> Profile:
    """The profile called `name`; raises ConfigurationError for one that has no keys of its own.

    Iceberg takes keys for a catalog or store of its own, and nothing else that a profile may say: how to get
    them from elsewhere is something that only the whole process can be told.
    """
    files = _files(environment)
    found = _section(files, name)
    if found is None:
        told = " and ".join(f"'{file}'" for file in files)
        raise ConfigurationError(f"Cannot use AWS profile '{name}': neither of {told} has it")
    key, secret = found.get("aws_access_key_id"), found.get("aws_secret_access_key")
    if not key or not secret:
        other = next((word for word in _ELSEWHERE if word in found), None)
        why = f"it takes its keys from elsewhere ('{other}')" if other else "it has no access key"
        raise ConfigurationError(
            f"Cannot use AWS profile '{name}': {why}; leave 'profile' out and set AWS_PROFILE={name}"
        )
    token = found.get("aws_session_token")
    return Profile(Secret(key), Secret(secret), Secret(token) if token else None, found.get("region"))


def _files(environment: Mapping[str, str]) -> list[Path]:
    home = Path(environment.get("HOME") or os.path.expanduser("~")) / ".aws"
    return [
        Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"),
        Path(environment.get("AWS_CONFIG_FILE") or home / "config"),
    ]


def _section(files: list[Path], name: str) -> dict[str, str] | None:
    """What both files say; the file of credentials has the last word."""
    sections = [_read(files[1], name if name == "default" else f"profile {name}"), _read(files[0], name)]
    present = [section for section in sections if section is not None]
    return {key: value for section in present for key, value in section.items()} if present else None


def _read(file: Path, section: str) -> dict[str, str] | None:
    parser = configparser.ConfigParser(interpolation=None, default_section="", strict=False)
    try:
        parser.read(file)
    except (configparser.Error, OSError, UnicodeDecodeError):
        raise ConfigurationError(f"Cannot read AWS profiles: '{file}' is not as AWS writes it") from None
    return dict(parser[section]) if parser.has_section(section) else None
