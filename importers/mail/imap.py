"""Read a mailbox over IMAP: new messages, flags, moves and deletions since a state.

A message is an item of its folder, named by UIDVALIDITY and UID. Its record has the key that an
import of the message has, so that an imported mailbox can be kept up to date. The mark of an item is
its flags and a digest of its Message-ID.

Folders that are made after connecting are read too. A message that left its folder for one that the
owner left out, other than trash and junk, is not deleted.
"""

import imaplib
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

from imap_tools import BaseMailBox, MailboxLoginError
from imap_tools.utils import encode_folder
from typing_extensions import override

from importers.core.results import ExportItem, ReceiptCode, issue_only
from importers.core.source import (
    Change,
    Checkpoint,
    Container,
    Event,
    Gone,
    Item,
    Network,
    ProblemCode,
    Source,
    SourceError,
    SourceRun,
)
from importers.mail.mailboxes import MESSAGE_MAX_BYTES
from importers.mail.records import MailboxMetadata, flag_fields, parse_message

SEARCH_UIDS = 50_000
"""UIDs in one search: the response is one line."""

_STATUS = re.compile(rb"\b(UIDVALIDITY|UIDNEXT|MESSAGES|HIGHESTMODSEQ) (\d+)")
_UID = re.compile(rb"\bUID (\d+)")
_FLAGS = re.compile(rb"\bFLAGS \(([^)]*)\)")
_SIZE = re.compile(rb"\bRFC822\.SIZE (\d+)")
_REFUSED = re.compile(
    r"AUTHENTICATIONFAILED|AUTHORIZATIONFAILED|EXPIRED|PRIVACYREQUIRED|CONTACTADMIN"
)
_UNAVAILABLE = re.compile(r"UNAVAILABLE|INUSE|LIMIT|SERVERBUG")
SPECIAL_USES = frozenset(
    ("\\all", "\\archive", "\\drafts", "\\flagged", "\\junk", "\\sent", "\\trash")
)


class Folder(NamedTuple):
    """A folder. ``title`` is its name with slashes, and ``use`` a special use such as ``\\Trash``."""

    name: str
    title: str
    use: str


@dataclass(frozen=True, slots=True)
class FolderStatus:
    """The state of a folder. ``mod_seq`` is 0 where the server has none (CONDSTORE)."""

    validity: int
    next_uid: int
    messages: int
    mod_seq: int


@dataclass(frozen=True, slots=True)
class FetchedMessage:
    """A message on the server, with the parts that were requested."""

    uid: int
    flags: frozenset[str]
    size: int
    raw: bytes
    has_body: bool


class _Client(imaplib.IMAP4):
    """An IMAP client over a connected socket."""

    def __init__(self, connected: socket.socket, host: str) -> None:
        self._connected = connected
        super().__init__(host)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        return self._connected


class _Library(BaseMailBox):
    def __init__(self, connected: socket.socket, host: str) -> None:
        self._connected, self._host = connected, host
        super().__init__()

    @override
    def _get_mailbox_client(self) -> imaplib.IMAP4:
        return _Client(self._connected, self._host)


class Mailbox:
    """An account. Nothing in it is changed: folders are opened read-only."""

    def __init__(self, connected: socket.socket, host: str) -> None:
        self.library = _Library(connected, host)
        self.client = self.library.client

    @property
    def capabilities(self) -> Sequence[str]:
        return self.client.capabilities

    def folders(self) -> list[Folder]:
        """Return the folders that can have messages, the inbox first."""
        listed = [each for each in self.library.folder.list()
                  if "\\noselect" not in map(str.lower, each.flags)]  # fmt: skip
        listed.sort(key=lambda each: (each.name.upper() != "INBOX", each.name))
        titles: set[str] = set()
        folders = []
        for each in listed:
            title = "inbox" if each.name.upper() == "INBOX" else each.name.replace(each.delim, "/")
            title = each.name if title in titles else title
            titles.add(title)
            use = next((flag for flag in each.flags if flag.lower() in SPECIAL_USES), "")
            folders.append(Folder(each.name, title, use.lower()))
        return folders

    def status(self, name: str) -> FolderStatus | None:
        """Return the state of a folder, or None if it does not exist."""
        wanted = "UIDVALIDITY UIDNEXT MESSAGES"
        if "CONDSTORE" in self.capabilities:
            wanted += " HIGHESTMODSEQ"
        answer, data = self.client.status(_encode(name), f"({wanted})")
        return _parse_status(data) if answer == "OK" else None

    def open(self, name: str) -> bool:
        """Open a folder read-only. Returns False if it does not exist."""
        answer, _ = self.client.select(_encode(name), readonly=True)
        return answer == "OK"

    def uids(self, first: int, last: int) -> Iterator[int]:
        """Yield the UIDs of messages in a range, in order."""
        for start in range(first, last + 1, SEARCH_UIDS):
            end = min(last, start + SEARCH_UIDS - 1)
            data = self._checked(*self.client.uid("SEARCH", f"UID {start}:{end}"))
            found = sorted(int(uid) for uid in b" ".join(filter(None, data)).split())
            yield from (uid for uid in found if start <= uid <= end)

    def fetch(self, uids: Sequence[int], what: str) -> list[FetchedMessage]:
        """Fetch message data items. A message that is gone by now is missing."""
        wanted, needs_body = set(uids), "BODY" in what
        # A server may also send flags that nobody asked for.
        found = {
            each.uid: each
            for each in self._fetch(_ranges(uids), what)
            if each.uid in wanted and each.has_body >= needs_body
        }
        return list(found.values())

    def changed_flags(self, last: int, *, since: int) -> list[FetchedMessage]:
        """Return the flags that changed since a modification sequence, up to a UID."""
        return self._fetch(f"1:{last}", "(UID FLAGS)", f"(CHANGEDSINCE {since})")

    def _fetch(self, uids: str, *arguments: str) -> list[FetchedMessage]:
        return list(_parse_fetch(self._checked(*self.client.uid("FETCH", uids, *arguments))))

    def _checked(self, answer: str, data: Any) -> list[Any]:
        if answer != "OK":
            raise SourceError(ProblemCode.SERVER_REFUSED)
        return list(data)


