"""Read a mailbox over IMAP: new messages, flags, moves and deletions since a state.

A message is an item of its folder, named by UIDVALIDITY and UID. Its record has the key that an
import of the message has, so that an imported mailbox can be kept up to date. The mark of an item is
its flags and a digest of its Message-ID.

Folders that are made after connecting are read too. A message that left its folder for one that the
owner left out, other than trash and junk, is not deleted.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from itertools import islice
from typing import Any

from importers.core.results import ExportItem, ReceiptCode, issue_only
from importers.core.source import (
    Change,
    Checkpoint,
    Container,
    Event,
    Gone,
    Item,
    ProblemCode,
    Source,
    SourceError,
    SourceRun,
)
from importers.mail.imap_client import FetchedMessage, Folder, FolderStatus, Mailbox, sign_in
from importers.mail.mailboxes import MESSAGE_MAX_BYTES
from importers.mail.records import MailboxMetadata, flag_fields, parse_message

FETCH_BYTES = 2 * 1024 * 1024
FETCH_MESSAGES = 100
LOOK_AHEAD = 1_000
"""Messages whose sizes are asked for at once."""

UNUSUAL = frozenset(("\\trash", "\\junk", "\\drafts", "\\flagged"))
DISCARDED = frozenset(("\\trash", "\\junk"))
"""A message that is moved there counts as deleted."""
MAX_ARRIVALS = 5_000
"""If more messages came to a folder that is not read, none is deleted in this pass."""
_MESSAGE_ID = re.compile(rb"^message-id:(.*(?:\r?\n[ \t].*)*)", re.IGNORECASE | re.MULTILINE)


@dataclass(slots=True)
class FolderState:
    """The progress in a folder: all UIDs below ``next_uid`` and flags up to ``mod_seq`` are read."""

    validity: int = 0
    next_uid: int = 1
    messages: int = 0
    mod_seq: int = 0
    flags_hour: str = ""
    retired: list[int] = field(default_factory=list)
    """Earlier values of UIDVALIDITY whose messages are not checked yet."""


class _Run:
    """One pass over the chosen folders, and those that were made after they were chosen."""

    def __init__(self, run: SourceRun, mailbox: Mailbox) -> None:
        self._run = run
        self._mailbox = mailbox
        self._chosen = set(run.settings["containers"])
        deselected = {*run.state.get("chosen", ())} - self._chosen
        self._followed = {*run.state.get("followed", ())} - deselected
        self._states = {
            name: FolderState(**values)
            for name, values in run.state.get("folders", {}).items()
            if name in self._chosen | self._followed
        }
        self._folders = self._mailbox.folders()
        self._follow_new()
        self._others = dict(self._count_others())
        self._done = self._total = 0
        self._missing: list[str] = []

    def events(self) -> Iterator[Event]:
        """Read new messages of all folders first: a moved message is then found before it is gone."""
        changed = list(self._changed_folders())
        for folder, status in changed:
            yield from self._new_messages(folder, status)
        for folder, status in changed:
            yield from self._changes(folder, status)
        yield self._checkpoint(ends_pass=True)
        if self._missing:
            raise SourceError(ProblemCode.CONTAINER_MISSING, ", ".join(self._missing))

    def _changed_folders(self) -> Iterator[tuple[Folder, FolderStatus]]:
        names = self._chosen | self._followed
        folders = [each for each in self._folders if each.name in names]
        self._missing = sorted(self._chosen - {folder.name for folder in folders})
        for folder in folders:
            status = self._mailbox.status(folder.name)
            if status is None:
                self._missing.append(folder.name)
                continue
            state = self._states.setdefault(folder.name, FolderState())
            if state.validity != status.validity:
                self._start_again(state, status)
            self._total += max(0, status.messages - state.messages)
            is_late = not status.mod_seq and state.flags_hour != self._hour
            if is_late or state.retired or _fingerprint(state) != _fingerprint(status):
                yield folder, status

    def _follow_new(self) -> None:
        """Follow folders that did not exist in the pass before, unless one with all mail is read."""
        seen = self._run.state.get("seen")
        has_all = any(each.use == "\\all" and each.name in self._chosen for each in self._folders)
        if seen is None or has_all:
            return
        new = (each for each in self._folders if each.name not in seen and each.use not in UNUSUAL)
        self._followed |= {each.name for each in new} - self._chosen

    def _count_others(self) -> Iterator[tuple[str, list[int]]]:
        """Yield UIDVALIDITY and the next UID of each folder that is not read."""
        for each in self._folders:
            is_read = each.name in self._chosen | self._followed
            if not is_read and each.use not in DISCARDED:
                status = self._mailbox.status(each.name)
                if status is not None:
                    yield each.name, [status.validity, status.next_uid]

    @cached_property
    def _arrivals(self) -> set[str] | None:
        """Digests of the messages that came to folders that are not read since the pass before.

        None if there are too many to look at. Another folder is open afterwards.
        """
        found = set[str]()
        before = self._run.state.get("others", {})
        for name in self._others:
            status = self._mailbox.status(name)
            if status is None or not self._mailbox.open(name):
                continue
            validity, first = before.get(name, (0, 1))
            uids = self._mailbox.uids(first if validity == status.validity else 1, status.next_uid)
            arrived = list(islice(uids, MAX_ARRIVALS + 1))
            if len(arrived) > MAX_ARRIVALS:
                return None
            if arrived:
                what = "(UID BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])"
                found |= {_digest(each.raw) for each in self._mailbox.fetch(arrived, what)}
        return found

    @property
    def _hour(self) -> str:
        return self._run.now[:13]

    def _start_again(self, state: FolderState, status: FolderStatus) -> None:
        """Read a folder from its beginning: its server numbers the messages in another way."""
        if state.validity:
            state.retired.append(state.validity)
        state.validity, state.next_uid, state.messages = status.validity, 1, 0
        state.mod_seq = status.mod_seq

    def _new_messages(self, folder: Folder, status: FolderStatus) -> Iterator[Event]:
        state = self._states[folder.name]
        if state.next_uid < status.next_uid and self._mailbox.open(folder.name):
            uids = list(self._mailbox.uids(state.next_uid, status.next_uid - 1))
            yield from self._read(folder, state, uids)
        state.next_uid = max(state.next_uid, status.next_uid)
        yield self._checkpoint()

    def _read(self, folder: Folder, state: FolderState, uids: Sequence[int]) -> Iterator[Event]:
        for start in range(0, len(uids), LOOK_AHEAD):
            sizes = self._mailbox.fetch(uids[start : start + LOOK_AHEAD], "(UID RFC822.SIZE)")
            for group in _groups(sizes):
                yield from self._messages(folder, state, group)
                yield self._checkpoint()

    def _messages(
        self, folder: Folder, state: FolderState, group: Sequence[FetchedMessage]
    ) -> Iterator[Event]:
        large = [each.uid for each in group if each.size > MESSAGE_MAX_BYTES]
        small = [each.uid for each in group if each.size <= MESSAGE_MAX_BYTES]
        fetched = self._mailbox.fetch(large, "(UID FLAGS RFC822.SIZE)") if large else []
        if small:
            fetched += self._mailbox.fetch(small, "(UID FLAGS BODY.PEEK[])")
        for message in fetched:
            ref = f"{state.validity}.{message.uid}"
            mark = f"{_letters(message)}/{_digest(message.raw)}"
            yield Item(folder.title, ref, mark, _item(folder, message))
        state.messages += len(fetched)
        state.next_uid = max(state.next_uid, group[-1].uid + 1)
        self._done += len(group)

    def _changes(self, folder: Folder, status: FolderStatus) -> Iterator[Event]:
        """Yield changed flags, then messages that are gone."""
        state = self._states[folder.name]
        if not self._mailbox.open(folder.name):
            return
        yield from self._flags(folder, state, status)
        if state.retired or state.messages != status.messages:
            yield from self._compare(folder, state)
        state.retired = []
        yield self._checkpoint()

    def _flags(self, folder: Folder, state: FolderState, status: FolderStatus) -> Iterator[Event]:
        last = state.next_uid - 1
        if not last:
            return
        if status.mod_seq:
            since, state.mod_seq = state.mod_seq, status.mod_seq
            if since == status.mod_seq:
                return
        elif state.flags_hour == self._hour:
            return
        else:
            since, state.flags_hour = 0, self._hour
        if since:
            flags = self._mailbox.changed_flags(last, since=since)
        else:
            flags = self._mailbox.fetch(range(1, last + 1), "(UID FLAGS)")
        letters = {f"{state.validity}.{each.uid}": _letters(each) for each in flags}
        if not letters:
            return
        known = self._run.known(folder.title, list(letters) if since else None)
        for ref, new in letters.items():
            if ref not in known:
                continue
            old, slash, digest = known[ref].partition("/")
            if old != new:
                yield Change(folder.title, ref, f"{new}{slash}{digest}", flag_fields(new))

    def _compare(self, folder: Folder, state: FolderState) -> Iterator[Event]:
        """Yield messages that are gone, and read those that a server did not send before."""
        uids = list(self._mailbox.uids(1, state.next_uid - 1))
        here = {f"{state.validity}.{uid}": uid for uid in uids}
        known = self._run.known(folder.title, None)
        gone = {ref: mark.partition("/")[2] for ref, mark in known.items() if ref not in here}
        for ref, digest in gone.items():
            is_renumbered = not ref.startswith(f"{state.validity}.")
            is_elsewhere = self._arrivals is None or digest in self._arrivals
            yield Gone(folder.title, ref, keeps_record=is_renumbered or is_elsewhere)
        if gone and not self._mailbox.open(folder.name):
            return
        yield from self._read(folder, state, [uid for ref, uid in here.items() if ref not in known])
        state.messages = len(here)

    def _checkpoint(self, *, ends_pass: bool = False) -> Checkpoint:
        state = {
            "folders": {name: asdict(state) for name, state in self._states.items()},
            "chosen": sorted(self._chosen),
            "followed": sorted(self._followed),
            "seen": [each.name for each in self._folders],
            "others": self._others if ends_pass else self._run.state.get("others", self._others),
        }
        return Checkpoint(state, self._done, self._total, ends_pass=ends_pass)


def _fingerprint(folder: FolderState | FolderStatus) -> tuple[int, int, int]:
    return folder.next_uid, folder.messages, folder.mod_seq


def _groups(sizes: Sequence[FetchedMessage]) -> Iterator[list[FetchedMessage]]:
    """Yield messages to fetch together, in the order of their UIDs."""
    group: list[FetchedMessage] = []
    total = 0
    for each in sorted(sizes, key=lambda message: message.uid):
        if group and (total + each.size > FETCH_BYTES or len(group) >= FETCH_MESSAGES):
            yield group
            group, total = [], 0
        group.append(each)
        total += each.size
    if group:
        yield group


def _letters(message: FetchedMessage) -> str:
    """Return the flags as in the name of a file in a Maildir."""
    return "F" * ("\\flagged" in message.flags) + "S" * ("\\seen" in message.flags)


def _digest(header: bytes) -> str:
    """Return a digest of the Message-ID, or of nothing if there is none."""
    found = _MESSAGE_ID.search(header.partition(b"\r\n\r\n")[0] + b"\r\n")
    return sha256(b"".join(found[1].split()) if found else b"").hexdigest()[:12]


def _item(folder: Folder, message: FetchedMessage) -> ExportItem:
    if message.size > MESSAGE_MAX_BYTES:
        parse = issue_only(ReceiptCode.TOO_LARGE, f"{message.size:,} bytes")
    elif not message.raw.strip():
        parse = issue_only(ReceiptCode.EMPTY)
    else:
        parse = partial(
            parse_message, message.raw, MailboxMetadata(folder.title, _letters(message))
        )
    return ExportItem(folder.title, f"message {message.uid}", len(message.raw), parse)


def _read(run: SourceRun) -> Iterator[Event]:
    with sign_in(run.network, run.settings, run.credential) as mailbox:
        yield from _Run(run, mailbox).events()


def _list_folders(run: SourceRun) -> list[Container]:
    """List the folders. Where one has all mail (Gmail), it alone is usual."""
    with sign_in(run.network, run.settings, run.credential) as mailbox:
        folders = mailbox.folders()
        has_all = any(folder.use == "\\all" for folder in folders)
        return [
            Container(
                folder.name,
                folder.title,
                folder.use == "\\all" if has_all else folder.use not in UNUSUAL,
                _count(mailbox.status(folder.name)),
            )
            for folder in folders
        ]


def _count(status: Any) -> int:
    return 0 if status is None else int(status.messages)


IMAP = Source(run=_read, containers=_list_folders)
