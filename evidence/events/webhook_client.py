"""Send one webhook request to a checked address within ten seconds."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import SplitResult

import httpx2

from evidence import limits
from evidence.events.callback_url import resolve_callback
from evidence.ssrf_guard import BlockedAddressError

MAX_BODY_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """A receiver's response with the beginning of its body. `status` is None without a response."""

    status: int | None
    retry_after: str | None = None
    body: bytes = field(default=b"", repr=False)


def post(url: str, *, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
    """Send a request. A network error or a timeout returns a response without a status."""
    return asyncio.run(_post(url, headers, body))


async def _post(url: str, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
    try:
        async with asyncio.timeout(limits.EVENT_TIMEOUT):
            parts, port, addresses = await asyncio.to_thread(resolve_callback, url)
            return await _post_to_first(parts, port, addresses, headers, body)
    except (TimeoutError, BlockedAddressError, httpx2.HTTPError, httpx2.InvalidURL):
        return WebhookResponse(None)


@lru_cache(maxsize=1)
def ssl_context() -> ssl.SSLContext:
    """Return the context with the trusted certificates, which are slow to load."""
    return httpx2.create_ssl_context(trust_env=False)


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
