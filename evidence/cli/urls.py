"""URLs of providers, in one form."""

import re
from urllib.parse import urlsplit, urlunsplit

from evidence.cli.failures import usage

_HOST = re.compile(r"[\w.-]+|[0-9a-fA-F:.]+")
_PORTS = {"http": 80, "https": 443}


def normalized(url: str) -> str:
    """Scheme and host in lower case, no default port, no closing slash; a `Failure` of usage for
    what is no http(s) URL. A bare host is meant as https, and the address of the MCP endpoint or of
    the API as that of its server."""
    parts = urlsplit(url if "://" in url else f"https://{url}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in _PORTS or not _HOST.fullmatch(host or "") or parts.username is not None:
        raise usage(
            f"{url[:200]!r} is not the URL of a provider.",
            param="URL",
            next_step="Pass something like https://records.example",
        )
    named = f"[{host}]" if ":" in str(host) else str(host)
    if port not in (None, _PORTS[parts.scheme]):
        named = f"{named}:{port}"
    path = parts.path.rstrip("/")
    for endpoint in ("/mcp", "/v1"):
        path = path.removesuffix(endpoint)
    return urlunsplit((parts.scheme, named, path, "", ""))
