"""Bytes of unknown making -> text that can be stored, and HTML -> the text that a person sees."""

import codecs
import re

from charset_normalizer import from_bytes
from selectolax.lexbor import LexborHTMLParser

TEXT_CHARS = 1_000_000
"""The longest text of one field; the demo's longest letters have as many."""
_GUESSED_BYTES = 16 * 1024
_HTML_CHARS = 8_000_000

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
    except (UnicodeDecodeError, ValueError):
        pass
    return storable(content.decode(_guessed(content), "replace"))


def storable(text: str) -> str:
    """Without what the store cannot keep."""
    return _UNSTORABLE.sub("\ufffd", text) if _UNSTORABLE.search(text) else text


def cut(text: str) -> tuple[str, bool]:
    """At most TEXT_CHARS, and whether some were lost."""
    return text[:TEXT_CHARS], len(text) > TEXT_CHARS


def of_html(source: str) -> str:
    """What a reader of the page would read: a line for each block, no styles, no scripts."""
    tree = LexborHTMLParser(source[:_HTML_CHARS])
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
