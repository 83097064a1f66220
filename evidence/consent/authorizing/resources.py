"""Which of our resources an RFC 8707 resource indicator means."""

from collections.abc import Sequence

from django.conf import settings

from evidence.consent.asking import Resource

SCOPE = "pdpp:read"
OFFLINE = "offline_access"


def url_of(resource: str) -> str:
    """The indicator of a resource: that of ``/v1`` is the origin itself, as its metadata says."""
    return f"{settings.PDPP_PUBLIC_URL}{'' if resource == '/v1' else resource}"


def named(indicator: str) -> Resource | None:
    """The resource of an indicator, with or without a slash at its end; None for any other."""
    asked = indicator.removesuffix("/")
    if asked == url_of("/mcp"):
        return "/mcp"
    if asked == url_of("/mcp/events"):
        return "/mcp/events"
    if asked in (url_of("/v1"), url_of("/v1") + "/v1"):
        return "/v1"
    return None


def the_one(indicators: Sequence[str], *, default: Resource) -> Resource | None:
    """The resource that all of them mean. None where one is unknown or two differ: a token is good
    at one resource only."""
    meant = {named(each) for each in indicators if each}
    if not meant:
        return default
    return meant.pop() if len(meant) == 1 else None


def known(resource: str) -> Resource:
    """A resource that was kept, as one of ours."""
    match resource:
        case "/v1" | "/mcp/events":
            return resource
        case _:
            return "/mcp"
