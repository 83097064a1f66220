"""Import contacts from vCard files, versions 2.1 to 4.0.

What other programs put around an address, a date or a text is removed.
"""

import codecs
import io
import logging
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import getaddresses
from functools import partial
from typing import Any
from urllib.parse import unquote

import vobject
from vobject.icalendar import stringToTextValues
from vobject.vcard import VCardBehavior, VCardTextBehavior

from importers.core.export_files import ExportFile
from importers.core.importer import Importer, claim_by_start, read_each
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
    record_key,
)
from importers.core.text import (
    decode,
    one_line,
    replace_unstorable,
    to_utf8,
    truncate,
)

# vobject logs the content of lines that it cannot parse.
logging.getLogger("vobject.base").setLevel(logging.CRITICAL)
_PLAIN_COMMA = re.compile(r"(\\.)|,")
_ESCAPE = re.compile(r"\\(?:[\\,;:\"nN]|$)")
_DRIVE = re.compile(r"(?<![A-Za-z])[A-Za-z]:\\(?!\\)")
_ESCAPED_MARK = re.compile(r"\\([:,;])")
_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})")
_YEAR_OF_NONE = "1604"
"""The year that Apple writes where the year of birth is unknown."""
_APPLE_LABEL = re.compile(r"_\$!<(.*)>!\$_")
_MERGED = frozenset((
    "version", "prodid", "uid", "rev", "fn", "email", "tel", "adr", "label", "url", "impp",
    "categories", "note", "kind", "x-addressbookserver-kind", "member",
    "x-addressbookserver-member", "related", "x-abrelatednames", "x-ablabel", "x-abuid", "x-abadr",
    "sort-string", "x-imagehash", "x-imagetype", "source", "name", "profile", "clientpidmap",
))  # fmt: skip
"""Properties of which every value is in a field, or which describe the card and not the person."""
_LABELED = (("tel", "tel"), ("email", "mailto"), ("adr", ""), ("url", ""))
"""Properties that have labels, with the scheme that is left out."""
_NO_LABELS = frozenset(("", "pref", "voice", "internet", "uri", "x-mobileme"))
_FIRST = frozenset(("n", "nickname", "org", "title", "bday", "anniversary"))
"""Properties of which the first value is in a field."""


class _Text(VCardTextBehavior):  # type: ignore[misc]
    """Keeps text behind a comma without a backslash, which version 2.1 writes so.

    The library cuts it off. A text with a backslash that escapes nothing, such as a path, was not escaped by its writer.
    """

    @classmethod
    def decode(cls, line: Any) -> None:
        written, was_encoded = line.value, line.encoded
        super().decode(line)
        if was_encoded:
            if isinstance(line.value, bytes):  # base64
                line.value = decode(line.value)
            elif "\\" in _ESCAPE.sub("", written):
                line.value = written
            else:
                line.written = written
                escaped = _PLAIN_COMMA.sub(
                    lambda found: ":" if found[1] == "\\:" else found[1] or "\\,", written
                )
                line.value = stringToTextValues(escaped)[0]


VCardBehavior.defaultBehavior = _Text
for _name_of_text in ("FN", "LABEL"):
    vobject.base.registerBehavior(_Text, _name_of_text, default=True)


def keep_paths(card: Any) -> None:
    """Restore paths such as C:\\new, in version 2.1, which escapes no line break."""
    if values(card, "version") == ["2.1"]:
        for lines in card.contents.values():
            for line in lines:
                if _DRIVE.search(getattr(line, "written", "")):
                    line.value = line.written


def values(card: Any, name: str) -> list[str]:
    lines = card.contents.get(name, [])
    texts = (one_line(flatten(line.value)) for line in lines)
    return list(dict.fromkeys(filter(None, texts)))


def first_value(card: Any, name: str) -> str | None:
    return next(iter(values(card, name)), None)


def flatten(value: Any) -> str:
    """Join the parts of a structured value, such as an address, with commas."""
    if isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return ", ".join(filter(None, map(flatten, value)))
    parts = ("street", "extended", "box", "code", "city", "region", "country")
    if any(hasattr(value, part) for part in parts):
        texts = (flatten(getattr(value, part, "") or "") for part in parts)
        return ", ".join(filter(None, texts))
    return str(value)


def emails(card: Any) -> list[str]:
    return _unique(email for value in values(card, "email") for email in split_emails(value))


