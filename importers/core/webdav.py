"""List resources and their properties over WebDAV (RFC 4918)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.etree import ElementTree as ET

from importers.core.source import ProblemCode, SourceError
from importers.core.source_http import HttpClient, HttpResponse, TooLargeError, require_success

DAV = "{DAV:}"
MULTISTATUS = 207
LISTING_MAX_BYTES = 16 * 1024 * 1024
XML_HEADERS = {"Content-Type": "application/xml; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Resource:
    """A file or collection on the server, with the properties that it has by qualified name."""

    url: str
    properties: Mapping[str, ET.Element]
    status: int = 200

    @property
    def is_collection(self) -> bool:
        kind = self.properties.get(f"{DAV}resourcetype")
        return kind is not None and kind.find(f"{DAV}collection") is not None

    def text(self, name: str) -> str:
        """Return the text of a property, or "" without it."""
        found = self.properties.get(name)
        return "" if found is None else (found.text or "").strip()


def list_resources(
    client: HttpClient, url: str, names: Sequence[str], *, depth: int
) -> list[Resource]:
    """Return a resource and, with a depth of 1, what is directly in it. Raises ``SourceError``."""
    root = ET.Element(f"{DAV}propfind")
    wanted = ET.SubElement(root, f"{DAV}prop")
    for name in names:
        ET.SubElement(wanted, name)
    try:
        response = client.request(
            "PROPFIND",
            url,
            headers={**XML_HEADERS, "Depth": str(depth)},
            body=ET.tostring(root, encoding="utf-8", xml_declaration=True),
            max_bytes=LISTING_MAX_BYTES,
        )
    except TooLargeError:
        raise SourceError(ProblemCode.WRONG_CONTENT, "a folder with too many files") from None
    require_success(response)
    return parse_multistatus(client, response).resources


class Multistatus(NamedTuple):
    """The resources of a response, and its sync token if it has one (RFC 6578)."""

    resources: list[Resource]
    token: str


def parse_multistatus(client: HttpClient, response: HttpResponse) -> Multistatus:
    """Return the resources of a response. Raises ``SourceError``."""
    if response.status != MULTISTATUS or b"<!DOCTYPE" in response.body:
        raise SourceError(ProblemCode.WRONG_CONTENT, "no WebDAV")
    try:
        root = ET.fromstring(response.body)  # noqa: S314 - without a document type there are no entities
    except ET.ParseError:
        raise SourceError(ProblemCode.WRONG_CONTENT, "no WebDAV") from None
    resources = [
        Resource(client.resolve(response.url, href), _properties(each), _status(each))
        for each in root.findall(f"{DAV}response")
        if (href := (each.findtext(f"{DAV}href") or "").strip())
    ]
    return Multistatus(resources, (root.findtext(f"{DAV}sync-token") or "").strip())


def _status(response: ET.Element) -> int:
    """Return the status of a resource, which is its own only if the resource has no properties."""
    written = (response.findtext(f"{DAV}status") or "").split()
    return int(written[1]) if len(written) > 1 and written[1].isdecimal() else 200


def _properties(response: ET.Element) -> dict[str, ET.Element]:
    """Return the properties that the server found."""
    return {
        each.tag: each
        for found in response.findall(f"{DAV}propstat")
        if " 200 " in f"{found.findtext(f'{DAV}status')} "
        for each in found.findall(f"{DAV}prop/*")
    }
