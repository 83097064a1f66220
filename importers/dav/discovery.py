"""Find the calendars or address books of an account (RFC 6764, RFC 4791, RFC 6352)."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urljoin, urlsplit

from importers.core.source import ProblemCode, SourceError
from importers.core.source_http import DAV, HttpClient, Resource, list_resources

CALDAV = "{urn:ietf:params:xml:ns:caldav}"
CARDDAV = "{urn:ietf:params:xml:ns:carddav}"
PRINCIPAL = f"{DAV}current-user-principal"
KIND, NAME = f"{DAV}resourcetype", f"{DAV}displayname"
COMPONENTS = f"{CALDAV}supported-calendar-component-set"
_NOT_HERE = (ProblemCode.NOT_FOUND, ProblemCode.SERVER_REFUSED, ProblemCode.WRONG_CONTENT)


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
