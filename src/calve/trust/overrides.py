"""What a catalog sends beside tables: settings that would lead us, and our credentials, elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from calve.addresses import host, is_metadata, is_open, leads_to_metadata
from calve.catalogs.section import FILE_IOS
from calve.errors import ConfigurationError
from calve.redaction import remember
from calve.trust.policy import Policy

AUTH_TYPES = frozenset({"none", "basic", "oauth2", "sigv4", "google"})

_WITH_TOKEN = re.compile(
    r"uri|oauth2-server-uri|credentials\.uri|(?:s3\.)?signer\.(?:uri|endpoint)|rest\.remote-signing\.endpoint"
    r"|(?:client|gcs\.oauth2|adls)\.refresh-credentials-endpoint|rest\.auth\..*(?:uri|url|endpoint)"
)
"""Where the token of the catalog is sent to; a path alone is one of the catalog itself."""

_OF_FILES = re.compile(
    r"s3\.endpoint|gcs\.service\.host|adls\.connection-string\..*|(?:glue|kms|dynamodb)\.endpoint"
    r"|azure\.keyvault\.url"
)
_CODE = re.compile(
    r".*[.-]impl|client\.factory|client\.credentials-provider|adls\.token-credential-provider"
    r"|rest\.client\.tls\..*"
)
_PROXY = re.compile(r"rest\.client\.proxy\..*|http-client\.proxy-.*")
_READ = re.compile(
    r"(?:s3|client|http-client|gcs|adls|azure|rest|header|signer|glue|kms|dynamodb|io|encryption|lock|hadoop"
    r"|fs|oss|ecs|hive|jdbc|auth|aws|google)\..*"
)
"""The names that Iceberg's client and its stores read; what else a server says is for others."""
_ALLOWED = re.compile(
    r"s3\.(?:access-key-id|secret-access-key|session-token|session-token-expires-at-ms|region|endpoint"
    r"|path-style-access|remote-signing-enabled|signer\.(?:uri|endpoint)|cross-region-access-enabled"
    r"|use-arn-region-enabled|dualstack-enabled|acceleration-enabled|checksum-enabled"
    r"|chunked-encoding-enabled|preload-client-enabled|retry\.[\w-]+|multipart\.[\w-]+"
    r"|delete\.(?:batch-size|num-threads))"
    r"|client\.(?:region|refresh-credentials-(?:endpoint|enabled))|signer\.(?:uri|endpoint)"
    r"|http-client\.(?:[\w-]+\.)?(?:[\w-]*timeout-ms|[\w-]*connections|[\w-]*time-to-live-ms|max-idle-time-ms"
    r"|tcp-keep-alive-enabled|expect-continue-enabled|[\w-]*reaper-enabled)"
    r"|gcs\.(?:project-id|service\.host|oauth2\.(?:token|token-expires-at|refresh-credentials-\w+)"
    r"|(?:read|write)\.chunk-size-bytes|channel\.(?:read|write)\.chunk-size-bytes)"
    r"|adls\.(?:sas-token\..*|sas-token-expires-at-ms\..*|token|connection-string\..*"
    r"|refresh-credentials-\w+|auth\.shared-key\.account\.\w+|(?:read|write)\.block-size-bytes)"
    r"|rest\.(?:auth\.type|auth\..*(?:uri|url|endpoint)|remote-signing\.endpoint|sigv4-enabled|signing-\w+"
    r"|namespace-separator|scan-planning-mode|page-size|client\.(?:[\w-]*timeout-ms|max-retries"
    r"|max-connections|connections-per-route)|metrics\.\w+)"
    r"|header\.X-Iceberg-[\w-]+|(?:glue|kms|dynamodb)\.endpoint|azure\.keyvault\.url|io\.manifest\.[\w.-]+",
    re.IGNORECASE,
)
"""What a server may set of them: credentials that it vends, regions, addresses, numbers for time-outs and
retries. Not who pays, who encrypts, who may read, or through whom files go."""
_HARMLESS = {"s3.delete-enabled": "false"}
"""Further settings, and the value that a server may give them: files are left where they are."""
_VENDED = re.compile(
    r"s3\.access-key-id|s3\.session-token|gcs\.oauth2\.token|adls\.sas-token\..*|adls\.token"
    r"|s3\.remote-signing-enabled"
)


