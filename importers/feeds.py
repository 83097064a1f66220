"""Keep the entries of an RSS or Atom feed as documents: new and edited ones; none is removed."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import sha256
from io import BytesIO
from time import struct_time
from typing import Any

import feedparser

from importers.core.dates import to_utc
from importers.core.results import ExportItem, ParsedItem, ReceiptCode
from importers.core.source import (
    Checkpoint,
    Container,
    Event,
    Item,
    ProblemCode,
    Source,
    SourceError,
    SourceRun,
)
from importers.core.source_http import (
    HttpClient,
    HttpResponse,
    TooLargeError,
    basic_authorization,
    require_success,
)
from importers.core.text import html_to_text, one_line, replace_unstorable
from importers.notes import Note, add_note, clean_tags, note_key

FEED_MAX_BYTES = 8 * 1024 * 1024
BATCH_ENTRIES = 100
ID_MAX_CHARS = 2_000
VALIDATORS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}


def _read(run: SourceRun) -> Iterator[Event]:
    response = _fetch(run, run.state)
    state = {name: response.headers[name] for name in VALIDATORS if response.headers[name]}
    state["body"] = sha256(response.body).hexdigest()
    if response.status == 304:
        yield Checkpoint(run.state, ends_pass=True)
        return
    if state["body"] != run.state.get("body"):
        yield from _entries(run, _parse(response))
    yield Checkpoint(state, ends_pass=True)


def _entries(run: SourceRun, feed: Any) -> Iterator[Event]:
    """Yield the entries that are new or edited since they were last read."""
    (title,) = run.settings["containers"]
    known = run.known(title, None)
    total, seen = len(feed.entries), set[str]()
    for done, entry in enumerate(feed.entries, 1):
        key = _key(run.settings["host"], entry)
        content = json.dumps(entry, default=str).encode()
        mark = sha256(content).hexdigest()[:32]
        if key not in seen and known.get(key) != mark:
            parse = partial(_document, title, key, entry)
            yield Item(title, key, mark, ExportItem(title, _title(entry), len(content), parse))
        seen.add(key)
        if done % BATCH_ENTRIES == 0:
            yield Checkpoint({**run.state, "body": ""}, done, total)


def _fetch(run: SourceRun, state: Mapping[str, Any]) -> HttpResponse:
    url = run.credential["url"]
    user, password = str(run.settings.get("user", "")), run.credential.get("password", "")
    conditions = {VALIDATORS[name]: state[name] for name in VALIDATORS if state.get(name)}
    with HttpClient(run.network, url, basic_authorization(user, password), run.hosts) as client:
        try:
            response = client.request("GET", url, headers=conditions, max_bytes=FEED_MAX_BYTES)
        except TooLargeError:
            detail = f"more than {FEED_MAX_BYTES:,} bytes"
            raise SourceError(ProblemCode.WRONG_CONTENT, detail) from None
    require_success(response)
    return response


def _parse(response: HttpResponse) -> Any:
    headers = {"content-type": response.headers["Content-Type"] or "application/xml"}
    feed = feedparser.parse(
        BytesIO(response.body),
        response_headers=headers,
        sanitize_html=False,
        resolve_relative_uris=False,
    )
    if not feed.get("version"):
        raise SourceError(ProblemCode.WRONG_CONTENT, "no RSS or Atom")
    return feed


def _key(host: str, entry: Any) -> str:
    """Return the key of an entry: by its id, which only with a scheme is unique in the world."""
    identity = str(entry.get("id") or entry.get("link") or "")[:ID_MAX_CHARS]
    if not identity:
        identity = f"{entry.get('published')}\0{entry.get('title')}"
    return note_key("feed", "" if ":" in identity else host, identity)


def _document(feed: str, key: str, entry: Any) -> ParsedItem:
    item = ParsedItem()
    title = _title(entry)
    link = str(entry.get("link") or "")
    published = _moment(entry, "published", item)
    add_note(
        item,
        Note(
            key=key,
            path=f"{feed}/{title or key}",
            title=title,
            text=_text(entry),
            service="Feed",
            modified_at=_moment(entry, "updated", item) or published,
            details={
                "created_at": published,
                "tags": clean_tags(each.get("term") for each in entry.get("tags", ())),
                "url": link if link.startswith(("http://", "https://")) else None,
                "author": one_line(str(entry.get("author") or "")) or None,
            },
        ),
    )
    return item


def _title(entry: Any) -> str:
    detail = entry.get("title_detail") or {}
    return one_line(_plain(detail)) or one_line(_text(entry), max_chars=80)


def _text(entry: Any) -> str:
    """Return the whole content, or else the summary."""
    parts = entry.get("content") or [entry.get("summary_detail") or {}]
    return "\n\n".join(filter(None, map(_plain, parts)))


def _plain(part: Mapping[str, Any]) -> str:
    text = replace_unstorable(str(part.get("value") or ""))
    return html_to_text(text) if "html" in str(part.get("type")) else text


def _moment(entry: Any, name: str, item: ParsedItem) -> str | None:
    if name not in entry:  # feedparser would give what was published for what was updated
        return None
    written, parsed = entry.get(name), entry.get(f"{name}_parsed")
    if isinstance(parsed, struct_time):
        year, month, day, hour, minute, second = parsed[:6]
        text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00"
        if moment := to_utc(text):
            return moment
    if written:
        item.add_issue(ReceiptCode.BAD_DATE, detail=str(written)[:40])
    return None


def _list(run: SourceRun) -> list[Container]:
    feed = _parse(_fetch(run, {}))
    title = one_line(_plain(feed.feed.get("title_detail") or {}), max_chars=200).replace("/", "-")
    return [Container(title or run.settings["host"], title, is_usual=True, items=len(feed.entries))]


FEED = Source(run=_read, containers=_list)