def split_emails(value: str) -> list[str]:
    """Return the addresses in a value such as ``mailto:a@x`` or ``a@x,b@y``."""
    bare = _without_scheme(value, "mailto")
    if bare != value.strip():
        bare = unquote(bare.partition("?")[0])
    parts = [address for _, address in getaddresses([bare.replace(";", ",")])]
    return parts if parts and all(part.count("@") == 1 for part in parts) else [bare]


def phones(card: Any) -> list[str]:
    return _unique(_without_scheme(value, "tel") for value in values(card, "tel"))


def urls(card: Any) -> list[str]:
    return _unique(_ESCAPED_MARK.sub(r"\1", value) for value in values(card, "url"))


def _without_scheme(value: str, scheme: str) -> str:
    if not scheme:
        return value
    return re.sub(rf"^\s*{scheme}\s*\\?:\s*", "", value, flags=re.IGNORECASE).strip()


def addresses(card: Any) -> list[str]:
    """Return the postal addresses, and labels whose words no address has."""
    found = values(card, "adr")
    words = [set(re.findall(r"\w+", address)) for address in found]
    labels = (label for label in values(card, "label")
              if not any(set(re.findall(r"\w+", label)) <= each for each in words))  # fmt: skip
    return _unique((*found, *labels))


def instant_messages(card: Any) -> list[str]:
    """Return addresses such as ``xmpp:eva@x.org``; Apple names the service beside the address."""
    found = []
    for line in card.contents.get("impp", []):
        value = _ESCAPED_MARK.sub(r"\1", one_line(flatten(line.value)))
        service = next(iter(line.params.get("X-SERVICE-TYPE", [])), "")
        found.append(re.sub(r"^x-apple:", f"{service}:" if service else "", value, flags=re.I))
    return _unique(found)


def related(card: Any) -> list[str]:
    """Return related people, each with the relation if it is known."""
    lines = (*card.contents.get("related", []), *card.contents.get("x-abrelatednames", []))
    return _unique(_labeled(card, line, "") for line in lines)


def date(card: Any, name: str) -> str | None:
    """Return a date; Apple names a year that stands for none."""
    lines = card.contents.get(name, [])
    value = first_value(card, name)
    years = {year for line in lines for year in line.params.get("X-APPLE-OMIT-YEAR", [])}
    match = _DATE.fullmatch(value or "")
    if match is None:
        return value
    is_without_year = match[1] in {_YEAR_OF_NONE, *years}
    return f"{'-' if is_without_year else match[1]}-{match[2]}-{match[3]}"


def updated_at(card: Any) -> str | None:
    """Return when the card changed, in UTC; a date alone is its first moment."""
    for text in values(card, "rev"):
        try:
            moment = datetime.fromisoformat(text)
            return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC).isoformat()
        except (ValueError, OverflowError):
            continue
    return None


def kind(card: Any) -> str | None:
    """Return ``group``, ``org`` and so on; nothing for a person."""
    found = first_value(card, "kind") or first_value(card, "x-addressbookserver-kind") or ""
    return found.lower() if found.lower() not in ("", "individual") else None


def members(card: Any) -> list[str]:
    """Return the UIDs of the members of a group."""
    names = ("member", "x-addressbookserver-member")
    return _unique(bare_uid(value) for name in names for value in values(card, name))


def bare_uid(value: str) -> str:
    return re.sub(r"^urn:uuid:", "", value, flags=re.IGNORECASE)


def labels(card: Any) -> list[str]:
    """Return the numbers and addresses that have a label, such as ``work: +49 30 1``."""
    return _unique(
        f"{own}: {value}"
        for name, scheme in _LABELED
        for line in card.contents.get(name, [])
        for own in [_label(card, line)]
        for value in [_without_scheme(one_line(flatten(line.value)), scheme)]
        if own and value
    )


def other_values(card: Any) -> list[str]:
    """Return every value that no other field has, with the name of its property."""
    found = []
    for name, lines in card.contents.items():
        kept = lines[1:] if name in _FIRST else lines
        if name not in _MERGED:
            found += [
                _labeled(card, line, name.removeprefix("x-").replace("-", " ")) for line in kept
            ]
    return _unique(found)


def _labeled(card: Any, line: Any, label: str) -> str:
    """Return a value with the label that Apple gives it, its type, or else ``label``."""
    text = one_line(flatten(line.value))
    own = _apple_label(card, line) or label or ", ".join(line.params.get("TYPE", []))
    return ": ".join(filter(None, (one_line(own), text))) if text else ""


