"""One request to a receiver: to the address that was judged, within ten seconds, and no further."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import SplitResult

import httpx2

from evidence import limits
from evidence.events.callback_url import addresses
from evidence.ssrf_guard import UnreachableError

ANSWER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Answered:
    """What the receiver said; ``status`` is None where it said nothing. ``body`` is its beginning."""

    status: int | None
    retry_after: str | None = None
    body: bytes = field(default=b"", repr=False)


def post(url: str, *, headers: Mapping[str, str], body: bytes) -> Answered:
    """Send it. Whatever goes wrong on the way is an answer without a status."""
    return asyncio.run(_within_time(url, headers, body))


async def _within_time(url: str, headers: Mapping[str, str], body: bytes) -> Answered:
    try:
        async with asyncio.timeout(limits.EVENT_TIMEOUT):
            parts, port, found = await asyncio.to_thread(addresses, url)
            return await _first(parts, port, found, headers, body)
    except (TimeoutError, UnreachableError, httpx2.HTTPError, httpx2.InvalidURL):
        return Answered(None)


@lru_cache(maxsize=1)
def trusted() -> ssl.SSLContext:
    """Whose certificates are believed; to load them takes longer than many a delivery."""
    return httpx2.create_ssl_context(trust_env=False)


async def _first(
    parts: SplitResult,
    port: int,
    found: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
) -> Answered:
    """From the first of the addresses that can be connected to."""
    failed: httpx2.ConnectError | None = None
    for address in found:
        try:
            return await _sent(parts, port, address, headers, body)
        except httpx2.ConnectError as error:
            failed = error
    raise failed or UnreachableError("the host has no address")


async def _sent(
    parts: SplitResult, port: int, address: str, headers: Mapping[str, str], body: bytes
) -> Answered:
    literal = f"[{address}]" if ":" in address else address
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # No proxy and no credentials of this machine's environment, no redirect.
    async with httpx2.AsyncClient(
        verify=trusted(),
        trust_env=False,
        follow_redirects=False,
        timeout=limits.EVENT_TIMEOUT,
    ) as client:
        request = client.build_request(
            "POST",
            f"{parts.scheme}://{literal}:{port}{path}",
            content=body,
            headers={**headers, "host": parts.netloc},
            # The certificate has to be that of the name.
            extensions={"sni_hostname": parts.hostname},
        )
        response = await client.send(request, stream=True)
        try:
            beginning = await _beginning(response)
        finally:
            await response.aclose()
    return Answered(response.status_code, response.headers.get("retry-after"), beginning)


async def _beginning(response: httpx2.Response) -> bytes:
    """As much of a success as an echo may take; of other answers nothing is read."""
    content = b""
    if response.is_success:
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) >= ANSWER_BYTES:
                break
    return content[:ANSWER_BYTES]
