"""The text of pages that have more tags than a tree of them should be made of.

One pass over the source: a tree takes five hundred bytes a tag, and more than the square of the time
where tags are nested as deep as they are many.
"""

import html
import re

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
