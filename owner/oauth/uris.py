"""Validate redirect URIs, and map resource indicators (RFC 8707) to this server's resources."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from evidence.api.authentication import public_urls
from owner.grants.grantable_sources import LOOPBACK_HOSTS, Resource

FORBIDDEN_SCHEMES = frozenset((
    "about", "blob", "data", "file", "filesystem", "ftp", "javascript", "vbscript", "view-source",
    "ws", "wss",
))  # fmt: skip
"""Schemes that a browser handles itself; other private schemes belong to apps (RFC 8252)."""
SCOPE = "pdpp:read"
OFFLINE_SCOPE = "offline_access"


def is_unambiguous(uri: str) -> bool:
    """Return whether every parser splits `uri` in the same way."""
    if not uri.isascii() or not uri.isprintable() or set(uri) & set("\\<>\"'` {}|^#"):
        return False
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme) and "@" not in parts.netloc


def is_registrable(uri: str) -> bool:
    """Return whether a client may register `uri`: https, http on loopback, or a private scheme.

    Hosts with wildcards are refused.
    """
    if not is_unambiguous(uri):
        return False
    parts = urlsplit(uri)
    if set(parts.netloc) & set("*%"):
        return False
    match parts.scheme:
        case "https":
            return bool(parts.hostname)
        case "http":
            return parts.hostname in LOOPBACK_HOSTS
        case scheme:
            return scheme not in FORBIDDEN_SCHEMES


LOOPBACK_ADDRESS = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\])):[0-9]+(?=[/?]|$)")


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Return whether `uri` equals a registered one, but for the port of an http address on loopback.

    Apps on the owner's computer listen on a port that is free at the time (RFC 8252, 7.3).
    """
    known = {_without_loopback_port(each) for each in registered}
    return is_unambiguous(uri) and _without_loopback_port(uri) in known


def _without_loopback_port(uri: str) -> str:
    match = LOOPBACK_ADDRESS.match(uri)
    return uri if match is None else match[1] + uri[match.end() :]


def display_host(uri: str) -> str:
    """Return the host and port of a redirect URI (443 is left out), or its private scheme with a colon."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return f"{parts.scheme}:"
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    port = parts.port or (80 if parts.scheme == "http" else 443)
    return name if (parts.scheme, port) == ("https", 443) else f"{name}:{port}"


def form_action_source(uri: str) -> str:
    """Return the Content-Security-Policy source that allows a form to redirect to `uri`.

    A policy cannot name IPv6 addresses or hosts of private schemes; the source is then the scheme.
    """
    parts = urlsplit(uri)
    has_origin = parts.scheme in ("http", "https") and "[" not in parts.netloc
    return f"{parts.scheme}://{parts.netloc}" if has_origin else f"{parts.scheme}:"


def parse_resource(indicator: str) -> Resource | None:
    """Return the resource of an indicator with or without a final slash, or None if unknown."""
    try:
        parts = urlsplit(indicator.removesuffix("/"))
    except ValueError:
        return None
    origin = parts._replace(netloc=parts.netloc.lower(), path="").geturl()
    if origin not in public_urls():
        return None
    match parts.path:
        case "/mcp" | "/mcp/events":
            return parts.path
        case "" | "/v1":
            return "/v1"
        case _:
            return None


def single_resource(indicators: Sequence[str], *, default: Resource) -> Resource | None:
    """Return the resource that all indicators name, or None if one is unknown or two differ.

    A token is valid for one resource only.
    """
    resources = {parse_resource(indicator) for indicator in indicators if indicator}
    if not resources:
        return default
    return resources.pop() if len(resources) == 1 else None


def stored_resource(resource: str) -> Resource:
    """Narrow a stored resource to the Resource type."""
    match resource:
        case "/v1" | "/mcp/events":
            return resource
        case _:
            return "/mcp"
