"""Validate callback URLs and resolve them to addresses that may be called."""

from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from evidence import limits
from evidence.errors import InvalidRequest
from evidence.ssrf_guard import loopback_addresses, public_addresses

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


def validate_callback_url(url: object) -> str:
    """Return the URL unchanged. Raises InvalidRequest if its form is not allowed.

    Does not resolve the host, so the response reveals nothing about this network.
    """
    if not isinstance(url, str) or not 1 <= len(url.encode()) <= limits.CALLBACK_URL_BYTES:
        raise _invalid(f"must be an absolute URL of at most {limits.CALLBACK_URL_BYTES} bytes")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise _invalid("must have printable ASCII characters only")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _invalid("is not a valid URL") from None
    if not parts.hostname or parts.username is not None or parts.fragment or port == 0:
        raise _invalid("must have a host, and neither a user nor a fragment")
    if parts.scheme != "https" and not is_local_receiver(parts):
        local = ", or http on this machine itself" if settings.PDPP_LOCAL_RECEIVERS else ""
        raise _invalid(f"must be https{local}")
    return url


def is_local_receiver(parts: SplitResult) -> bool:
    """Return whether the URL is plain http to this machine and PDPP_LOCAL_RECEIVERS allows that."""
    allowed: bool = settings.PDPP_LOCAL_RECEIVERS
    return allowed and parts.scheme == "http" and parts.hostname in LOCAL_HOSTS


def resolve_callback(url: str) -> tuple[SplitResult, int, Sequence[str]]:
    """Return the parts, the port and the addresses of a valid URL.

    Blocks. Raises UnreachableError if no address may be called.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_local_receiver(parts):
        port = parts.port or 80
        return parts, port, loopback_addresses(host, port)
    port = parts.port or 443
    return parts, port, public_addresses(host, port)


def receiver_key(url: str) -> str:
    """Return the key of a receiver: one message at a time is sent for each key."""
    return urlsplit(url).netloc.lower()


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(message=f"callback_url {reason}.", param="callback_url")
