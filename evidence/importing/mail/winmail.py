"""The files inside a winmail.dat, which Outlook puts around what it sends (TNEF)."""

import logging
from collections.abc import Iterator
from typing import NamedTuple

from tnefparse import TNEF

from evidence.importing.texts import decoded, of_html, one_line

# It would speak of each attachment in the server's log.
logging.getLogger("tnefparse").setLevel(logging.CRITICAL)

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
    try:
        parsed = TNEF(content, do_checksum=False)
        return Inside(list(_files(parsed)), _body(parsed))
    except Exception:  # noqa: BLE001 - the parser raises whatever it stumbles over
        return None


def _files(parsed: TNEF) -> Iterator[tuple[str, bytes]]:
    for each in parsed.attachments:
        yield one_line(each.long_filename() or "", most=255), bytes(each.data or b"")


def _body(parsed: TNEF) -> str:
    plain, html = parsed.body, parsed.htmlbody
    if plain:
        return decoded(plain) if isinstance(plain, bytes) else str(plain)
    if html:
        return of_html(decoded(html) if isinstance(html, bytes) else str(html))
    return ""
