"""How the question is laid out: who asks, what of each stream with what it comes to, what stays
hidden, and the answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from evidence.access.grant_text import quoted
from evidence.models.accounts import OWNER_ID
from owner.grants.access_request import Asked, RequestedAccess
from owner.grants.draft import Choice, SourceChoice
from owner.grants.grantable_sources import readable_connections
from owner.grants.preview import Previews, StreamPreview, previews
from owner.grants.stream_form import StreamForm
from owner.permissions import fenced
from owner.record_text import line
from owner.setup_snippets import EVENTS, MCP, REST

WORKS = {
    MCP: "As an AI agent, over MCP",
    REST: "As a program, over REST",
    EVENTS: "As an AI agent that is told of changes and reads nothing, over MCP",
}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
APART = "This server cannot tell programs on this computer apart."
START = "Go on only if you have just started to connect it yourself."
CLAIMS: Mapping[str, str] = {
    "client_uri": "Its address",
    "policy_uri": "Its privacy policy",
    "tos_uri": "Its terms",
    "software_id": "Software",
    "software_version": "Version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Everything that one rendering shows. ``revision`` is empty where nothing can be allowed yet."""

    asked: Asked
    choice: Choice
    unknown: Sequence[str]
    action_url: str
    hidden: Mapping[str, str]
    error: str
    mark: str
    revision: str


@dataclass(frozen=True, slots=True)
class StreamRow:
    form: StreamForm
    preview: StreamPreview | None


@dataclass(frozen=True, slots=True)
class SourceRow:
    choice: SourceChoice
    streams: list[StreamRow]


@fenced
def review_page(request: HttpRequest, shown: Review) -> HttpResponse:
    """422 where something has to be put right first."""
    found = previews(shown.choice.draft.sources)
    asked = shown.asked
    context = {
        "shown": shown,
        "client": asked.client,
        "name": line(asked.client.name) or asked.client.client_id,
        "identity": identity(asked),
        "is_known": is_verified(asked) or asked.client.registered_by == "owner",
        "answers_to": answers_to(asked),
        "works": WORKS[asked.resource],
        "claims": [*_claims(asked)],
        "rows": source_rows(shown.choice.sources, found),
        "terms": shown.choice.terms,
        "limits": shown.choice.limits,
        "at_most": shown.choice.limits.limits_in_words if shown.choice.limits.has_any else "",
        "sentences": [each.words for each in found.values()],
        "unseen": [*unseen(shown.choice, found)],
        "ends": shown.choice.terms.in_words if shown.choice.terms.is_valid() else "",
        "once": any(each.access_mode == "single_use" for each in asked.details),
    }
    status = 422 if shown.error else 200
    response = render(request, "owner/consent/review.html", context, status=status)
    response["Cache-Control"] = "private, no-store"
    response["X-Frame-Options"] = "DENY"
    return response


def source_rows(sources: Sequence[SourceChoice], found: Previews) -> list[SourceRow]:
    return [
        SourceRow(
            each, [StreamRow(form, found.get(str(form.prefix))) for form in each.draft.streams]
        )
        for each in sources
    ]


def is_verified(asked: Asked) -> bool:
    """Return whether the answer can only reach the client that its own https document describes.

    Any local program can answer on loopback, claim a scheme or ask as a device, so none is verified.
    """
    return asked.client.verified and asked.redirect_host is not None and not _is_local(asked)


def identity(asked: Asked) -> str:
    """Return what this server itself knows of the client."""
    if is_verified(asked):
        return f"Verified: {asked.client.host} says that this program is its own."
    if asked.client.registered_by == "owner":
        return "You registered this program yourself."
    if asked.client.verified:
        return f"Not verified: {asked.client.host} describes this app. {_anyone(asked)} {START}"
    return f"Not verified: any program can call itself this. {START}"


def _anyone(asked: Asked) -> str:
    if asked.redirect_host is None:
        return "Any device can ask in its name."
    return "Any program on this computer can use its name."


def _is_local(asked: Asked) -> bool:
    host = asked.redirect_host or ""
    return host.endswith(":") or urlsplit(f"//{host}").hostname in LOOPBACK


def answers_to(asked: Asked) -> str:
    host = asked.redirect_host
    if host is None:
        return "the device or terminal that asked"
    if host.endswith(":"):
        return f"an app on this device that opens “{host}” links. {APART}"
    return f"{host}, a program on this computer. {APART}" if _is_local(asked) else host


def _claims(asked: Asked) -> Iterator[tuple[str, str]]:
    """What the client says of itself and its purpose, in its words."""
    for detail in asked.details:
        yield from _claims_of(detail)
    if asked.client.uri and "client_uri" not in asked.claims:
        yield CLAIMS["client_uri"], line(asked.client.uri, longest=200)
    for name, value in sorted(asked.claims.items()):
        if name == "client_name":
            continue
        yield CLAIMS.get(name, name.replace("_", " ").capitalize()), line(value, longest=200)


def _claims_of(detail: RequestedAccess) -> Iterator[tuple[str, str]]:
    yield "What for", line(detail.purpose_description or detail.purpose_code, longest=400)
    if detail.access_mode == "single_use":
        yield "How often", "once: for ten minutes from its first answer"
    if detail.retention:
        duration = line(str(detail.retention.get("max_duration", "a time it does not say")))
        verb = {"anonymize": "made anonymous"}.get(
            str(detail.retention.get("on_expiry")), "deleted"
        )
        yield "Its copies", f"kept for {duration}, then {verb}"


def unseen(choice: Choice, found: Previews) -> Iterator[str]:
    """What stays hidden, in words: records and fields, streams, and connections."""
    for each in found.values():
        if each.unseen:
            yield f"{each.words.label}: {each.unseen}"
    chosen: set[str] = set()
    for source in choice.draft.sources:
        chosen.update(source.connection_ids)
        left_out = [form.label for form in source.streams if form.terms is None and not form.errors]
        if left_out:
            yield f"{source.label}: all of {quoted(left_out)}"
    others = [each for each in readable_connections(OWNER_ID) if each.pk not in chosen]
    if others:
        yield f"Everything in {quoted(each.display_name for each in others)}"
