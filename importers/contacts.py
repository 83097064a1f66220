"""Import contacts from vCard files, versions 2.1 to 4.0."""

import codecs
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any

import vobject

from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import Importer, claim_by_start
from importers.core.results import (
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
)
from importers.core.streaming import (
    FILE_MAX_BYTES,
    Component,
    close_component,
    iter_components,
    unfold,
)
from importers.core.text import (
    decode,
    decode_as_before,
    one_line,
    replace_unstorable,
    to_utf8,
    truncate,
)

# vobject logs the content of lines that it cannot parse.
logging.getLogger("vobject.base").setLevel(logging.CRITICAL)


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
    name = _name(card) or next(iter([*_values(card, "email"), *_values(card, "tel")]), None)
    if name is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    key, old_text = _key(card, name), decode_as_before(component.text)
    old_card = card if old_text == text else _parse_card(old_text)
    old_key = _key(old_card, _name(old_card) or name)
    record = ParsedRecord(
        "contacts", _fields(card, key, name), () if old_key == key else (old_key,)
    )
    return ParsedItem([record])


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
    identity = _first_value(card, "uid") or "\0".join(
        [
            name,
            _first_value(card, "org") or "",
            *sorted(_values(card, "email")),
            *sorted(_values(card, "tel")),
        ]
    )
    return f"c_{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:24]}"


def _fields(card: Any, key: str, name: str) -> dict[str, Any]:
    return {
        "id": key,
        "name": name,
        **_name_parts(card),
        "nickname": _first_value(card, "nickname"),
        "organization": _first_value(card, "org"),
        "job_title": _first_value(card, "title"),
        "emails": _values(card, "email"),
        "phones": [value.removeprefix("tel:") for value in _values(card, "tel")],
        "addresses": _values(card, "adr"),
        "urls": _values(card, "url"),
        "birthday": _birthday(card),
        "categories": _categories(card),
        "note": _note(card),
        "updated_at": _updated_at(card),
    }


def _values(card: Any, name: str) -> list[str]:
    lines = card.contents.get(name, [])
    values = (one_line(replace_unstorable(_flatten(line.value))) for line in lines)
    return list(dict.fromkeys(filter(None, values)))


def _first_value(card: Any, name: str) -> str | None:
    return next(iter(_values(card, name)), None)


def _birthday(card: Any) -> str | None:
    """Return the birthday; Apple names a year that stands for none."""
    value = _first_value(card, "bday")
    for line in card.contents.get("bday", []):
        for year in line.params.get("X-APPLE-OMIT-YEAR", []):
            if value and value.startswith(year):
                return f"--{value[len(year) :].lstrip('-')}"
    return value


def _categories(card: Any) -> list[str]:
    categories = ", ".join(_values(card, "categories")).split(",")
    return list(dict.fromkeys(filter(None, map(str.strip, categories))))


def _note(card: Any) -> str | None:
    lines = card.contents.get("note", [])
    note, _ = truncate("\n".join(replace_unstorable(str(line.value)) for line in lines))
    return note.strip() or None


def _flatten(value: Any) -> str:
    """Join the parts of a structured value, such as an address, with commas."""
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ", ".join(filter(None, map(str, value)))
    parts = ("street", "extended", "box", "code", "city", "region", "country")
    if any(hasattr(value, part) for part in parts):
        texts = (_flatten(getattr(value, part, "") or "") for part in parts)
        return ", ".join(filter(None, texts))
    return str(value)


def _name(card: Any) -> str | None:
    formatted = _first_value(card, "fn")
    if formatted:
        return formatted
    parts = _name_parts(card)
    return " ".join(filter(None, parts.values())) or _first_value(card, "org")


def _name_parts(card: Any) -> dict[str, str | None]:
    lines = card.contents.get("n", [])
    value = lines[0].value if lines else None
    parts = {"given_name": "given", "family_name": "family"}
    return {
        name: one_line(replace_unstorable(_flatten(getattr(value, part, "") or ""))) or None
        for name, part in parts.items()
    }


def _updated_at(card: Any) -> str | None:
    for text in _values(card, "rev"):
        for date_format in ("%Y-%m-%dT%H:%M:%S%z", "%Y%m%dT%H%M%S%z"):
            try:
                return datetime.strptime(text, date_format).astimezone(UTC).isoformat()
            except ValueError:
                continue
    return None


VCARD = Importer(
    claim=claim_by_start(b"BEGIN:VCARD", ".vcf", ".vcard"),
    read=lambda files, _options: iter_items(files, _read_file),
)
