"""Keep a calendar up to date that has a web address (iCalendar feed)."""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from hashlib import sha256

from importers.calendar.icalendar import (
    CALENDAR_MAX_BYTES,
    calendar_name,
    group_by_uid,
    parse_calendar,
)
from importers.calendar.recurrence import limits_per_run
from importers.calendar.series import Entry, StoredSeries, parse_series, stored_series
from importers.core.importer import YEARS_AHEAD, Options
from importers.core.readers import folded_to_utf8
from importers.core.results import ExportItem
from importers.core.source import (
    Checkpoint,
    Container,
    Event,
    Gone,
    Item,
    ProblemCode,
    Source,
    SourceError,
    SourceRun,
)
from importers.core.source_http import HttpClient, HttpResponse, TooLargeError, require_success

CONTAINER = "calendar"
STEP_ITEMS = 20
_VOLATILE = b"DTSTAMP"
"""Google writes the current time there on each request."""


def _fetch(run: SourceRun, headers: dict[str, str]) -> HttpResponse:
    """Raises ``SourceError``."""
    client = HttpClient(run.network, run.credential["url"], hosts=run.hosts)
    try:
        with client:
            response = client.request(
                "GET", client.url, headers=headers, max_bytes=CALENDAR_MAX_BYTES
            )
    except TooLargeError:
        detail = f"more than {CALENDAR_MAX_BYTES >> 20} MB"
        raise SourceError(ProblemCode.SERVER_REFUSED, detail) from None
    if response.status in (401, 403):
        raise SourceError(ProblemCode.NOT_FOUND, f"HTTP {response.status}")
    require_success(response)
    return response


def _require_calendar(content: bytes) -> None:
    """Refuse what is no complete calendar, such as a page for signing in."""
    text = content.strip().upper()
    if not text.startswith(b"BEGIN:VCALENDAR"):
        raise SourceError(ProblemCode.NOT_FOUND, "not a calendar")
    if not text.endswith(b"END:VCALENDAR"):
        raise SourceError(ProblemCode.CONNECTION_LOST, "the calendar has no end")


def _containers(run: SourceRun) -> Sequence[Container]:
    content = folded_to_utf8(_fetch(run, {}).body)
    _require_calendar(content)
    options = Options(horizon_year=horizon_year(run))
    name = calendar_name(content) or "Calendar"
    events = group_by_uid(parse_calendar(content, name, options, limits_per_run(), dict))
    return [Container(CONTAINER, name, is_usual=True, items=len(events))]


def horizon_year(run: SourceRun) -> int:
    """Return the year until which recurring events are expanded, as in imports."""
    return int(run.now[:4]) + YEARS_AHEAD


def lazy_series(run: SourceRun) -> StoredSeries:
    """Return a function that asks for the stored series once, when an event recurs."""
    return cache(lambda: stored_series(run.series_keys()))


def _read(run: SourceRun) -> Iterator[Event]:
    year = horizon_year(run)
    headers = {}
    if run.state.get("horizon") == year:
        pairs = (("If-None-Match", "etag"), ("If-Modified-Since", "modified"))
        headers = {name: run.state[key] for name, key in pairs if run.state.get(key)}
    response = _fetch(run, headers)
    if response.status == 304:
        yield Checkpoint(run.state, ends_pass=True)
        return
    content = folded_to_utf8(response.body)
    _require_calendar(content)
    yield from _events(run, content, Options(horizon_year=year))
    state = {
        "horizon": year,
        "etag": response.headers.get("ETag", ""),
        "modified": response.headers.get("Last-Modified", ""),
    }
    yield Checkpoint(state, ends_pass=True)


def _events(run: SourceRun, content: bytes, options: Options) -> Iterator[Event]:
    """Yield the events that changed, and then those that are gone."""
    name = calendar_name(content) or "Calendar"
    entries = parse_calendar(content, name, options, limits_per_run(), lazy_series(run))
    shared = sha256(f"{name}\0{options.horizon_year}\0".encode())
    known, found = run.known(CONTAINER, None), set()
    changed = []
    for uid, group in group_by_uid(entries).items():
        digest = shared.copy()
        for entry in group:
            digest.update(_stable_text(entry))
        mark = digest.hexdigest()[:32]
        ref = mark if uid.startswith("\0") else sha256(uid.encode()).hexdigest()[:32]
        found.add(ref)
        if known.get(ref) != mark:
            changed.append((ref, mark, group))
    for number, (ref, mark, group) in enumerate(changed, 1):
        yield Item(CONTAINER, ref, mark, _item(name, group))
        if number % STEP_ITEMS == 0:
            yield Checkpoint(run.state, number, len(changed))
    yield from (Gone(CONTAINER, ref) for ref in known if ref not in found)


def _item(name: str, group: Sequence[Entry]) -> ExportItem:
    size = sum(entry.component.size for entry in group)
    return ExportItem(name, f"line {group[0].component.line:,}", size, partial(parse_series, group))


def _stable_text(entry: Entry) -> bytes:
    lines = (entry.component.text or b"").splitlines()
    return b"\n".join(line for line in lines if not line.upper().startswith(_VOLATILE))


ICALENDAR_FEED = Source(run=_read, containers=_containers)
