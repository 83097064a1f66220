"""vCard: each card is a contact."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any

import vobject

from importers.core.export_files import Entry, each
from importers.core.importer import Entries, Kind, Options
from importers.core.results import Code, Item, Piece, Pieces, Row, UnreadableError
from importers.core.streaming import FILE_BYTES, Component, iter_components
from importers.core.text import cut, decoded, one_line, storable

# It would quote whatever it cannot read in the server's log.
logging.getLogger("vobject.base").setLevel(logging.CRITICAL)


def _claim(entries: Entries) -> list[Entry]:
    return [
        entry
        for entry in entries
        if entry.suffix in (".vcf", ".vcard")
        or entry.head.lstrip(b"\xef\xbb\xbf \r\n")[:11].upper() == b"BEGIN:VCARD"
    ]


def _read(entries: Entries, options: Options) -> Pieces:
    return each(entries, _file)


def _file(entry: Entry) -> Pieces:
    for block in iter_components(entry.read(most=FILE_BYTES), names=frozenset({"VCARD"})):
        yield Piece(entry.name, f"line {block.line:,}", block.size, partial(_contact, block))


def _contact(block: Component) -> Item:
    if block.text is None:
        raise UnreadableError(Code.TOO_LARGE)
    try:
        card = vobject.readOne(_ended(decoded(block.text)), allowQP=True, ignoreUnreadable=True)
    except Exception as error:
        raise UnreadableError(Code.MALFORMED, detail=str(error)[:100]) from error
    emails, phones = _values(card, "email"), _values(card, "tel")
    name = _name(card) or next(iter(emails), None) or next(iter(phones), None)
    if name is None:
        raise UnreadableError(Code.NO_IDENTITY)
    organization = next(iter(_values(card, "org")), None)
    identity = next(iter(_values(card, "uid")), None) or "\0".join(
        [name, organization or "", *sorted(emails), *sorted(phones)]
    )
    return Item(
        [
            Row(
                "contacts",
                {
                    "id": f"c_{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:24]}",
                    "name": name,
                    **_parts(card),
                    "nickname": next(iter(_values(card, "nickname")), None),
                    "organization": organization,
                    "job_title": next(iter(_values(card, "title")), None),
                    "emails": emails,
                    "phones": phones,
                    "addresses": _values(card, "adr"),
                    "urls": _values(card, "url"),
                    "birthday": next(iter(_values(card, "bday")), None),
                    "categories": _categories(card),
                    "note": _note(card),
                    "updated_at": _revised(card),
                },
            )
        ]
    )


def _ended(text: str) -> str:
    """A card that the next one cut off is one all the same."""
    return text if text.rstrip().upper().endswith("END:VCARD") else f"{text.rstrip()}\nEND:VCARD"


def _values(card: Any, name: str) -> list[str]:
    """Every value of a property, on a line each."""
    found = (one_line(storable(_flat(line.value))) for line in card.contents.get(name, []))
    return list(dict.fromkeys(filter(None, found)))


def _categories(card: Any) -> list[str]:
    stated = ", ".join(_values(card, "categories"))
    return list(dict.fromkeys(filter(None, map(str.strip, stated.split(",")))))


def _note(card: Any) -> str | None:
    note, _ = cut("\n".join(storable(str(line.value)) for line in card.contents.get("note", [])))
    return note.strip() or None


def _flat(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ", ".join(filter(None, map(str, value)))
    parts = ("street", "extended", "box", "code", "city", "region", "country")
    if any(hasattr(value, part) for part in parts):
        texts = (_flat(getattr(value, part, "") or "") for part in parts)
        return ", ".join(filter(None, texts))
    return str(value)


def _name(card: Any) -> str | None:
    stated = next(iter(_values(card, "fn")), None)
    if stated:
        return stated
    parts = _parts(card)
    both = filter(None, (parts["given_name"], parts["family_name"]))
    return " ".join(both) or next(iter(_values(card, "org")), None)


def _parts(card: Any) -> dict[str, str | None]:
    lines = card.contents.get("n", [])
    value = lines[0].value if lines else None
    return {
        "given_name": one_line(storable(_flat(getattr(value, "given", "") or ""))) or None,
        "family_name": one_line(storable(_flat(getattr(value, "family", "") or ""))) or None,
    }


def _revised(card: Any) -> str | None:
    for stated in _values(card, "rev"):
        for form in ("%Y-%m-%dT%H:%M:%S%z", "%Y%m%dT%H%M%S%z"):
            try:
                return datetime.strptime(stated, form).astimezone(UTC).isoformat()
            except ValueError:
                continue
    return None


VCARD = Kind(
    name="vcard",
    title="contacts (vCard)",
    source="contacts",
    label="Contacts",
    claim=_claim,
    read=_read,
)
