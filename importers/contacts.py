"""Import contacts from vCard files, versions 2.1 to 4.0."""

import codecs
import logging
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any

import vobject
from vobject.icalendar import stringToTextValues
from vobject.vcard import VCardBehavior, VCardTextBehavior

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
_PLAIN_COMMA = re.compile(r"(\\.)|,")


class _Text(VCardTextBehavior):  # type: ignore[misc]
    """Keeps text behind a comma without a backslash, which version 2.1 writes so.

    The library cuts it off; ``line.cut`` is what it returns, which keys of earlier releases have.
    """

    @classmethod
    def decode(cls, line: Any) -> None:
        written, was_encoded = line.value, line.encoded
        super().decode(line)
        if was_encoded:
            line.cut = line.value
            if isinstance(line.value, bytes):  # base64
                line.value = decode(line.value)
            else:
                escaped = _PLAIN_COMMA.sub(lambda found: found[1] or "\\,", written)
                line.value = stringToTextValues(escaped)[0]


VCardBehavior.defaultBehavior = _Text
for _name_of_text in ("FN", "LABEL"):
    vobject.base.registerBehavior(_Text, _name_of_text, default=True)


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
    key, old_text = _key(card, name), decode_as_before(component.text)
    old_card = card if old_text == text else _parse_card(old_text)
    old_keys = (
        _key(each, _name_or_address(each, is_cut=True) or name, is_cut=True)
        for each in (old_card, card)
    )
    replaces = tuple(dict.fromkeys(old for old in old_keys if old != key))
    return ParsedItem([ParsedRecord("contacts", _fields(card, key, name), replaces)])


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


def _key(card: Any, name: str, *, is_cut: bool = False) -> str:
    """Return the key; of an earlier release if ``is_cut``, which cut off text behind a comma."""
    values = partial(_values, card, is_cut=is_cut)
    identity = next(iter(values("uid")), None) or "\0".join(
        [name, *(values("org")[:1] or [""]), *sorted(values("email")), *sorted(values("tel"))]
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


def _values(card: Any, name: str, *, is_cut: bool = False) -> list[str]:
    lines = card.contents.get(name, [])
    found = (getattr(line, "cut", line.value) if is_cut else line.value for line in lines)
    flatten = partial(_flatten, inner=str if is_cut else _flatten)
    values = (one_line(replace_unstorable(flatten(value))) for value in found)
    return list(dict.fromkeys(filter(None, values)))


def _first_value(card: Any, name: str, *, is_cut: bool = False) -> str | None:
    return next(iter(_values(card, name, is_cut=is_cut)), None)


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


def _flatten(value: Any, *, inner: Callable[[Any], str] = str) -> str:
    """Join the parts of a structured value, such as an address, with commas."""
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ", ".join(filter(None, map(inner, value)))
    parts = ("street", "extended", "box", "code", "city", "region", "country")
    if any(hasattr(value, part) for part in parts):
        texts = (_flatten(getattr(value, part, "") or "") for part in parts)
        return ", ".join(filter(None, texts))
    return str(value)


def _name_or_address(card: Any, *, is_cut: bool = False) -> str | None:
    addresses = (_first_value(card, name, is_cut=is_cut) for name in ("email", "tel"))
    return _name(card, is_cut=is_cut) or next(filter(None, addresses), None)


def _name(card: Any, *, is_cut: bool) -> str | None:
    formatted = _first_value(card, "fn", is_cut=is_cut)
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
