"""Keep calendars and contacts up to date over CalDAV and CardDAV (RFC 6764, RFC 4791, RFC 6352).

Their records are those of an import of the same events and cards. With sync tokens (RFC 6578) the
server names the changes; without, or when it has forgotten a token, the ETags of all entries are
compared with those that were read.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import tzinfo
from functools import partial
from hashlib import sha256
from urllib.parse import quote, unquote, urljoin, urlsplit
from xml.etree import ElementTree as ET

from evidence.errors import InvalidRequest
from importers.calendar.icalendar import group_by_uid, horizon_year, lazy_series, parse_calendar
from importers.calendar.recurrence import ExpansionLimits, limits_per_run
from importers.calendar.series import StoredSeries, parse_series
from importers.contacts import parse_card
from importers.core.importer import UTC_ZONE, Options, parse_time_zone
from importers.core.readers import property_value
from importers.core.results import (
    ExportItem,
    ParsedItem,
    ReceiptCode,
    issue_only,
)
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
from importers.core.source_http import (
    DAV,
    LISTING_MAX_BYTES,
    XML_HEADERS,
    HttpClient,
    HttpResponse,
    Resource,
    TooLargeError,
    basic_authorization,
    list_resources,
    parse_multistatus,
    require_success,
)

CALDAV = "{urn:ietf:params:xml:ns:caldav}"
CARDDAV = "{urn:ietf:params:xml:ns:carddav}"
PRINCIPAL = f"{DAV}current-user-principal"
KIND, NAME = f"{DAV}resourcetype", f"{DAV}displayname"
COMPONENTS = f"{CALDAV}supported-calendar-component-set"
_NOT_HERE = (ProblemCode.NOT_FOUND, ProblemCode.SERVER_REFUSED, ProblemCode.WRONG_CONTENT)
TOKEN, ETAG, MODIFIED = f"{DAV}sync-token", f"{DAV}getetag", f"{DAV}getlastmodified"
KIND, CTAG = f"{DAV}resourcetype", "{http://calendarserver.org/ns/}getctag"
FETCH_ENTRIES = 50
FETCH_BYTES = 32 * 1024 * 1024
MAX_REPORTS = 1_000
"""Parts in which a server may name the changes since one token."""
NOT_FOUND, TOO_MANY = 404, 507
PATH_CHARACTERS = "/@:!$&'()*+,;=~"
_REFUSED = (401, 429)
"""Statuses of a report that do not mean that the token is invalid."""
Parse = Callable[[bytes, Resource], ParsedItem]
TIME_ZONE = f"{CALDAV}calendar-timezone"
_OTHER_NAME = re.compile(rb"^X-WR-CALNAME[;:].*\n(?:[ \t].*\n)*", re.MULTILINE | re.IGNORECASE)
"""The name of the calendar in which an event was before."""


@dataclass(frozen=True, slots=True)
class Service:
    """The names of a protocol: its path, the property with the homes, and the collections."""

    path: str
    home_set: str
    collection: str


CALENDARS = Service("/.well-known/caldav", f"{CALDAV}calendar-home-set", f"{CALDAV}calendar")
ADDRESS_BOOKS = Service(
    "/.well-known/carddav", f"{CARDDAV}addressbook-home-set", f"{CARDDAV}addressbook"
)  # fmt: skip


def find_collections(client: HttpClient, service: Service) -> list[Resource]:
    """Return the collections of the account, or the one at its address. Raises ``SourceError``."""
    found: dict[str, Resource] = {}
    for home in _homes(client, service):
        for each in list_resources(client, home, (KIND, NAME, COMPONENTS), depth=1):
            if _is_wanted(each, service):
                found.setdefault(each.url, each)
    return list(found.values())


def collection_name(collection: Resource) -> str:
    """Return the name that the owner gave it, or the last part of its path."""
    path = urlsplit(collection.url).path.rstrip("/")
    return collection.text(NAME) or unquote(path.rpartition("/")[2])


def _homes(client: HttpClient, service: Service) -> list[str]:
    failure = SourceError(ProblemCode.NOT_FOUND, urlsplit(client.url).path[:200])
    for url in _starts(client, service):
        try:
            first = list_resources(client, url, (PRINCIPAL, service.home_set, KIND), depth=0)
        except SourceError as error:
            if error.code not in _NOT_HERE:
                raise
            failure = error
            continue
        for resource in first[:1]:
            if _is_wanted(resource, service):
                return [resource.url]
            if homes := list(_references(client, resource, service.home_set)):
                return homes
            for principal in _references(client, resource, PRINCIPAL):
                (found,) = list_resources(client, principal, (service.home_set,), depth=0)[:1]
                return list(_references(client, found, service.home_set))
    raise failure


def _starts(client: HttpClient, service: Service) -> list[str]:
    """Return the entered address, and the well-known one of its server; first if it has no path."""
    well_known = urljoin(client.url, service.path)
    if urlsplit(client.url).path in ("", "/"):
        return [well_known, client.url]
    return [client.url, well_known]


def _references(client: HttpClient, resource: Resource, name: str) -> Iterator[str]:
    found = resource.properties.get(name)
    for each in () if found is None else found.findall(f"{DAV}href"):
        if href := (each.text or "").strip():
            yield client.resolve(resource.url, href)


def _is_wanted(resource: Resource, service: Service) -> bool:
    """Return whether it is a collection of the service; of calendars, one that can have events."""
    kind = resource.properties.get(KIND)
    if kind is None or kind.find(service.collection) is None:
        return False
    components = resource.properties.get(COMPONENTS)
    names = [] if components is None else [each.get("name") for each in components]
    return not names or "VEVENT" in names


@dataclass(frozen=True, slots=True)
class Entries:
    """What the collections of a protocol contain.

    ``multiget`` and ``data`` are its names. ``basis`` is on what records depend besides the entry:
    when it changes, all are read again. ``parse`` gets the collection with its ``properties``.
    """

    multiget: str
    data: str
    parse: Parse
    basis: str = ""
    properties: tuple[str, ...] = ()


@dataclass(slots=True)
class CollectionState:
    """What is read of a collection: everything up to the token or the change tag."""

    basis: str = ""
    token: str = ""
    ctag: str = ""


@dataclass(slots=True)
class _Changes:
    """ETags of changed entries by ref, entries that are gone, and the state after them."""

    etags: dict[str, str] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    token: str = ""


class CollectionRun:
    """One pass over the chosen collections."""

    def __init__(self, run: SourceRun, client: HttpClient, entries: Entries) -> None:
        self._run = run
        self._client = client
        self._entries = entries
        self._states = {
            name: CollectionState(**values)
            for name, values in run.state.get("collections", {}).items()
            if name in run.settings["containers"]
        }
        self._container = ""
        self._done = self._total = 0

    def events(self) -> Iterator[Event]:
        missing = []
        for container in self._run.settings["containers"]:
            self._container = container
            try:
                yield from self._collection()
            except SourceError as error:
                if error.code is not ProblemCode.NOT_FOUND:
                    raise
                missing.append(unquote(urlsplit(container).path))
        yield self._checkpoint(ends_pass=True)
        if missing:
            raise SourceError(ProblemCode.CONTAINER_MISSING, ", ".join(missing))

    def _collection(self) -> Iterator[Event]:
        container = self._container
        url = self._client.resolve(self._client.url, container)
        names = (NAME, TOKEN, CTAG, *self._entries.properties)
        (collection,) = list_resources(self._client, url, names, depth=0)[:1]
        before, now = self._states.get(container, CollectionState()), self._state(collection)
        if before == now and (now.token or now.ctag):
            return
        changes = None
        if before.token and before.basis == now.basis:
            changes = self._changes_since(url, before.token)
        if changes is None:
            changes = self._compare(url, now.token)
        known = self._run.known(container, list(changes.etags))
        refs = [
            ref for ref, etag in changes.etags.items() if known.get(ref) != _mark(now.basis, etag)
        ]
        self._total += len(refs)
        for start in range(0, len(refs), FETCH_ENTRIES):
            yield from self._fetch(collection, now.basis, refs[start : start + FETCH_ENTRIES])
            yield self._checkpoint()
        yield from (Gone(container, ref) for ref in changes.gone)
        now.token = changes.token
        self._states[container] = now
        yield self._checkpoint()

    def _state(self, collection: Resource) -> CollectionState:
        names = (NAME, *self._entries.properties)
        basis = "\0".join([self._entries.basis, *(collection.text(name) for name in names)])
        digest = sha256(basis.encode()).hexdigest()[:32]
        return CollectionState(digest, collection.text(TOKEN), collection.text(CTAG))

    def _changes_since(self, url: str, token: str) -> _Changes | None:
        """Return what changed since a token, or None if the server has forgotten it."""
        changes = _Changes(token=token)
        for _ in range(MAX_REPORTS):
            body = ET.Element(f"{DAV}sync-collection")
            ET.SubElement(body, TOKEN).text = changes.token
            ET.SubElement(body, f"{DAV}sync-level").text = "1"
            ET.SubElement(ET.SubElement(body, f"{DAV}prop"), ETAG)
            response = self._report(url, body, LISTING_MAX_BYTES)
            if response.status >= 400 and response.status not in _REFUSED:
                return None
            require_success(response)
            found = parse_multistatus(self._client, response)
            has_more = False
            for each in found.resources:
                ref = _ref(url, each.url)
                if not ref:
                    has_more |= each.status == TOO_MANY
                elif each.status == NOT_FOUND:
                    changes.etags.pop(ref, None)
                    changes.gone.append(ref)
                else:
                    changes.etags[ref] = _etag(each)
            is_new = found.token != changes.token
            changes.token = found.token
            if not has_more or not is_new:
                return changes
        return None

    def _compare(self, url: str, token: str) -> _Changes:
        """Return all entries as changed, and those of the known ones that are gone.

        The token is from before, so that nothing falls between.
        """
        changes = _Changes(token=token)
        for each in list_resources(self._client, url, (ETAG, MODIFIED, KIND), depth=1):
            if (ref := _ref(url, each.url)) and not each.is_collection:
                changes.etags[ref] = _etag(each)
        changes.gone = [
            ref for ref in self._run.known(self._container, None) if ref not in changes.etags
        ]
        return changes

    def _fetch(self, collection: Resource, basis: str, refs: Sequence[str]) -> Iterator[Event]:
        """Read entries; one that is gone by now is in the changes of the next pass."""
        try:
            found = self._multiget(collection.url, refs)
        except TooLargeError:
            if len(refs) > 1:
                middle = len(refs) // 2
                yield from self._fetch(collection, basis, refs[:middle])
                yield from self._fetch(collection, basis, refs[middle:])
                return
            parse = issue_only(ReceiptCode.TOO_LARGE)
            yield self._item(collection, refs[0], _mark(basis, ""), 0, parse)
            return
        for each in found:
            ref, content = _ref(collection.url, each.url), each.text(self._entries.data).encode()
            if ref in refs and content:
                parse = partial(self._entries.parse, content, collection)
                yield self._item(collection, ref, _mark(basis, _etag(each)), len(content), parse)
        self._done += len(refs)

    def _item(
        self,
        collection: Resource,
        ref: str,
        mark: str,
        size: int,
        parse: Callable[[], ParsedItem],
    ) -> Item:
        content = ExportItem(collection_name(collection), ref, size, parse)
        return Item(self._container, ref, mark, content)

    def _multiget(self, url: str, refs: Sequence[str]) -> Sequence[Resource]:
        body = ET.Element(self._entries.multiget)
        properties = ET.SubElement(body, f"{DAV}prop")
        for name in (ETAG, MODIFIED, self._entries.data):
            ET.SubElement(properties, name)
        for ref in refs:
            folder = urlsplit(url).path.rstrip("/")
            ET.SubElement(body, f"{DAV}href").text = f"{folder}/{quote(ref, safe=PATH_CHARACTERS)}"
        response = self._report(url, body, FETCH_BYTES)
        require_success(response)
        return parse_multistatus(self._client, response).resources

    def _report(self, url: str, body: ET.Element, max_bytes: int) -> HttpResponse:
        content = ET.tostring(body, encoding="utf-8", xml_declaration=True)
        return self._client.request(
            "REPORT", url, headers={**XML_HEADERS, "Depth": "0"}, body=content, max_bytes=max_bytes
        )

    def _checkpoint(self, *, ends_pass: bool = False) -> Checkpoint:
        states: Mapping[str, object] = {name: asdict(each) for name, each in self._states.items()}
        return Checkpoint({"collections": states}, self._done, self._total, ends_pass=ends_pass)


def _ref(collection: str, url: str) -> str:
    """Return the path of an entry in its collection, or an empty text if it is not in it."""
    base = unquote(urlsplit(collection).path).rstrip("/") + "/"
    path = unquote(urlsplit(url).path)
    return path.removeprefix(base) if path.startswith(base) else ""


def _etag(resource: Resource) -> str:
    return resource.text(ETAG) or resource.text(MODIFIED)


def _mark(basis: str, etag: str) -> str:
    return sha256(f"{basis}\0{etag}".encode()).hexdigest()[:32]


CARDS = Entries(
    f"{CARDDAV}addressbook-multiget",
    f"{CARDDAV}address-data",
    lambda content, _address_book: parse_card(content),
)


def _read_calendars(run: SourceRun) -> Iterator[Event]:
    year = horizon_year(run)
    parse = partial(_parse, year=year, limits=limits_per_run(), stored=lazy_series(run))
    entries = Entries(
        f"{CALDAV}calendar-multiget", f"{CALDAV}calendar-data", parse, str(year), (TIME_ZONE,)
    )
    yield from _read(run, entries)


def _read(run: SourceRun, entries: Entries) -> Iterator[Event]:
    with _sign_in(run) as client:
        yield from CollectionRun(run, client, entries).events()


def _sign_in(run: SourceRun) -> HttpClient:
    authorization = basic_authorization(run.settings["user"], run.credential["password"])
    return HttpClient(run.network, run.settings["url"], authorization, run.hosts)


def _parse(
    content: bytes,
    calendar: Resource,
    *,
    year: int,
    limits: ExpansionLimits,
    stored: StoredSeries,
) -> ParsedItem:
    options = Options(horizon_year=year, zone=_default_zone(calendar))
    name = collection_name(calendar)
    content = _OTHER_NAME.sub(b"", content)
    item = ParsedItem()
    entries = parse_calendar(content, name, options, limits, stored)
    for group in group_by_uid(entries).values():
        found = parse_series(group)
        item.records += found.records
        item.issues += found.issues
        item.stale += found.stale
    return item


def _default_zone(calendar: Resource) -> tzinfo:
    """Return the zone of the calendar, for times without one."""
    name = property_value(calendar.text(TIME_ZONE).encode(), "TZID")
    try:
        return parse_time_zone(name) if name else UTC_ZONE
    except InvalidRequest:
        return UTC_ZONE


def _list(run: SourceRun, *, service: Service) -> list[Container]:
    """Return what the owner can choose."""
    with _sign_in(run) as client:
        found = find_collections(client, service)
    here = urljoin(client.url, "/")
    return [
        # The path alone, unless another server has it.
        Container(f"/{each.url.removeprefix(here)}", collection_name(each), is_usual=True)
        if each.url.startswith(here)
        else Container(each.url, collection_name(each), is_usual=True)
        for each in found
    ]


CALENDAR_ACCOUNT = Source(run=_read_calendars, containers=partial(_list, service=CALENDARS))
CONTACT_ACCOUNT = Source(
    run=partial(_read, entries=CARDS), containers=partial(_list, service=ADDRESS_BOOKS)
)
