"""Decode bytes of unknown charset to text that can be stored, and convert HTML to visible text."""

import codecs
import html
import re
from typing import Any

from charset_normalizer import from_bytes
from selectolax.lexbor import LexborHTMLParser

MAX_PARSED_TAGS = 20_000
"""HTML with more tags is converted without building a tree."""
TEXT_MAX_CHARS = 1_000_000
DECODED_MAX_BYTES = 8_000_000
_DETECTION_BYTES = 16 * 1024

_HIDING_TAG = re.compile(
    r"<(?P<closes>/?)(?P<name>head|script|style|template|noscript|title)\b[^<>]*>|<!--|-->", re.I
)
_LINE_TAG = re.compile(
    r"</?(?:address|article|aside|blockquote|br|dd|div|dl|dt|fieldset|figure|footer|form|h[1-6]"
    r"|header|hr|li|main|nav|ol|p|pre|section|table|tr|ul)\b[^<>]*>",
    re.I,
)
_CELL_TAG = re.compile(r"</?t[dh]\b[^<>]*>", re.I)
_TAG = re.compile(r"</?[a-z!][^<>]*>", re.I)

# Text labeled with these charsets is usually in the larger one (WHATWG Encoding).
_ACTUAL_CODECS = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030"}
# Bytes in these charsets can be valid UTF-8 and mean something else.
_NOT_UTF8 = ("utf-16", "utf-32", "utf-7", "iso2022", "hz")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_BLANKS = re.compile(r"[ \t\r\f\v\u00a0]+")
_EMPTY_LINES = re.compile(r"\n\s*\n\s*\n+")
_HIDDEN_ELEMENTS = "head, script, style, template, noscript, title"
_BLOCK_ELEMENTS = (
    "address, article, aside, blockquote, dd, div, dl, dt, fieldset, figure, footer, form, h1, h2,"
    " h3, h4, h5, h6, header, hr, li, main, nav, ol, p, pre, section, table, tr, ul"
)


def strip_tags(source: str) -> str:
    """Convert HTML to text without building a tree, with a line for each block."""
    text = _CELL_TAG.sub(" ", _LINE_TAG.sub("\n", _remove_hidden(source)))
    return html.unescape(_TAG.sub("", text))


def _remove_hidden(source: str) -> str:
    parts, start, hidden_by = [], 0, ""
    for tag in _HIDING_TAG.finditer(source):
        name = (tag["name"] or "!").lower()
        closes = bool(tag["closes"]) or tag[0] == "-->"
        if not hidden_by and not closes:
            parts.append(source[start : tag.start()])
            hidden_by = name
        elif hidden_by == name and closes:
            start, hidden_by = tag.end(), ""
    return "".join(parts) + ("" if hidden_by else source[start:])


def decode(content: bytes, declared: str | None = None) -> str:
    """Decode bytes whose declared charset may be wrong or missing.

    Valid UTF-8 is decoded as UTF-8 whatever charset is declared. Otherwise the declared charset is
    tried, and then a detected one.
    """
    codec = _codec(declared)
    if codec is None or not codec.startswith(_NOT_UTF8):
        try:
            return replace_unstorable(content.decode("utf-8-sig"))
        except UnicodeDecodeError:
            pass
    try:
        if codec is not None:
            return replace_unstorable(content.decode(_ACTUAL_CODECS.get(codec, codec)))
    except (UnicodeError, LookupError):  # LookupError: a codec that is not for text, such as zlib
        pass
    return replace_unstorable(content.decode(_detect_codec(content), "replace"))


def text_prefix(content: bytes) -> bytes:
    """Return the first DECODED_MAX_BYTES, ending at a complete character if they are UTF-8."""
    end = DECODED_MAX_BYTES
    while end < len(content) and end > DECODED_MAX_BYTES - 4 and content[end] & 0xC0 == 0x80:
        end -= 1
    return content[:end]


def replace_unstorable(text: str) -> str:
    """Replace NUL characters and surrogates, which PostgreSQL cannot store."""
    return _UNSTORABLE.sub("\ufffd", text) if _UNSTORABLE.search(text) else text


def to_storable_json(value: Any) -> Any:
    """Convert a value to JSON that PostgreSQL can store; other types become text."""
    if isinstance(value, str):
        return replace_unstorable(value)
    if isinstance(value, dict):
        return {
            replace_unstorable(str(name)): to_storable_json(member)
            for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [to_storable_json(item) for item in value]
    if value is None or isinstance(value, bool | float):
        return value
    return value if isinstance(value, int) and abs(value) < 2**63 else str(value)


def truncate(text: str) -> tuple[str, bool]:
    """Return at most TEXT_MAX_CHARS of the text, and whether the text was longer."""
    return text[:TEXT_MAX_CHARS], len(text) > TEXT_MAX_CHARS


def html_to_text(source: str) -> str:
    """Return the visible text of an HTML page, with a line for each block."""
    if source.count("<") > MAX_PARSED_TAGS:
        return normalize_whitespace(replace_unstorable(strip_tags(source)))
    tree = LexborHTMLParser(source)
    for node in tree.css(_HIDDEN_ELEMENTS):
        node.decompose()
    for node in tree.css("br"):
        node.replace_with("\n")
    for node in tree.css(_BLOCK_ELEMENTS):
        node.insert_before("\n")
        node.insert_after("\n")
    for node in tree.css("td, th"):
        node.insert_after(" ")
    text = tree.body.text(separator="") if tree.body is not None else ""
    return normalize_whitespace(replace_unstorable(text))


def normalize_whitespace(text: str) -> str:
    """Collapse blanks to one space, and empty lines to one."""
    lines = [_BLANKS.sub(" ", line).strip() for line in text.split("\n")]
    return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip()


def one_line(text: str, *, max_chars: int = 1_000) -> str:
    """Collapse all whitespace to single spaces, for names and titles."""
    return " ".join(text[: max_chars * 4].split())[:max_chars]


def _codec(declared: str | None) -> str | None:
    try:
        return codecs.lookup((declared or "").strip("\"' ")).name
    except (LookupError, ValueError):
        return None


def _detect_codec(content: bytes) -> str:
    match = from_bytes(content[:_DETECTION_BYTES]).best()
    return match.encoding if match is not None else "cp1252"