def _apple_label(card: Any, line: Any) -> str:
    found = (each.value for each in card.contents.get("x-ablabel", []) if each.group == line.group)
    return _APPLE_LABEL.sub(r"\1", str(next(found, "") if line.group else ""))


def _label(card: Any, line: Any) -> str:
    """Return the label of a number or address: Apple's, or its types."""
    types = (
        each.strip().lower() for text in line.params.get("TYPE", []) for each in text.split(",")
    )
    own = _apple_label(card, line) or ", ".join(each for each in types if each not in _NO_LABELS)
    return one_line(own)


def _unique(found: Iterable[str] | Iterator[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, found)))


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
    try:
        card = vobject.readOne(close_component(text, "VCARD"), allowQP=True, ignoreUnreadable=True)
    except Exception as error:
        raise UnreadableError(ReceiptCode.MALFORMED, detail=str(error)[:100]) from error
    name = _name_or_address(card)
    if name is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    item = ParsedItem([ParsedRecord("contacts", _fields(card, _key(card, name)))])
    if (written := first_value(card, "rev")) and item.records[0].data["updated_at"] is None:
        item.add_issue(ReceiptCode.BAD_DATE, detail=f"REV:{written[:40]}")
    for line, number in vobject.base.getLogicalLines(io.StringIO(text), allowQP=True):
        if ":" not in line:
            item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=f"line {number}: {line[:40]}")
    return item


def _decode(content: bytes) -> str:
    """Decode a card, whose lines may be folded within a character."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        try:
            return replace_unstorable(unfold(content).decode())
        except UnicodeDecodeError:
            return decode(content)


def _key(card: Any, name: str) -> str:
    organization = first_value(card, "org") or ""
    addresses = (*sorted(values(card, "email")), *sorted(values(card, "tel")))
    identity = first_value(card, "uid") or "\0".join([name, organization, *addresses])
    return record_key("c_", identity, length=24)


def _fields(card: Any, key: str) -> dict[str, Any]:
    keep_paths(card)
    found, numbers = emails(card), phones(card)
    parts = _name_parts(card, "prefix", "given", "additional", "family", "suffix")
    names = (first_value(card, "fn"), " ".join(parts), first_value(card, "org"), *found, *numbers)
    given, family = _name_parts(card, "given"), _name_parts(card, "family")
    return {
        "id": key,
        "name": next(filter(None, names), None),
        "given_name": " ".join(given) or None,
        "family_name": " ".join(family) or None,
        "nickname": first_value(card, "nickname"),
        "organization": first_value(card, "org"),
        "job_title": first_value(card, "title"),
        "emails": found,
        "phones": numbers,
        "addresses": addresses(card),
        "urls": urls(card),
        "instant_messages": instant_messages(card),
        "birthday": date(card, "bday"),
        "anniversary": date(card, "anniversary"),
        "related": related(card),
        "categories": _categories(card),
        "note": _note(card),
        "kind": kind(card),
        "uid": bare_uid(first_value(card, "uid") or "") or None,
        "members": members(card),
        "labels": labels(card),
        "other_values": other_values(card),
        "updated_at": updated_at(card),
    }


def _categories(card: Any) -> list[str]:
    categories = ", ".join(values(card, "categories")).split(",")
    return list(dict.fromkeys(filter(None, map(str.strip, categories))))


def _note(card: Any) -> str | None:
    lines = card.contents.get("note", [])
    note = truncate("\n".join(str(line.value) for line in lines))
    return note.strip() or None


def _name_or_address(card: Any) -> str | None:
    formatted, name = first_value(card, "fn"), " ".join(_name_parts(card, "given", "family"))
    others = (first_value(card, each) for each in ("org", "email", "tel"))
    return formatted or name or next(filter(None, others), None)


def _name_parts(card: Any, *parts: str) -> list[str]:
    """Return the parts of the structured name that are not empty."""
    lines = card.contents.get("n", [])
    found = (getattr(lines[0].value, part, "") or "" for part in parts) if lines else ()
    return [part for each in found if (part := one_line(flatten(each)))]


VCARD = Importer(
    claim=claim_by_start(b"BEGIN:VCARD", ".vcf", ".vcard"),
    read=read_each(_read_file),
)
