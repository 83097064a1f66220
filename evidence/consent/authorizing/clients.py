"""Who a registration is, as far as that is known."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from evidence.consent.asking import AskingClient, RegisteredBy

if TYPE_CHECKING:
    from evidence.models.registrations import Registration

UNNAMED = "An unnamed program"
LONGEST_NAME = 100


def asking(registration: "Registration") -> AskingClient:
    """A client with its own document is known by the host that the document came from."""
    by_document = registration.source == "metadata_document"
    uri = registration.metadata.get("client_uri")
    return AskingClient(
        client_id=registration.client_id,
        name=readable(registration.name),
        uri=uri if isinstance(uri, str) and uri.startswith("https://") else None,
        host=urlsplit(registration.client_id).hostname if by_document else None,
        verified=by_document,
        registered_by=_kind(registration.source),
    )


def readable(name: str) -> str:
    """The name without what does not show, at most a hundred characters of it."""
    shown = "".join(each for each in name if each.isprintable()).strip()
    return shown[:LONGEST_NAME] or UNNAMED


def _kind(source: str) -> RegisteredBy:
    match source:
        case "metadata_document":
            return "metadata_document"
        case "owner":
            return "owner"
        case _:
            return "dynamic"
