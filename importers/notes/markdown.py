"""Find what a Markdown note says about itself: title, tags, properties and creation."""

from datetime import datetime, tzinfo
from typing import Any

from importers.core.moments import local_to_utc
from importers.core.results import ParsedItem, ReceiptCode
from importers.core.text import one_line
from importers.notes import front_matter, records

_TITLE_LINES = 40
_CREATED = ("created", "date created", "created_at", "created at", "creation date", "date")


def describe_note(
    text: str, zone: tzinfo, item: ParsedItem
) -> tuple[str, str | None, dict[str, Any]]:
    """Return the text without its properties, the title if the note has one, and the details."""
    properties, body = front_matter.split_front_matter(text)
    if properties is None:
        item.add_issue(ReceiptCode.BAD_PROPERTIES)
        properties = {}
    url = front_matter.find_property(properties, "url", "source", "link")
    details = records.details(
        created_at=_created_at(properties, zone),
        tags=records.clean_tags(
            [*front_matter.listed_tags(properties), *front_matter.written_tags(body)]
        ),
        properties=front_matter.property_lines(properties),
        url=url if url and url.startswith(("http://", "https://")) else None,
        author=front_matter.find_property(properties, "author"),
    )
    return body, front_matter.find_property(properties, "title") or first_heading(body), details


def first_heading(text: str) -> str | None:
    for line in text.splitlines()[:_TITLE_LINES]:
        if line.startswith("# "):
            return one_line(line[2:]) or None
    return None


def _created_at(properties: dict[str, Any], zone: tzinfo) -> str | None:
    """Return the creation, in the zone of the import if none is written; a day begins at midnight."""
    for name in _CREATED:
        if written := front_matter.find_property(properties, name):
            try:
                return local_to_utc(datetime.fromisoformat(written), zone)
            except ValueError:
                continue
    return None
