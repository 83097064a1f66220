"""Answers of a CalDAV server for tests that need one to be unusual."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from importers.authoring.https_server import Answer

HEAD = (
    '<?xml version="1.0"?><d:multistatus xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"'
    ' xmlns:s="http://calendarserver.org/ns/">'
)


def response(href: str, properties: str = "", status: int = 200) -> str:
    if status != 200:
        line = f"<d:status>HTTP/1.1 {status} x</d:status>"
        return f"<d:response><d:href>{href}</d:href>{line}</d:response>"
    found = f"<d:prop>{properties}</d:prop><d:status>HTTP/1.1 200 OK</d:status>"
    return f"<d:response><d:href>{href}</d:href><d:propstat>{found}</d:propstat></d:response>"


def multistatus(*responses: str, token: str = "") -> Answer:
    end = f"<d:sync-token>{token}</d:sync-token>" if token else ""
    return (207, {}, f"{HEAD}{''.join(responses)}{end}</d:multistatus>".encode())


@dataclass
class DavAnswers:
    """A server with one calendar. ``home`` is where the principal says that calendars are.

    ``reports`` are the answers to sync-collection in order; without, the report is refused.
    """

    home: str = "/home/"
    events: dict[str, str] = field(default_factory=dict)
    token: str = ""
    ctag: str = ""
    reports: list[Answer] = field(default_factory=list)
    well_known: Answer = (301, {"Location": "/"}, b"")
    asked: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if "authorization" not in headers:
            return (401, {}, b"")
        self.asked.append(f"{method} {path} {headers.get('depth', '')}".strip())
        if path.startswith("/.well-known/"):
            return self.well_known
        if method == "REPORT":
            return self._report(body)
        if path == "/":
            principal = "<d:current-user-principal><d:href>/me/</d:href></d:current-user-principal>"
            return multistatus(response("/", principal))
        if path == "/me/":
            home = f"<c:calendar-home-set><d:href>{self.home}</d:href></c:calendar-home-set>"
            return multistatus(response("/me/", home))
        is_listing = headers["depth"] == "1"
        if path == "/home/":
            return multistatus(response("/home/"), self._calendar())
        entries = self.events if is_listing and path == "/home/work/" else {}
        listed = (response(f"/home/work/{name}", _etag(text)) for name, text in entries.items())
        return multistatus(self._calendar(), *listed)

    def _calendar(self) -> str:
        kind = "<d:resourcetype><d:collection/><c:calendar/></d:resourcetype>"
        name = "<d:displayname>Work</d:displayname>"
        tags = f"<d:sync-token>{self.token}</d:sync-token><s:getctag>{self.ctag}</s:getctag>"
        return response("/home/work/", kind + name + tags)

    def _report(self, body: bytes) -> Answer:
        if b"sync-collection" in body:
            return self.reports.pop(0) if self.reports else (403, {}, b"")
        found = [
            response(
                f"/home/work/{name}",
                f"{_etag(text)}<c:calendar-data>{escape(text)}</c:calendar-data>",
            )
            for name, text in self.events.items()
            if f"/home/work/{name}<".encode() in body
        ]
        return multistatus(*found)


def _etag(text: str) -> str:
    return f'<d:getetag>"{hash(text)}"</d:getetag>'
