"""Addresses to which an answer may be sent."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from django.conf import settings

from owner.grants.access_request import Resource

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
NEVER = frozenset(
    {
        "about",
        "blob",
        "data",
        "file",
        "filesystem",
        "ftp",
        "javascript",
        "vbscript",
        "view-source",
        "ws",
        "wss",
    }
)
"""Schemes that a browser acts on itself; any other private one belongs to a program (RFC 8252)."""


def is_plain(uri: str) -> bool:
    """Whether every reader of the address takes it apart in the same way."""
    if not uri.isascii() or not uri.isprintable() or set(uri) & set("\\<>\"'` {}|^#"):
        return False
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme) and "@" not in parts.netloc


def may_be_registered(uri: str) -> bool:
    """https, http on the program's own machine, or a scheme of the program's own. No wildcards."""
    if not is_plain(uri):
        return False
    parts = urlsplit(uri)
    if set(parts.netloc) & set("*%"):
        return False
    match parts.scheme:
        case "https":
            return bool(parts.hostname)
        case "http":
            return parts.hostname in LOOPBACK
        case scheme:
            return scheme not in NEVER


def host_of(uri: str) -> str:
    """Return where the answer goes, for the consent page.

    The host and port of a loopback or https address (443 is left out), or the scheme of an app.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return f"{parts.scheme}:"
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    port = parts.port or (80 if parts.scheme == "http" else 443)
    return name if (parts.scheme, port) == ("https", 443) else f"{name}:{port}"


def origin_of(uri: str) -> str:
    """What a content security policy has to allow for a form whose answer leads there. A policy can
    name neither an IPv6 address nor the host of a program's own scheme: then the scheme has to do."""
    parts = urlsplit(uri)
    nameable = parts.scheme in ("http", "https") and "[" not in parts.netloc
    return f"{parts.scheme}://{parts.netloc}" if nameable else f"{parts.scheme}:"


SCOPE = "pdpp:read"
OFFLINE = "offline_access"


def url_of(resource: str) -> str:
    """The indicator of a resource: that of ``/v1`` is the origin itself, as its metadata says."""
    return f"{settings.PDPP_PUBLIC_URL}{'' if resource == '/v1' else resource}"


def named(indicator: str) -> Resource | None:
    """The resource of an indicator, with or without a slash at its end; None for any other."""
    asked = indicator.removesuffix("/")
    if asked == url_of("/mcp"):
        return "/mcp"
    if asked == url_of("/mcp/events"):
        return "/mcp/events"
    if asked in (url_of("/v1"), url_of("/v1") + "/v1"):
        return "/v1"
    return None


def the_one(indicators: Sequence[str], *, default: Resource) -> Resource | None:
    """The resource that all of them mean. None where one is unknown or two differ: a token is good
    at one resource only."""
    meant = {named(each) for each in indicators if each}
    if not meant:
        return default
    return meant.pop() if len(meant) == 1 else None


def known(resource: str) -> Resource:
    """A resource that was kept, as one of ours."""
    match resource:
        case "/v1" | "/mcp/events":
            return resource
        case _:
            return "/mcp"