_SECRET = re.compile(
    r"s3\.secret-access-key|s3\.session-token|gcs\.oauth2\.token|adls\.(?:sas-token\..*|token)|token"
)


def remember_secrets(sent: Mapping[str, str]) -> None:
    """Have credentials that a catalog vends taken out of texts like our own."""
    for name, value in sent.items():
        if _SECRET.fullmatch(name) and value:
            remember(value, passing=True)


def refuse(
    policy: Policy, sent: Mapping[str, str], declared: Mapping[str, str], *, table: str | None = None
) -> None:
    """Raise ConfigurationError for the first setting of `sent` that the declaration does not cover.

    `table` names the table that `sent` comes with; without, it is what the catalog says of itself, and
    credentials of the store may still come with each table.
    """
    for why in refusals(policy, sent, declared, is_final=table is not None):
        what = f"load table '{table}'" if table else f"use {policy.catalog}"
        raise ConfigurationError(f"Cannot {what}: {why}")


def refusals(
    policy: Policy, sent: Mapping[str, str], declared: Mapping[str, str], *, is_final: bool
) -> Iterator[str]:
    """Why settings that a catalog sent are not taken, in a fixed order."""
    vends = any(_VENDED.fullmatch(name) and declared.get(name) != sent[name] for name in sent)
    for name in sorted(sent):
        if declared.get(name) != sent[name]:
            why = _refusal(policy, name, sent[name], may_vend=vends or (policy.vended and not is_final))
            if why:
                yield why


def _refusal(policy: Policy, name: str, value: str, may_vend: bool) -> str | None:
    if _CODE.fullmatch(name):
        if name == "io-impl" and value in FILE_IOS:
            return None
        return f"it wants '{name}' to be '{_clip(value)}', and we load no code at its word"
    if name == "rest.auth.type" and value.lower() not in AUTH_TYPES:
        return f"it wants '{name}' to be '{_clip(value)}', and we load no code at its word"
    if _PROXY.fullmatch(name):
        return f"it wants '{name}' to be '{_clip(value)}', and every request would go there"
    if _HARMLESS.get(name) == value:
        return None
    if _READ.fullmatch(name) and not _ALLOWED.fullmatch(name) and not policy.allows(name):
        return f"it wants to set '{name}'; add it to 'allowed_properties' if that is right"
    address = _address(value)
    if address is None:
        return None
    return _address_refusal(policy, name, address, may_vend)


def _address_refusal(policy: Policy, name: str, address: str, may_vend: bool) -> str | None:
    there = host(address)
    said = f"it wants '{name}' to be at '{_clip(there or address)}'"
    is_declared = policy.owns(there) or policy.keeps_files(there)
    # Whom a name of the server's own stands for is not known before it is asked.
    if is_metadata(there) or (not is_declared and leads_to_metadata(there)):
        return f"{said}, where a cloud tells its machines their credentials"
    if _WITH_TOKEN.fullmatch(name):
        if not policy.owns(there):
            return f"{said}, which the declaration does not name; add it to 'allowed_hosts' if it is right"
        if policy.has_secrets and is_open(address) and not policy.insecure:
            return f"{said} by plain http, where others can read credentials"
        return None
    if _OF_FILES.fullmatch(name) and not policy.keeps_files(there) and not policy.owns(there):
        if policy.own_credentials:
            return (
                f"{said}, and credentials of the store are not for it; add it to 'allowed_hosts' if they are"
            )
        if not may_vend:
            return f"{said} and gives no credentials for it; add it to 'allowed_hosts' to send it ours"
    return None


def _address(value: str) -> str | None:
    """The address that a value is; None for a path of the server that is asked already."""
    text = value.strip()
    if text.startswith(("//", "\\\\", "/\\")):
        return f"https:{text}"
    return text if re.match(r"[a-z][a-z0-9+.-]*:", text, re.IGNORECASE) else None


def _clip(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"
