"""Tokens as lines of a list, and what is said of one; never the token itself."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.safestring import SafeString

from evidence.access.handing_over import WHERE
from evidence.access.held import state_of
from evidence.consent.wording import mark, when
from evidence.models.grants import AccessToken

REACHES = {
    AccessToken.Kind.OWNER: "You: all records, to read and to write",
    AccessToken.Kind.CLIENT: "One grant",
    AccessToken.Kind.PACKAGE: "Several grants",
}


@dataclass(frozen=True, slots=True)
class TokenLine:
    url: str
    holder: str
    works: str
    reaches: str
    created: str
    ends: str
    state: SafeString


def token_line(token: AccessToken) -> TokenLine:
    """Of a token from ``tokens_with_state``."""
    package = token.package
    return TokenLine(
        url=token_url("change", token.pk),
        holder="You" if package is None else package.client.display_name,
        works=WHERE.get(token.resource, f"at {token.resource}"),
        reaches=REACHES[AccessToken.Kind(token.kind)],
        created=when(token.created_at),
        ends=when(token.expires_at, never="never" if package is None else "with its grants"),
        state=mark(state_of(token)),
    )


def token_lines(tokens: Iterable[AccessToken]) -> list[TokenLine]:
    return [token_line(token) for token in tokens]


def token_url(view: str, token_id: str) -> str:
    return reverse(f"admin:evidence_accesstoken_{view}", args=[quote(token_id)])
