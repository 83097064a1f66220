"""Which address a client may name as its receiver, and where that leads."""

from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from evidence import limits
from evidence.errors import InvalidRequest
from evidence.ssrf_guard import own_addresses, public_addresses

HERE = ("localhost", "127.0.0.1", "::1")


def accepted(url: object) -> str:
    """The address as given. Raises ``InvalidRequest`` for one of another form; nothing is looked up,
    so an answer tells nothing of this network."""
    if not isinstance(url, str) or not 1 <= len(url.encode()) <= limits.CALLBACK_URL_BYTES:
        raise _refused(f"is an absolute address of at most {limits.CALLBACK_URL_BYTES} bytes")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise _refused("has printable ASCII characters only")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused("is not a valid address") from None
    if not parts.hostname or parts.username is not None or parts.fragment or port == 0:
        raise _refused("has a host, and neither a user nor a fragment")
    if parts.scheme != "https" and not is_here(parts):
        raise _refused(
            "is https"
            + (", or http on this machine itself" if settings.PDPP_LOCAL_RECEIVERS else "")
        )
    return url


def is_here(parts: SplitResult) -> bool:
    """Plain http to this very machine, where the operator lets events go there."""
    allowed: bool = settings.PDPP_LOCAL_RECEIVERS
    return allowed and parts.scheme == "http" and parts.hostname in HERE


def addresses(url: str) -> tuple[SplitResult, int, Sequence[str]]:
    """The parts of an accepted address, its port, and where to connect. Blocks; raises
    ``UnreachableError``."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_here(parts):
        port = parts.port or 80
        return parts, port, own_addresses(host, port)
    port = parts.port or 443
    return parts, port, public_addresses(host, port)


def target(url: str) -> str:
    """What counts as one receiver: to each one message goes at a time."""
    return urlsplit(url).netloc.lower()


def _refused(what: str) -> InvalidRequest:
    return InvalidRequest(message=f"callback_url {what}.", param="callback_url")
