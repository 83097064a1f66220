"""Import iCalendar files, one record for each occurrence of an event, and follow calendars with a web address."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import tzinfo
from functools import cache, partial
from hashlib import sha256
from itertools import pairwise

from evidence.errors import InvalidRequest
from importers.calendar.recurrence import (
    ExpansionLimits,
    TimeZones,
    Window,
    limits_per_file,
    limits_per_run,
)
from importers.calendar.series import (
    Calendar,
    Entry,
    StoredSeries,
    entry_uid,
    parse_series,
    stored_series,
)
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import (
    YEARS_AHEAD,
    ExportFiles,
    Importer,
    Options,
    claim_by_start,
    parse_time_zone,
)
from importers.core.readers import FILE_MAX_BYTES, folded_to_utf8, iter_components, property_value
from importers.core.results import ExportItem, ExportItems, ReceiptCode, UnreadableError
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
from importers.core.text import one_line

CALENDAR_MAX_BYTES = FILE_MAX_BYTES // 2
_CALENDAR = re.compile(rb"^BEGIN:VCALENDAR", re.MULTILINE | re.IGNORECASE)
_EVENTS = frozenset({"VEVENT", "VTIMEZONE"})
_COMPONENTS = _EVENTS | {"VTODO", "VJOURNAL"}
_NO_UID = "\0line "
SHARED_MAX_BYTES = 32 * 1024 * 1024
"""Total size of the entries held in memory because several files contain the same event."""


def _read_files(files: ExportFiles, options: Options) -> ExportItems:
    run_limits = limits_per_run()
    shared = _entries_of_several_files(files, options, run_limits) if len(files) > 1 else {}
    return iter_items(
        files,
        partial(_read_file, options=options, run_limits=run_limits, shared=shared),
        may_be_empty=True,
    )


def _read_file(
    file: ExportFile,
    *,
    options: Options,
    run_limits: ExpansionLimits,
    shared: dict[str, list[Entry]],
) -> ExportItems:
    entries_by_uid = group_by_uid(_entries(file, options, run_limits))
    if not entries_by_uid:
        raise UnreadableError(ReceiptCode.EMPTY)
    for uid, entries in entries_by_uid.items():
        if uid in shared:  # the first of its files yields it
            entries, shared[uid] = shared[uid], []
        if entries:
            size = sum(entry.component.size for entry in entries)
            location = f"line {entries[0].component.line:,}"
            yield ExportItem(file.name, location, size, partial(parse_series, entries))


def _entries(file: ExportFile, options: Options, run_limits: ExpansionLimits) -> list[Entry]:
    content = folded_to_utf8(file.read(max_bytes=CALENDAR_MAX_BYTES))
    stored = stored_series(options.series_keys)
    return parse_calendar(
        content, file.path.stem, options, run_limits, lambda: stored, names=_COMPONENTS
    )


def calendar_name(content: bytes) -> str:
    """Return the name that a calendar has for itself, or an empty text."""
    return one_line(property_value(content[:65536], "X-WR-CALNAME") or "")


def parse_calendar(
    content: bytes,
    name: str,
    options: Options,
    run_limits: ExpansionLimits,
    stored: StoredSeries,
    *,
    names: frozenset[str] = _EVENTS,
) -> list[Entry]:
    """Return the events of an iCalendar text in UTF-8. ``stored`` as in ``Calendar``.

    A text of several calendars has zones and a name for each; ``name`` is for those without one.
    """
    entries: list[Entry] = []
    limits = limits_per_file(run_limits)
    line, starts = 0, [match.start() for match in _CALENDAR.finditer(content)]
    for start, end in pairwise([0, *starts[1:], len(content)]):
        components = list(iter_components(content[start:end], names=names))
        zones = [component for component in components if component.name == "VTIMEZONE"]
        head = content[start : min(end, start + 65536)]
        own_name = calendar_name(head)
        calendar = Calendar(
            name=own_name or one_line(name),
            zones=TimeZones(zones, floating=_default_zone(head) or options.zone),
            window=Window.from_options(options),
            limits=limits,
            stored=stored,
            method=(property_value(head, "METHOD") or "").upper(),
            has_name=bool(own_name),
        )
        entries += [
            Entry(component._replace(line=component.line + line), calendar)
            for component in components
            if component.name != "VTIMEZONE"
        ]
        line += content.count(b"\n", start, end)
    return entries


def _entries_of_several_files(
    files: ExportFiles, options: Options, run_limits: ExpansionLimits
) -> dict[str, list[Entry]]:
    """Return the entries of events that are in several files, such as later changes of one."""
    uids, shared, size = set[str](), dict[str, list[Entry]](), 0
    for is_second_pass in (False, True):
        for file in files:
            groups: dict[str, list[Entry]] = {}
            with suppress(Exception):  # reading it again reports it
                groups = group_by_uid(_entries(file, options, run_limits))
            for uid, entries in groups.items():
                if is_second_pass and uid in shared and size < SHARED_MAX_BYTES:
                    shared[uid] += entries
                    size += sum(entry.component.size for entry in entries)
                elif not is_second_pass and uid in uids and not uid.startswith(_NO_UID):
                    shared[uid] = []
            uids.update(groups)
        if not shared:
            break
    return {uid: entries for uid, entries in shared.items() if size < SHARED_MAX_BYTES}


def _default_zone(content: bytes) -> tzinfo | None:
    """Return the zone for times without a zone, which Google exports name."""
    name = property_value(content[:65536], "X-WR-TIMEZONE")
    try:
        return parse_time_zone(name) if name else None
    except InvalidRequest:
        return None


def group_by_uid(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Group events with their overrides, which can be anywhere in the file."""
    series: dict[str, list[Entry]] = {}
    for entry in entries:
        uid = entry_uid(entry) or f"{_NO_UID}{entry.component.line}"
        series.setdefault(uid, []).append(entry)
    return series


ICALENDAR = Importer(
    claim=claim_by_start(b"BEGIN:VCALENDAR", ".ics", ".ical", ".ifb"),
    read=_read_files,
)


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
            lines = (entry.component.text or b"").splitlines()
            stable = (line for line in lines if not line.upper().startswith(_VOLATILE))
            digest.update(b"\n".join(stable))
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


ICALENDAR_FEED = Source(run=_read, containers=_containers)
