"""Addresses to which an answer may be sent."""

from urllib.parse import urlsplit

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
