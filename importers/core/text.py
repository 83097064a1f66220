"""Bytes of unknown making -> text that can be stored, and HTML -> the text that a person sees."""

import codecs
import html
import re
from typing import Any

from charset_normalizer import from_bytes
from selectolax.lexbor import LexborHTMLParser

TAGS_MOST = 20_000

_HIDING = re.compile(
    r"<(?P<closes>/?)(?P<name>head|script|style|template|noscript|title)\b[^<>]*>|<!--|-->", re.I
)
_LINE = re.compile(
    r"</?(?:address|article|aside|blockquote|br|dd|div|dl|dt|fieldset|figure|footer|form|h[1-6]"
    r"|header|hr|li|main|nav|ol|p|pre|section|table|tr|ul)\b[^<>]*>",
    re.I,
)
_CELL = re.compile(r"</?t[dh]\b[^<>]*>", re.I)
_TAG = re.compile(r"</?[a-z!][^<>]*>", re.I)


def text_of(source: str) -> str:
    """A line for each block, as far as that can be said without a tree."""
    shown = _CELL.sub(" ", _LINE.sub("\n", _shown(source)))
    return html.unescape(_TAG.sub("", shown))


def _shown(source: str) -> str:
    """Without what is between tags that hide, and without comments."""
    shown, at, hidden_by = [], 0, ""
    for found in _HIDING.finditer(source):
        name = (found["name"] or "!").lower()
        closes = bool(found["closes"]) or found[0] == "-->"
        if not hidden_by and not closes:
            shown.append(source[at : found.start()])
            hidden_by = name
        elif hidden_by == name and closes:
            at, hidden_by = found.end(), ""
    return "".join(shown) + ("" if hidden_by else source[at:])


TEXT_CHARS = 1_000_000
"""The longest text of one field; the demo's longest letters have as many."""
TEXT_BYTES = 8_000_000
_GUESSED_BYTES = 16 * 1024

# What is called so is meant so (WHATWG): plain Latin-1 hardly exists.
_MEANT = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
_OWN_ESCAPES = ("utf-16", "utf-32", "utf-7", "iso2022", "hz")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_BLANKS = re.compile(r"[ \t\r\f\v\u00a0]+")
_MANY_LINES = re.compile(r"\n\s*\n\s*\n+")
_HIDDEN = "head, script, style, template, noscript, title"
_BLOCKS = (
    "address, article, aside, blockquote, dd, div, dl, dt, fieldset, figure, footer, form, h1, h2,"
    " h3, h4, h5, h6, header, hr, li, main, nav, ol, p, pre, section, table, tr, ul"
)


def decoded(content: bytes, declared: str | None = None) -> str:
    """The text of bytes whose charset is stated, wrongly stated or unknown.

    UTF-8 with characters beyond ASCII is hardly ever anything else, whatever the statement; then
    the statement holds where it can, and a guess where it cannot.
    """
    name = _codec(declared)
    if name is None or not name.startswith(_OWN_ESCAPES):
        try:
            return storable(content.decode("utf-8-sig"))
        except UnicodeDecodeError:
            pass
    try:
        if name is not None:
            return storable(content.decode(_MEANT.get(name, name)))
    except (UnicodeError, LookupError):  # also of codecs that are not for text, such as zlib
        pass
    return storable(content.decode(_guessed(content), "replace"))


def beginning(content: bytes) -> bytes:
    """As much of it as is read as text: several times what is kept. Ends with a whole character
    where it is UTF-8."""
    end = TEXT_BYTES
    while end < len(content) and end > TEXT_BYTES - 4 and content[end] & 0xC0 == 0x80:
        end -= 1
    return content[:end]


def storable(text: str) -> str:
    """Without what the store cannot keep."""
    return _UNSTORABLE.sub("\ufffd", text) if _UNSTORABLE.search(text) else text


def plain(value: Any) -> Any:
    """A value with nothing in it that JSON or the store cannot keep; what has no form of its own
    there, such as a very long number, becomes text."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(name)): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    is_known = value is None or isinstance(value, bool | float)
    is_small = isinstance(value, int) and abs(value) < 2**63
    return value if is_known or is_small else str(value)


def cut(text: str) -> tuple[str, bool]:
    """At most TEXT_CHARS, and whether some were lost."""
    return text[:TEXT_CHARS], len(text) > TEXT_CHARS


def of_html(source: str) -> str:
    """What a reader of the page would read: a line for each block, no styles, no scripts."""
    if source.count("<") > TAGS_MOST:
        return tidy(storable(text_of(source)))
    tree = LexborHTMLParser(source)
    for node in tree.css(_HIDDEN):
        node.decompose()
    for node in tree.css("br"):
        node.replace_with("\n")
    for node in tree.css(_BLOCKS):
        node.insert_before("\n")
        node.insert_after("\n")
    for node in tree.css("td, th"):
        node.insert_after(" ")
    body = tree.body
    return tidy(storable(body.text(separator="") if body is not None else ""))


def tidy(text: str) -> str:
    """Runs of blanks as one, at most one empty line between others."""
    lines = [_BLANKS.sub(" ", line).strip() for line in text.split("\n")]
    return _MANY_LINES.sub("\n\n", "\n".join(lines)).strip()


def one_line(text: str, *, most: int = 1_000) -> str:
    """For names and titles."""
    return " ".join(text[: most * 4].split())[:most]


def _codec(declared: str | None) -> str | None:
    try:
        return codecs.lookup((declared or "").strip("\"' ")).name
    except (LookupError, ValueError):
        return None


def _guessed(content: bytes) -> str:
    found = from_bytes(content[:_GUESSED_BYTES]).best()
    return found.encoding if found is not None else "cp1252"
