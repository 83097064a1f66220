"""The kinds of mail: a mailbox file, folders of Maildir, single mails."""

import re
from collections.abc import Sequence
from functools import partial

from evidence.importing.codes import Code
from evidence.importing.exports import Entry, each
from evidence.importing.items import Item, Piece, Pieces, Remark, UnreadableError, said
from evidence.importing.kinds import Kind
from evidence.importing.mail.records import Envelope, read_mail
from evidence.importing.mail.splitting import MAIL_BYTES, split
from evidence.importing.options import Options

_FROM = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,64}From [^\r\n]*\d\d:\d\d[^\r\n]*\r?\n[!-9;-~]+:")
_HEADER = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*){0,40}?"
    rb"(?:message-id|received|from|date|mime-version|return-path|subject|delivered-to):",
    re.IGNORECASE,
)


def _mboxes(entries: Sequence[Entry]) -> list[Entry]:
    """By the first line; those that are named so may have something before it."""
    return [
        entry
        for entry in entries
        if _FROM.match(entry.head) or (entry.suffix in (".mbox", ".mbx") and b"From " in entry.head)
    ]


def _maildirs(entries: Sequence[Entry]) -> list[Entry]:
    """Files right below ``cur`` and ``new`` of folders that have both."""
    folders: dict[str, set[str]] = {}
    for entry in entries:
        parents = entry.path.parent
        folders.setdefault(parents.parent.as_posix(), set()).add(parents.name)
    return [
        entry
        for entry in entries
        if entry.path.parent.name in ("cur", "new")
        and folders[entry.path.parent.parent.as_posix()] & {"cur", "new"}
        and _HEADER.match(entry.head)
    ]


def _singles(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.suffix in (".eml", ".emlx", ".mht")]


def _read_mboxes(entries: Sequence[Entry], options: Options) -> Pieces:
    """The name of one mailbox among others is a folder; that of one alone is whatever it was saved
    as, and would be another the next time."""
    return each(entries, partial(_mbox, is_folder=len(entries) > 1))


def _mbox(entry: Entry, *, is_folder: bool) -> Pieces:
    folder = entry.path.stem if is_folder else None
    with entry.open() as stream:
        for number, mail in enumerate(split(stream), 1):
            place = f"mail {number:,}, at byte {mail.offset:,}"
            if mail.raw is None:
                make = said([Remark(Code.TOO_LARGE, f"{mail.size:,} bytes")])
            elif not mail.raw.strip():
                make = said([Remark(Code.EMPTY)])
            else:
                make = partial(read_mail, mail.raw, Envelope(folder, date=mail.date))
            yield Piece(entry.name, place, mail.size, make)


def _read_files(entries: Sequence[Entry], options: Options) -> Pieces:
    for entry in entries:
        yield Piece(entry.name, "", entry.size, partial(_file, entry))


def _file(entry: Entry) -> Item:
    raw = entry.read(most=MAIL_BYTES)
    if not _HEADER.match(raw[:65536]):
        raise UnreadableError(Code.MALFORMED)
    _, _, flags = entry.path.name.rpartition(":2,")
    is_maildir = entry.path.parent.name in ("cur", "new")
    folder = _maildir_folder(entry) if is_maildir else entry.path.parent.name or None
    return read_mail(raw, Envelope(folder, flags if is_maildir else None))


def _maildir_folder(entry: Entry) -> str:
    """``.Archive.2024`` below the root is Archive/2024, the root itself the inbox."""
    name = entry.path.parent.parent.name
    return name.strip(".").replace(".", "/") if name.startswith(".") else "inbox"


MBOX = Kind(
    name="mbox",
    title="mail from a mailbox file (mbox, Gmail Takeout)",
    source="mail",
    label="Mail",
    claim=_mboxes,
    read=_read_mboxes,
)
MAILDIR = Kind(
    name="maildir",
    title="mail from Maildir folders",
    source="mail",
    label="Mail",
    claim=_maildirs,
    read=_read_files,
)
EML = Kind(
    name="eml",
    title="single mails (.eml)",
    source="mail",
    label="Mail",
    claim=_singles,
    read=_read_files,
)
