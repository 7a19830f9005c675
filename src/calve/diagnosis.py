"""What went wrong with a catalog or a store, from what was said: the likely cause and what to do. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from calve.errors import CalveError, Conflict, NotPermitted, Unavailable


@dataclass(frozen=True)
class Diagnosis:
    """One thing that goes wrong."""

    name: str
    cause: str
    advice: str
    exit_code: int


@dataclass(frozen=True)
class _Sign:
    """What a thing that goes wrong is known by: words, or the name of an exception."""

    diagnosis: Diagnosis
    pattern: re.Pattern[str]


def _sign(name: str, exit_code: int, pattern: str, cause: str, advice: str) -> _Sign:
    return _Sign(Diagnosis(name, cause, advice, exit_code), re.compile(pattern, re.IGNORECASE))


# The first that fits is it: what tells more comes before what tells less.
_SIGNS = (
    _sign(
        "plain http",
        78,
        r"by plain http, where others can read",
        "credentials would be sent where others can read them",
        "use an https address, or write 'allow_insecure: true' if the way there is trusted",
    ),
    _sign(
        "led astray",
        78,
        r"which the declaration does not name|sends us|load no code at its word|every request would go"
        r"|credentials of the store are not for it|gives no credentials for it|tells its machines their cred",
        "the catalog names a host or a setting that the declaration does not",
        "ask who runs the catalog; if it is right, declare the host in 'allowed_hosts'",
    ),
    _sign(
        "outside of the warehouse",
        78,
        r"outside of the warehouse|which is on this machine",
        "the table lies where the declaration has no place for it",
        "correct 'warehouse', or add the place to 'allowed_locations'",
    ),
    _sign(
        "clock skew",
        77,
        r"RequestTimeTooSkewed|request time and the (?:current|server).{0,12} time is too large|clock skew"
        r"|Signature (?:expired|not yet current)|token (?:used before issued|is not yet valid)"
        r"|AuthenticationFailed.*Date header",
        "the clock of this machine and that of the server differ",
        "set the clock of this machine, such as by NTP",
    ),
    _sign(
        "wrong region",
        78,
        r"AuthorizationHeaderMalformed|the region '[\w-]+' is wrong|IllegalLocationConstraint"
        r"|PermanentRedirect|must be addressed using the specified endpoint|AWS region .*not match"
        r"|Credential should be scoped to a valid region|Status Code: 301",
        "the bucket is in another region than the one declared",
        "set 'region' to that of the bucket",
    ),
    _sign(
        "no region",
        78,
        r"Unable to load region|region must (?:not be null|be specified)|Cannot initialize .*null region",
        "nothing says which region the service is in",
        "set 'region'",
    ),
    _sign(
        "path style",
        78,
        r"UnknownHostException:? [\w.-]+\.(?:localhost|minio|seaweedfs|s3)\b"
        r"|UnknownHostException:? [a-z0-9][\w-]*\.[\w.-]*\d+\.\d+\.\d+\.\d+"
        r"|MethodNotAllowed.*(?:specified method|against this resource)|InvalidBucketName|bucket name.*host"
        r"|VirtualHost|virtual.host",
        "the store wants the bucket in the path, not in the name of the host",
        "set 'path_style_access: true'",
    ),
    _sign(
        "no instance credentials",
        77,
        r"Unable to load credentials from any of the providers|Your default credentials were not found"
        r"|DefaultAzureCredential failed|EnvironmentCredential authentication unavailable",
        "there are no credentials: none are declared, and this machine has none",
        "declare them; those that a cloud gives its machines are asked for by 'instance_credentials: true'",
    ),
    _sign(
        "bucket missing",
        78,
        r"NoSuchBucket|specified bucket does not exist|ContainerNotFound|specified container does not exist"
        r"|filesystem does not exist|bucket .{1,70} (?:not found|does not exist)|FilesystemNotFound",
        "the bucket or container does not exist",
        "create it, or correct its name in 'warehouse'",
    ),
    _sign(
        "account missing",
        78,
        r"UnknownHostException:? \w+\.(?:dfs|blob)\.core\.windows\.net",
        "the storage account does not exist",
        "correct 'storage_account'",
    ),
    _sign(
        "TLS",
        69,
        r"SSLHandshakeException|SSLPeerUnverified|PKIX path|CERTIFICATE_VERIFY_FAILED|certificate|TLS:"
        r"|\bssl\b|plain text connection|Unsupported or unrecognized SSL|WRONG_VERSION_NUMBER|SSLError"
        r"|SSLException",
        "the server's certificate is not trusted, or it does not speak TLS",
        "check http against https in the address, the name in the certificate, and Java's trust store",
    ),
    _sign(
        "DNS",
        69,
        r"UnknownHost|Name or service not known|nodename nor servname|name is not known|getaddrinfo"
        r"|Temporary failure in name resolution",
        "the name of the host is not known",
        "check the spelling of the address, and that this machine can resolve it",
    ),
    _sign(
        "connection refused",
        69,
        r"Connection refused|ConnectException|HttpHostConnect|Could not connect to meta ?store",
        "nothing listens at the address",
        "check that the service runs, the port, and firewalls on the way",
    ),
    _sign(
        "no answer",
        69,
        r"timed out|SocketTimeout|ConnectTimeout|NoRouteToHost|Network is unreachable|does not answer within"
        r"|connection (?:was )?reset|NoHttpResponse|TimeoutException",
        "the service does not answer in time",
        "check firewalls and routes on the way, and how busy the service is",
    ),
    _sign(
        "throttled",
        75,
        r"SlowDown|TooManyRequests|Status Code: 429|answers 429|ThrottlingException|reduce your request rate",
        "the service has more requests than it takes",
        "try again later; writers wait by themselves for as long as 'retry_for' allows",
    ),
    _sign(
        "commit conflict",
        75,
        r"CommitFailedException|commit conflict|modified concurrently"
        r"|base metadata location .*(?:not same|not the)|Requirement failed|has been updated by another",
        "another writer's commit came first",
        "try again; writers do so by themselves. Where it keeps happening, let fewer writers share the table",
    ),
    _sign(
        "schema mismatch",
        78,
        r"schema evolution|not allowed in strict mode|schema_evolution|incompatible schema|schema mismatch"
        r"|it has format version",
        "the table differs from what is declared",
        "set 'schema_evolution' to add_columns or full, or change the table",
    ),
    _sign(
        "warehouse unknown",
        78,
        r"(?:unknown|no such|unable to find|could ?n.t find|invalid) (?:warehouse|catalog)"
        r"|warehouse .{0,80}(?:not found|does not exist|unknown|not exist)|CatalogNotFound"
        r"|catalog .{0,80} (?:not found|does not exist)",
        "the catalog does not know the warehouse",
        "correct 'warehouse'; some catalogs want a name, others a location",
    ),
    _sign(
        "namespace missing",
        78,
        r"NoSuchNamespace|namespace .{0,80}(?:does not exist|not found)|EntityNotFoundException.*database"
        r"|NoSuchObjectException.*database",
        "the namespace does not exist and could not be created",
        "create it, or correct 'namespace'",
    ),
    _sign(
        "not a catalog",
        78,
        r"does not answer as a catalog|Unable to parse|not a valid .*response|answers 404|Unexpected char",
        "what answers is not a catalog of this protocol",
        "correct the path of 'uri'; it ends before /v1",
    ),
    _sign(
        "unauthorized",
        77,
        r"NotAuthorizedException|answers 4[01][19]\b|Status Code: 401|\b401\b|Unauthorized|invalid_client"
        r"|InvalidAccessKeyId|SignatureDoesNotMatch|UnrecognizedClient|InvalidClientTokenId|ExpiredToken"
        r"|password authentication|token (?:has )?expired|InvalidAuthenticationInfo|AuthenticationFailed"
        r"|Access denied for user",
        "the credentials are not known, wrong, or no longer valid",
        "check the credentials, and whether they have expired",
    ),
    _sign(
        "forbidden",
        77,
        r"ForbiddenException|answers 403|Status Code: 403|\b403\b|AccessDenied|Access Denied|Forbidden"
        r"|not authorized to perform|AuthorizationFailure|AuthorizationPermissionMismatch|permission denied"
        r"|does not have .{0,40}access|PERMISSION_DENIED|READONLY",
        "the credentials do not allow it",
        "allow listing, reading, writing and deleting in the warehouse, and creating and dropping tables",
    ),
    _sign(
        "jar missing",
        78,
        r"tell the sink which one|NoClassDefFoundError|ClassNotFoundException",
        "the files are in a store that the sink does not declare",
        "declare it in the sink with 's3', 'gcs' or 'azure', if only as 's3: {}'",
    ),
)

TABLE = tuple(sign.diagnosis for sign in _SIGNS)
"""Everything that is recognised, in the order in which it is looked for."""

_BY_STATUS = {
    401: "unauthorized",
    403: "forbidden",
    409: "commit conflict",
    429: "throttled",
    503: "throttled",
}


def diagnose(text: str, status: int | None = None) -> Diagnosis | None:
    """What `text`, an error or a stack trace, tells; a status of HTTP helps where the text says nothing."""
    for sign in _SIGNS:
        if sign.pattern.search(text):
            return sign.diagnosis
    name = _BY_STATUS.get(status) if status is not None else None
    return next((one for one in TABLE if one.name == name), None)


def of_error(error: BaseException) -> Diagnosis:
    """What an error of ours tells, with everything that led to it."""
    found = diagnose("\n".join(_told(error)))
    return found or _by_kind(error)


def _told(error: BaseException | None) -> list[str]:
    """The texts of an error and of its causes."""
    texts: list[str] = []
    while error is not None and len(texts) < 10:
        texts.append(_FRAME.sub("", f"{type(error).__name__}: {error}"))
        error = error.__cause__
    return texts


_FRAME = re.compile(r"^\s*(?:at [\w.$/<>]+\(.*\)|\.\.\. \d+ more)\s*$", re.MULTILINE)
"""A line of a stack trace, whose numbers and names say nothing of what went wrong."""


def _by_kind(error: BaseException) -> Diagnosis:
    code = error.exit_code if isinstance(error, CalveError) else CalveError.exit_code
    if isinstance(error, NotPermitted):
        return Diagnosis("refused", "the service refuses", "check the credentials and what they allow", code)
    if isinstance(error, Conflict):
        return Diagnosis("commit conflict", "another writer's commit came first", "try again", code)
    if isinstance(error, Unavailable):
        return Diagnosis(
            "unavailable", "the service cannot do it now", "check that it runs, and try again", code
        )
    return Diagnosis(
        "other", "the service and the declaration do not fit", "check the keys of the sink", code
    )
