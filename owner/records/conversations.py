"""A chat as a conversation, and a mail with its whole thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.http import Http404

from evidence.access.granted_streams import key_filter
from evidence.access.record_parts import fetch_many_related
from evidence.access.records import RecordKey, VisibleRecords
from evidence.access.sql import SQL
from evidence.declarations.declaration import Relation
from evidence.read import records as reading
from evidence.read.expansion import Children, load_related, parse_expand, related_stream
from owner.records.periods import OTHER_DATES, has_other_dates, until_plausible, with_other_dates
from owner.records.record_lists import Listing, ListPage, PageContent, page_of
from owner.records.record_roles import relation_label
from owner.records.record_summaries import RecordSummary, summarize
from owner.text import truncate

MAX_PARENTS = 200
MAX_THREAD = 100
MAX_THREAD_CHARS = 40_000
"""Characters of all messages of a thread together."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation with its files."""

    summary: RecordSummary
    files: Sequence[RecordSummary]


def conversation(listing: Listing) -> PageContent:
    """Content of a chat: the conversations, and the newest messages of the chosen one."""
    relation, is_other = listing.roles.parent, listing.params.get("until") == OTHER_DATES
    visible = with_other_dates(listing.visible) if is_other else until_plausible(listing.visible)
    parents = None if relation is None else related_stream(listing.gate, visible, relation)
    chats, chosen = _chats(parents), "" if is_other else listing.params.get("in", "")
    where: list[SQL] = []
    if relation is not None and parents is not None and not is_other:
        chosen = chosen or _newest_chat(visible, relation)
        where = [key_filter(visible, relation.foreign_key, chosen)] if chosen else []
    kept = {"in": chosen, "until": OTHER_DATES if is_other else ""}
    content = _messages(listing, page_of(listing, visible, kept, where=where), kept)
    links = [(chat.title, listing.url(**{"in": chat.record.record_key}),
              chat.record.record_key == chosen) for chat in chats]  # fmt: skip
    if has_other_dates(listing.visible):
        links = links or [("Usual dates", listing.url(), not is_other)]
        links.append(("Other dates", listing.url(until=OTHER_DATES), is_other))
    context = {
        **content.context,
        "chats": links,
        "chats_label": "Dates" if relation is None else relation_label(relation),
        "chat": next((c.title for c in chats if c.record.record_key == chosen), ""),
    }
    return PageContent(context, [*chats, *content.shown])


def _chats(parents: VisibleRecords | None) -> list[RecordSummary]:
    """Return the conversations by title. One query."""
    if parents is None:
        return []
    found = reading.page(parents, limit=MAX_PARENTS, descending=True, after=None, where=())
    return sorted(summarize(parents, found.records), key=lambda chat: chat.title.casefold())


def _newest_chat(visible: VisibleRecords, relation: Relation) -> str:
    """Return the key of the conversation with the newest message; empty if there is none."""
    newest = visible.page(limit=1, descending=True)
    return str(newest[0].data.get(relation.foreign_key) or "") if newest else ""


def _messages(listing: Listing, page: ListPage, kept: Mapping[str, str]) -> PageContent:
    """Content of a conversation: messages oldest first, by day, with their files."""
    messages = page.shown
    files = _files(listing, messages)
    ordered = [Message(each, files.get(each.record.record_key, ())) for each in reversed(messages)]
    days = [(day, list(rows)) for day, rows in groupby(ordered, key=lambda each: each.summary.day)]
    context = {
        "days": days,
        "earlier_url": page.next_url,
        "later_url": page.later_url,
        "latest_url": listing.url(**kept) if page.later_url else "",
    }
    return PageContent(context, [*messages, *(file for each in files.values() for file in each)])


def _files(
    listing: Listing, messages: Sequence[RecordSummary]
) -> Mapping[str, Sequence[RecordSummary]]:
    """Return the records that belong to each message, such as its files. One query a relation."""
    relations = listing.visible.stream.relations.values()
    names = [each.name for each in relations if each.cardinality == "has_many" and each.expandable]
    expansions = parse_expand(listing.gate, listing.visible, names=names, limits=[])
    related = load_related([each.record for each in messages], expansions)
    return {
        message.record.record_key: [
            summary
            for expansion, found in groups
            if isinstance(found, Children)
            for summary in summarize(expansion.child, found.records)
        ]
        for message, groups in zip(messages, related, strict=True)
    }


def thread(listing: Listing) -> PageContent:
    """Content of a thread: its messages, oldest first, each with as much text as fits the page."""
    visible = listing.visible
    key = RecordKey(listing.connection_id, listing.params["thread"])
    found = fetch_many_related(visible, listing.roles.thread or "", [key], limit=MAX_THREAD + 1)
    messages = summarize(visible, reversed(found.get(key, ())[:MAX_THREAD]))
    if not messages:
        raise Http404
    max_chars = MAX_THREAD_CHARS // len(messages)
    context = {
        "subject": messages[0].title,
        "letters": [(each, *truncate(each.text, max_length=max_chars)) for each in messages],
        "has_more": len(found.get(key, ())) > MAX_THREAD,
    }
    return PageContent(context, messages)