@contextmanager
def sign_in(
    network: Network, settings: Mapping[str, Any], credential: Mapping[str, str]
) -> Iterator[Mailbox]:
    """Connect over TLS and sign in. Raises ``SourceError``."""
    host, port = str(settings["host"]), int(settings["port"])
    connected = network.connect(host, port, is_encrypted=port != 143)
    mailbox = Mailbox(connected, host)
    try:
        if port == 143:
            if "STARTTLS" not in mailbox.capabilities:
                raise SourceError(ProblemCode.NO_TLS)
            mailbox.client.starttls(ssl_context=network.tls)
        user = str(settings["user"])
        if "access_token" in credential:
            _present_token(mailbox, user, credential["access_token"])
        else:
            _log_in(mailbox, user, credential["password"])
        _read_capabilities(mailbox)
        yield mailbox
    finally:
        mailbox.client.shutdown()


def _log_in(mailbox: Mailbox, user: str, password: str) -> None:
    log_in = mailbox.library.login if (user + password).isascii() else mailbox.library.login_utf8
    try:
        log_in(user, password, initial_folder=None)
    except MailboxLoginError as error:
        text = str(error)
        is_refused = _REFUSED.search(text) or not _UNAVAILABLE.search(text)
        code = ProblemCode.PASSWORD_REFUSED if is_refused else ProblemCode.SERVER_REFUSED
        raise SourceError(code) from None


def _present_token(mailbox: Mailbox, user: str, token: str) -> None:
    """Sign in with an access token (XOAUTH2, or OAUTHBEARER of RFC 7628)."""
    if "AUTH=XOAUTH2" in mailbox.capabilities:
        mechanism, text = "XOAUTH2", f"user={user}\1auth=Bearer {token}\1\1"
    elif "AUTH=OAUTHBEARER" in mailbox.capabilities:
        name = user.replace("=", "=3D").replace(",", "=2C")
        mechanism, text = "OAUTHBEARER", f"n,a={name},\1auth=Bearer {token}\1\1"
    else:
        raise SourceError(ProblemCode.TOKEN_REFUSED, "it offers no XOAUTH2")
    # The server may describe its refusal, which takes a second answer.
    end = b"\1" if mechanism == "OAUTHBEARER" else b""
    answers = chain([text.encode()], repeat(end))
    try:
        mailbox.client.authenticate(mechanism, lambda _: next(answers))
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error as error:
        is_busy = _UNAVAILABLE.search(str(error)) and not _REFUSED.search(str(error))
        code = ProblemCode.SERVER_REFUSED if is_busy else ProblemCode.TOKEN_REFUSED
        raise SourceError(code) from None


def _read_capabilities(mailbox: Mailbox) -> None:
    """Read the capabilities again: those before and after signing in may differ."""
    answer, data = mailbox.client.capability()
    if answer == "OK" and data[-1]:
        mailbox.client.capabilities = tuple(data[-1].decode("ascii", "replace").upper().split())


def _encode(name: str) -> str:
    """Return the name of a folder in quotes and in modified UTF-7."""
    return encode_folder(name).decode("ascii")


def _parse_status(data: Sequence[Any]) -> FolderStatus:
    text = b" ".join(
        part for each in data for part in (each if isinstance(each, tuple) else [each])
    )
    # The name of the folder comes first, and can look like anything.
    found = dict(_STATUS.findall(text[text.rfind(b"(") :]))
    numbers = {name.decode(): int(value) for name, value in found.items()}
    return FolderStatus(
        numbers["UIDVALIDITY"],
        numbers["UIDNEXT"],
        numbers["MESSAGES"],
        numbers.get("HIGHESTMODSEQ", 0),
    )


def _parse_fetch(data: Sequence[Any]) -> Iterator[FetchedMessage]:
    """Yield messages: a tuple has a literal, and is continued by the text after it."""
    head, raw = b"", b""
    for part in data:
        if isinstance(part, tuple):
            head, raw = part
            continue
        text = head + b" " + (part or b"")
        uid, flags, size = _UID.search(text), _FLAGS.search(text), _SIZE.search(text)
        if uid:
            yield FetchedMessage(
                int(uid[1]),
                frozenset(flags[1].decode("ascii", "replace").lower().split() if flags else ()),
                int(size[1]) if size else 0,
                raw,
                b"BODY[" in text,
            )
        head, raw = b"", b""


def _ranges(uids: Sequence[int]) -> str:
    """Return sorted UIDs as a sequence set, such as 1:3,7."""
    ranges: list[list[int]] = []
    for uid in uids:
        if ranges and ranges[-1][1] == uid - 1:
            ranges[-1][1] = uid
        else:
            ranges.append([uid, uid])
    return ",".join(str(a) if a == b else f"{a}:{b}" for a, b in ranges)


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
        containers = []
        for each in folders:
            status = mailbox.status(each.name)
            is_usual = each.use == "\\all" if has_all else each.use not in UNUSUAL
            messages = 0 if status is None else status.messages
            containers.append(Container(each.name, each.title, is_usual, messages))
        return containers


IMAP = Source(run=_read, containers=_list_folders)
