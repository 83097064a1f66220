"""Import contacts from vCard files, versions 2.1 to 4.0."""

import codecs
import io
from functools import partial
from hashlib import sha256
from typing import Any

import vobject

from importers import contact_values
from importers.contact_values import first_value, flatten, values
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import Importer, claim_by_start
from importers.core.readers import (
    FILE_MAX_BYTES,
    Component,
    close_component,
    iter_components,
    unfold,
)
from importers.core.results import (
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
)
from importers.core.text import (
    decode,
    one_line,
    replace_unstorable,
    to_utf8,
    truncate,
)


def _read_file(file: ExportFile) -> ExportItems:
    content = file.read(max_bytes=FILE_MAX_BYTES).removeprefix(codecs.BOM_UTF8)
    if b"\0" in content[:200]:  # UTF-16; cards in other charsets are decoded one by one
        content = to_utf8(content)
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")
    for card in iter_components(content, names=frozenset({"VCARD"})):
        yield ExportItem(file.name, f"line {card.line:,}", card.size, partial(_contact, card))


def parse_card(content: bytes) -> ParsedItem:
    """Parse the first card of a text. Raises ``UnreadableError``."""
    for card in iter_components(content, names=frozenset({"VCARD"})):
        return _contact(card)
    raise UnreadableError(ReceiptCode.EMPTY)


def _contact(component: Component) -> ParsedItem:
    if component.text is None:
        raise UnreadableError(ReceiptCode.TOO_LARGE)
    text = _decode(component.text)
    card = _parse_card(text)
    name = _name_or_address(card)
    if name is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    item = ParsedItem([ParsedRecord("contacts", _fields(card, _key(card, name)))])
    _add_issues(item, card, text)
    return item


def _add_issues(item: ParsedItem, card: Any, text: str) -> None:
    if (written := first_value(card, "rev")) and item.records[0].data["updated_at"] is None:
        item.add_issue(ReceiptCode.BAD_DATE, detail=f"REV:{written[:40]}")
    for line, number in vobject.base.getLogicalLines(io.StringIO(text), allowQP=True):
        if ":" not in line:
            item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=f"line {number}: {line[:40]}")


def _decode(content: bytes) -> str:
    """Decode a card, whose lines may be folded within a character."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        try:
            return replace_unstorable(unfold(content).decode())
        except UnicodeDecodeError:
            return decode(content)


def _parse_card(text: str) -> Any:
    """Parse a card. Raises ``UnreadableError``."""
    try:
        return vobject.readOne(close_component(text, "VCARD"), allowQP=True, ignoreUnreadable=True)
    except Exception as error:
        raise UnreadableError(ReceiptCode.MALFORMED, detail=str(error)[:100]) from error


def _key(card: Any, name: str) -> str:
    organization = first_value(card, "org") or ""
    addresses = (*sorted(values(card, "email")), *sorted(values(card, "tel")))
    identity = first_value(card, "uid") or "\0".join([name, organization, *addresses])
    return f"c_{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:24]}"


def _fields(card: Any, key: str) -> dict[str, Any]:
    contact_values.keep_paths(card)
    emails, phones = contact_values.emails(card), contact_values.phones(card)
    parts = _name_parts(card, "prefix", "given", "additional", "family", "suffix")
    names = (first_value(card, "fn"), " ".join(parts), first_value(card, "org"), *emails, *phones)
    given, family = _name_parts(card, "given"), _name_parts(card, "family")
    return {
        "id": key,
        "name": next(filter(None, names), None),
        "given_name": " ".join(given) or None,
        "family_name": " ".join(family) or None,
        "nickname": first_value(card, "nickname"),
        "organization": first_value(card, "org"),
        "job_title": first_value(card, "title"),
        "emails": emails,
        "phones": phones,
        "addresses": contact_values.addresses(card),
        "urls": contact_values.urls(card),
        "instant_messages": contact_values.instant_messages(card),
        "birthday": contact_values.date(card, "bday"),
        "anniversary": contact_values.date(card, "anniversary"),
        "related": contact_values.related(card),
        "categories": _categories(card),
        "note": _note(card),
        "kind": contact_values.kind(card),
        "uid": contact_values.bare_uid(first_value(card, "uid") or "") or None,
        "members": contact_values.members(card),
        "labels": contact_values.labels(card),
        "other_values": contact_values.other_values(card),
        "updated_at": contact_values.updated_at(card),
    }


def _categories(card: Any) -> list[str]:
    categories = ", ".join(values(card, "categories")).split(",")
    return list(dict.fromkeys(filter(None, map(str.strip, categories))))


def _note(card: Any) -> str | None:
    lines = card.contents.get("note", [])
    note, _ = truncate("\n".join(replace_unstorable(str(line.value)) for line in lines))
    return note.strip() or None


def _name_or_address(card: Any) -> str | None:
    formatted, name = first_value(card, "fn"), " ".join(_name_parts(card, "given", "family"))
    others = (first_value(card, each) for each in ("org", "email", "tel"))
    return formatted or name or next(filter(None, others), None)


def _name_parts(card: Any, *parts: str) -> list[str]:
    """Return the parts of the structured name that are not empty."""
    lines = card.contents.get("n", [])
    found = (getattr(lines[0].value, part, "") or "" for part in parts) if lines else ()
    return [part for each in found if (part := one_line(replace_unstorable(flatten(each))))]


VCARD = Importer(
    claim=claim_by_start(b"BEGIN:VCARD", ".vcf", ".vcard"),
    read=lambda files, _options: iter_items(files, _read_file),
)
