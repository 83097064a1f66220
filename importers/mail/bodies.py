"""Select the text, the HTML and the attachments of a message, and convert other text to plain text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import unquote

from importers.core.file_texts import add_attachment
from importers.core.results import ParsedItem, ParsedRecord, ReceiptCode
from importers.core.text import decode, html_to_text, replace_unstorable, text_prefix
from importers.mail.mime import MimePart

RICH_TYPES = ("text/enriched", "text/richtext")
_RICH_TOKEN = re.compile(
    r"<<|<(param|comment)>.{0,300}?</\1>|<(/?)([a-z0-9-]{1,60})>|\n+", re.IGNORECASE | re.DOTALL
)
_RICH_TEXTS = {"lt": "<", "nl": "\n", "np": "\n", "paragraph": "\n"}
STUB_MAX_CHARS = 1_000
NOTICE_MAX_CHARS = 500
_NOTICE = re.compile(
    r"\bx?html\b|browser|navigat|navegador|webbl|przegl|браузер|ブラウザ|浏览器|瀏覽器", re.I
)
_LINK = re.compile(r"\(?https?://\S+")
_ALTERNATIVE = "multipart/alternative"
_DISPLAYED_TYPES = ("text/plain", "text/html", *RICH_TYPES)
_CONTENT_ID = re.compile(r"""(?<=["'(=])cid:([^"'()<>\s]{1,500})""", re.I)
HTML_MAX_CHARS = 4_000_000


def rich_to_text(text: str, media_type: str) -> str:
    """Return the text that text/enriched (RFC 1896) or text/richtext (RFC 1341) displays.

    A line break is a space unless nofill says otherwise; text/enriched shows all but one of several.
    """
    unfilled = 0

    def show(token: re.Match[str]) -> str:
        nonlocal unfilled
        shown, name = token[0], (token[3] or "").lower()
        if name == "nofill":
            unfilled = max(0, unfilled + (-1 if token[2] else 1))
        if not shown.startswith("\n"):
            return "<" if shown == "<<" else _RICH_TEXTS.get(name, "")
        if unfilled:
            return shown
        return (shown[1:] if media_type == "text/enriched" else "") or " "

    return _RICH_TOKEN.sub(show, text).strip()


def join_flowed(text: str, *, deletes_space: bool) -> str:
    """Join the lines of each paragraph (RFC 3676): a line that ends with a space continues."""
    lines: list[str] = []
    flows_at: str | None = None
    for line in text.split("\n"):
        quote = line[: len(line) - len(line.lstrip(">"))]
        content = line[len(quote) :].removeprefix(" ")
        if flows_at == quote and content != "-- ":
            lines[-1] = (lines[-1][:-1] if deletes_space else lines[-1]) + content
        else:
            lines.append(f"{quote} {content}" if quote else content)
        flows_at = quote if content.endswith(" ") and content != "-- " else None
    return "\n".join(lines)


class DisplayedText(NamedTuple):
    """A text of a message, and the HTML that it was converted from; empty for a plain text."""

    text: str
    html: str = ""


@dataclass(slots=True)
class Body:
    """The text of a message, its HTML where it has some, and its attachments in ``files``.

    ``source`` is "plain" or "html", or None without text.
    """

    text: str = ""
    source: str | None = None
    html: str = ""
    files: list[MimePart] = field(default_factory=list)
    is_truncated: bool = False

    @property
    def outlook_text(self) -> str:
        return next((part.outlook_text for part in self.files if part.outlook_text), "")

    @property
    def outlook_html(self) -> str:
        return next((part.outlook_html for part in self.files if part.outlook_html), "")


def select_body(root: MimePart) -> Body:
    """Return the text and the HTML that a mail program would display, and all attachments."""
    body = Body(is_truncated=any(part.is_truncated for part in root.walk()))
    texts, formatted = _displayed_texts(root, body.files)
    body.text = "\n\n".join(each.text for each in texts)
    if texts:
        body.source = "html" if any(each.html for each in texts) else "plain"
    if any(each.html for each in formatted):
        body.html = "".join(each.html or _plain_html(each.text) for each in formatted)
    return body


def _plain_html(text: str) -> str:
    return f'<div style="white-space: pre-wrap">{escape(text)}</div>'


def _displayed_texts(
    part: MimePart, files: list[MimePart]
) -> tuple[list[DisplayedText], list[DisplayedText]]:
    """Return the texts below a part to store and to show, and append attachments to ``files``.

    They differ where a part has alternatives: HTML is shown, plain text is stored.
    """
    if part.children:
        children = [_displayed_texts(child, files) for child in part.children]
        texts, formatted = ([*each] for each in zip(*children, strict=True))
        if part.media_type == _ALTERNATIVE:
            chosen = select_alternative(texts)
            with_html = [each for each in formatted if any(text.html for text in each)]
            return chosen, with_html[-1] if with_html else chosen
        return list(chain.from_iterable(texts)), list(chain.from_iterable(formatted))
    if part.media_type.startswith("multipart/") and part.is_truncated:
        return [], []
    if _is_attachment(part):
        files.append(part)
        return [], []
    text = _text(part)
    return [text] if text.text else [], [text] if any(text) else []


def select_alternative(alternatives: list[list[DisplayedText]]) -> list[DisplayedText]:
    """Prefer plain text, unless it only says that the message is HTML."""
    with_text = [texts for texts in alternatives if texts]
    is_plain = [not any(each.html for each in texts) for texts in with_text]
    plain = next((texts for texts, is_it in zip(with_text, is_plain, strict=True) if is_it), None)
    html = next((texts for texts, is_it in zip(with_text, is_plain, strict=True) if not is_it), [])
    return html if plain is None or (html and _is_stub(plain, html)) else plain


def _is_stub(plain: list[DisplayedText], html: list[DisplayedText]) -> bool:
    plain_text, html_text = (
        _LINK.sub("", " ".join(each.text for each in texts)).strip() for texts in (plain, html)
    )
    if not len(plain_text) < min(STUB_MAX_CHARS, len(html_text)):
        return False
    if len(plain_text) < NOTICE_MAX_CHARS and _NOTICE.search(plain_text):
        return True
    words = set(plain_text.lower().split())
    common = words & set(html_text.lower().split())
    return len(common) * 2 < len(words) or len(html_text) > len(plain_text) * 2 + 100


def _is_attachment(part: MimePart) -> bool:
    if part.disposition == "attachment" or part.filename:
        return True
    is_displayed = part.media_type in _DISPLAYED_TYPES or part.media_type.startswith("multipart/")
    return part.depth > 0 and not is_displayed


def _text(part: MimePart) -> DisplayedText:
    content = text_prefix(part.content)
    text = decode(content, part.charset).replace("\r\n", "\n").strip()
    # Some programs label HTML as plain text.
    if part.media_type == "text/html" or text[:15].lower().startswith(("<!doctype html", "<html")):
        return DisplayedText(html_to_text(text), text)
    if part.media_type in RICH_TYPES:
        return DisplayedText(rich_to_text(text, part.media_type))
    if (part.headers.parameter("content-type", "format") or "").lower() == "flowed":
        deletes_space = part.headers.parameter("content-type", "delsp") or ""
        text = join_flowed(text, deletes_space=deletes_space.lower() == "yes")
    return DisplayedText(text)


def html_fields(
    item: ParsedItem, body: Body, attached: Sequence[tuple[str, ParsedRecord]], *, key: str
) -> dict[str, Any]:
    """Add the HTML of a message as its file, and return the field that names it.

    The declaration does not name this field, so that the HTML is for the owner alone. ``attached``
    are content ids and attachments: ``cid:`` and the key of an attachment replace ``cid:`` and its id.
    """
    if not (html := body.html or body.outlook_html):
        return {}
    keys = {content_id: record.data["id"] for content_id, record in attached if content_id}

    def with_key(link: re.Match[str]) -> str:
        found = keys.get(unquote(unescape(link[1])))
        return link[0] if found is None else f"cid:{found}"

    if len(html) > HTML_MAX_CHARS:
        item.add_issue(ReceiptCode.TEXT_CUT)
    content = _CONTENT_ID.sub(with_key, html[:HTML_MAX_CHARS])
    file = add_attachment(
        item,
        replace_unstorable(content).encode(),
        stream="messages",
        key=key,
        media_type="text/html",
        text="",
    )
    return {"blob_ref": file.blob_ref}
