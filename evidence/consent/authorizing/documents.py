"""Client ID metadata documents: a client whose id is the https address of its own description.

Only the signed-in owner's browser makes this server fetch one, and the library's fetcher goes to
public addresses alone: it resolves the name once, connects to that very address, follows no redirect,
and gives up after five seconds or sixteen kilobytes.
"""

from datetime import datetime, timedelta

from django.conf import settings
from oauth2_provider.cimd import CIMDError
from oauth2_provider.settings import oauth2_settings

import evidence.outbound  # noqa: F401 - judges the addresses that the library connects to
from evidence.access.authorizations import registrations
from evidence.consent.authorizing import introductions

LONGEST_ID = 500


class NotFetchedError(Exception):
    """The document is not there, or is not what it must be. The message is for the owner."""


def is_address(client_id: str | None) -> bool:
    """Whether an id is one of this kind."""
    return bool(client_id) and str(client_id).startswith("https://")


def is_stale(client_id: str, *, now: datetime) -> bool:
    """Whether the document has to be read, for the first time or again."""
    known = registrations.found(client_id)
    return known is None or (known.fresh_until is not None and known.fresh_until <= now)


def fetch(client_id: str, *, now: datetime) -> None:
    """Reads the document and keeps what it says for as long as it allows, a day at most.

    Raises ``NotFetchedError``. What had been read before is kept then, and goes on to be used.
    """
    if not settings.PDPP_CLIENT_DOCUMENTS:
        raise NotFetchedError("This server reads no documents of clients. Connect the client anew.")
    if len(client_id) > LONGEST_ID:
        raise NotFetchedError("The client's address is too long.")
    try:
        said, seconds = oauth2_settings.CIMD_METADATA_FETCHER().fetch(client_id)
        if said.get("client_id") != client_id:
            raise NotFetchedError("The document at the client's address is about another client.")
        if "client_secret" in said:
            raise NotFetchedError("The client's document holds a secret, so it is none.")
        introduction = introductions.read({**said, "token_endpoint_auth_method": "none"})
    except CIMDError as error:
        raise NotFetchedError(
            f"The client's document could not be read: {error}. Where this server has no way to the"
            " internet, set PDPP_CLIENT_DOCUMENTS=false and connect the client anew: then it makes"
            " itself known without a document."
        ) from None
    except introductions.NotAcceptedError as error:
        raise NotFetchedError(f"The client's document does not hold: {error}") from None
    if "authorization_code" not in introduction.grant_types:
        raise NotFetchedError("The client's document names no address for the answer.")
    registrations.keep_document(
        client_id, introduction, fresh_until=now + timedelta(seconds=seconds), now=now
    )
