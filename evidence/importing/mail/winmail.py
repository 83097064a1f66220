"""The files inside a winmail.dat, which Outlook puts around what it sends (TNEF)."""

from typing import NamedTuple

from evidence.importing import apart
from evidence.importing.texts import beginning, decoded, of_html, one_line, storable

MEDIA_TYPE = "application/ms-tnef"


class Inside(NamedTuple):
    """``body`` is the text of the mail where the mail itself has none."""

    files: list[tuple[str, bytes]]
    body: str


def is_winmail(media_type: str, filename: str | None) -> bool:
    return media_type in (MEDIA_TYPE, "application/vnd.ms-tnef") or (
        (filename or "").lower() == "winmail.dat"
    )


def inside(content: bytes) -> Inside | None:
    """None for what is no TNEF, or a damaged one."""
    answer = apart.tnef(content)
    if answer is None:
        return None
    said, [*parts, text] = answer
    body = decoded(beginning(text))
    names = (one_line(storable(name), most=255) for name in said["names"])
    files = list(zip(names, parts, strict=True))
    return Inside(files, of_html(body) if said["body"] == "html" else body)
