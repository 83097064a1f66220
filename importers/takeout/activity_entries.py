"""Build the record of an entry of My Activity, whether it comes from JSON or from a page."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from importers.activity import records
from importers.core.results import ParsedItem

_VERBS = {
    "Searched for": "searched", "Watched": "watched", "Viewed": "viewed", "Visited": "visited",
    "Listened to": "listened", "Used": "used", "Said": "said", "Prompted": "prompted", "Asked": "asked",
    "Liked": "liked", "Disliked": "disliked", "Saved": "saved", "Subscribed to": "subscribed",
    "Directions to": "directions", "Read": "read", "Opened": "opened", "Played": "played",
}  # fmt: skip
"""Verbs that begin an English title. Entries in other languages are known by their address."""
_VERB = re.compile(rf"({'|'.join(_VERBS)})\s+(?=\S)")
_VIDEO_PATHS = ("/watch", "/shorts/", "/live/", "/embed/")
_YOUTUBE = ("youtube.com", "youtu.be")
_SEARCH_PARAMETERS = ("search_query", "q", "query")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry; ``number`` counts equal entries. ``link_text`` is the text of its first link."""

    service: str
    title: str
    url: str | None
    at: str | None
    by: str | None = None
    place: str | None = None
    text: str = ""
    is_advertisement: bool = False
    link_text: str | None = None
    number: int = 1


def add_entry(item: ParsedItem, entry: Entry) -> None:
    kind, title = _describe(entry)
    records.add_activity(
        item,
        key=_key(entry),
        service=entry.service,
        kind="advertisement" if entry.is_advertisement else kind,
        title=title,
        by=entry.by,
        url=entry.url,
        at=entry.at,
        place=entry.place,
        text=entry.text,
    )


def _key(entry: Entry) -> str:
    """Return the same key for an entry in JSON and on a page, which has no fractions of a second.

    The name of the service depends on the language, so it is no part of it.
    """
    identity = re.sub(r"^https?://", "", entry.url or "") or entry.title
    second = (entry.at or "")[:19]
    return records.key("google", second, identity, *([entry.number] if entry.number > 1 else []))


def _describe(entry: Entry) -> tuple[str, str]:
    """Return the kind and the title without its verb."""
    verb = _VERB.match(entry.title)
    bare = entry.link_text or (entry.title[verb.end() :] if verb else entry.title)
    kind, query = _by_address(entry)
    if query:
        return kind, query
    return kind or (_VERBS[verb[1]] if verb else "activity"), bare


def _by_address(entry: Entry) -> tuple[str, str | None]:
    """Return the kind that the address shows, or an empty text, and the words of a search."""
    try:
        address = urlsplit(entry.url or "")
        host, parameters = (
            (address.hostname or "").lower(),
            parse_qs(address.query, max_num_fields=50),
        )
    except ValueError:
        return "", None
    words = next((parameters[name][0] for name in _SEARCH_PARAMETERS if name in parameters), None)
    is_youtube = host.endswith(_YOUTUBE)
    if is_youtube and (address.path.startswith(_VIDEO_PATHS) or host.endswith("youtu.be")):
        return ("listened" if "music" in host else "watched"), None
    is_search = address.path.startswith("/results" if is_youtube else ("/search", "/maps/search"))
    if words and is_search and (is_youtube or ".google." in f".{host}"):
        return "searched", words
    return "", None
