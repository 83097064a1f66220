"""Which parts of a mail are its text, and which are files."""

from dataclasses import dataclass, field

from evidence.importing.mail.mime import Part
from evidence.importing.texts import beginning, decoded, of_html

_ALTERNATIVE = "multipart/alternative"
_SHOWN = ("text/plain", "text/html", "text/enriched")


@dataclass(slots=True)
class Body:
    """``source`` is "plain" or "html", or None where there is no text."""

    text: str = ""
    source: str | None = None
    files: list[Part] = field(default_factory=list)
    cut_short: bool = False


def body_of(root: Part) -> Body:
    """The text that a mail program would show, and everything beside it."""
    body = Body(cut_short=any(part.cut_short for part in root.walk()))
    shown = _shown(root, body.files)
    body.text = "\n\n".join(text for text, _ in shown)
    if shown:
        body.source = "html" if any(is_html for _, is_html in shown) else "plain"
    return body


def _shown(part: Part, files: list[Part]) -> list[tuple[str, bool]]:
    """The texts below a part in their order, and whether each was HTML."""
    if part.children:
        below = [_shown(child, files) for child in part.children]
        if part.media_type == _ALTERNATIVE:
            return _best(below)
        return [text for texts in below for text in texts]
    if part.media_type.startswith("multipart/"):
        return []
    if _is_file(part):
        files.append(part)
        return []
    text, is_html = _text(part)
    return [(text, is_html)] if text else []


def _best(alternatives: list[list[tuple[str, bool]]]) -> list[tuple[str, bool]]:
    """Plain text as it was written before HTML as we read it."""
    written = [texts for texts in alternatives if texts]
    plain = (texts for texts in written if not any(is_html for _, is_html in texts))
    return next(plain, written[0] if written else [])


def _is_file(part: Part) -> bool:
    if part.disposition == "attachment" or part.filename:
        return True
    return part.depth > 0 and part.media_type not in _SHOWN


def _text(part: Part) -> tuple[str, bool]:
    text = decoded(beginning(part.content), part.charset).replace("\r\n", "\n").strip()
    # Some programs put their HTML under the wrong name.
    if part.media_type == "text/html" or text[:15].lower().startswith(("<!doctype html", "<html")):
        return of_html(text), True
    return text, False
