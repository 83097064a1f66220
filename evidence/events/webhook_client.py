"""Check callback URLs, and send one webhook request to a checked address within ten seconds."""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

import httpx2
from django.conf import settings

from evidence import limits
from evidence.errors import InvalidRequest
from evidence.ssrf_guard import BlockedAddressError, loopback_addresses, public_addresses

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


MAX_BODY_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """A receiver's response with the beginning of its body. `status` is None without a response."""

    status: int | None
    retry_after: str | None = None
    body: bytes = field(default=b"", repr=False)


Resolve = Callable[[str], tuple[SplitResult, int, Sequence[str]]]
"""Returns the parts, the port and the allowed addresses of a URL, or raises BlockedAddressError."""


def post(
    url: str, *, headers: Mapping[str, str], body: bytes, resolve: Resolve | None = None
) -> WebhookResponse:
    """Send a request. A network error or a timeout returns a response without a status."""
    return asyncio.run(_post(url, headers, body, resolve or resolve_callback))


async def _post(
    url: str, headers: Mapping[str, str], body: bytes, resolve: Resolve
) -> WebhookResponse:
    try:
        async with asyncio.timeout(limits.EVENT_TIMEOUT):
            parts, port, addresses = await asyncio.to_thread(resolve, url)
            return await _post_to_first(parts, port, addresses, headers, body)
    except (TimeoutError, BlockedAddressError, httpx2.HTTPError, httpx2.InvalidURL):
        return WebhookResponse(None)


@lru_cache(maxsize=1)
def ssl_context() -> ssl.SSLContext:
    """Return the context with the trusted certificates, which are slow to load.

    They are those of SSL_CERT_FILE, if that is set.
    """
    return httpx2.create_ssl_context(trust_env=True)


async def _post_to_first(
    parts: SplitResult,
    port: int,
    addresses: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
) -> WebhookResponse:
    """Send the request to the first address that accepts a connection."""
    connect_error: httpx2.ConnectError | None = None
    for address in addresses:
        try:
            return await _post_to(parts, port, address, headers, body)
        except httpx2.ConnectError as error:
            connect_error = error
    raise connect_error or BlockedAddressError("the host has no address")


async def _post_to(
    parts: SplitResult, port: int, address: str, headers: Mapping[str, str], body: bytes
) -> WebhookResponse:
    host = f"[{address}]" if ":" in address else address
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # No proxy or credentials from the environment, and no redirects.
    async with httpx2.AsyncClient(
        verify=ssl_context(),
        trust_env=False,
        follow_redirects=False,
        timeout=limits.EVENT_TIMEOUT,
    ) as client:
        request = client.build_request(
            "POST",
            f"{parts.scheme}://{host}:{port}{path}",
            content=body,
            headers={**headers, "host": parts.netloc},
            # The certificate must match the host name, not the address.
            extensions={"sni_hostname": parts.hostname},
        )
        response = await client.send(request, stream=True)
        try:
            content = await _read_body(response)
        finally:
            await response.aclose()
    return WebhookResponse(response.status_code, response.headers.get("retry-after"), content)


async def _read_body(response: httpx2.Response) -> bytes:
    """Read up to MAX_BODY_BYTES of a success, and nothing of any other response."""
    content = b""
    if response.is_success:
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) >= MAX_BODY_BYTES:
                break
    return content[:MAX_BODY_BYTES]
