"""The official Python SDK signs in over a real socket: from the 401 to a tool call, and on."""

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl
from pytest_django import Settings

from tests.owner.consent.served import sent_back, site
from tests.world import World

CALLBACK = "http://localhost:33418/callback"


class Kept:
    """What the client remembers."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def provider(url: str, kept: Kept, sent: list[str]) -> OAuthClientProvider:
    """The SDK's own flow; ``sent`` gets each address to which it sends the owner."""

    async def redirect(address: str) -> None:
        sent.append(address)

    async def callback() -> AuthorizationCodeResult:
        back = await asyncio.to_thread(sent_back, sent[-1])
        answer = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        return AuthorizationCodeResult(
            code=answer["code"], state=answer["state"], iss=answer["iss"]
        )

    metadata = OAuthClientMetadata(client_name="Scribe", redirect_uris=[AnyUrl(CALLBACK)])
    return OAuthClientProvider(url, metadata, kept, redirect, callback)


def search(url: str, kept: Kept, sent: list[str]) -> Any:
    async def main() -> Any:
        auth = provider(url, kept, sent)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return await client.call_tool("search", {"q": "invoice"})

    return asyncio.run(main())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_it_signs_in_calls_a_tool_refreshes_and_signs_in_again(
    settings: Settings, name: str
) -> None:
    World.build()
    kept, sent = Kept(), list[str]()
    with site(settings) as origin:
        origin = origin.replace("127.0.0.1", name)
        url = f"{origin}/mcp"

        result = search(url, kept, sent)

        assert not result.is_error, result
        assert len(sent) == 1
        assert sent[0].startswith(f"{origin}/oauth/authorize?response_type=code")
        assert kept.tokens is not None
        assert kept.tokens.scope == "pdpp:read offline_access"
        first = kept.tokens.refresh_token

        kept.tokens = kept.tokens.model_copy(update={"expires_in": -1, "access_token": "expired"})
        assert not search(url, kept, sent).is_error
        assert kept.tokens is not None

        kept.tokens = kept.tokens.model_copy(update={"access_token": "no longer known"})
        assert not search(url, kept, sent).is_error
        assert kept.tokens is not None
        assert kept.tokens.refresh_token != first
