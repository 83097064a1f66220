"""Speak IMAP over a socket that the server connected: sign in, folders, and messages as bytes."""

import imaplib
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, NamedTuple

from imap_tools import BaseMailBox, MailboxLoginError
from imap_tools.utils import encode_folder
from typing_extensions import override

from importers.core.source import Network, ProblemCode, SourceError

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
        listed = [each for each in self.library.folder.list() if not _has(each.flags, "\\Noselect")]
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
            _start_tls(mailbox, network)
        user = str(settings["user"])
        if "access_token" in credential:
            _present_token(mailbox, user, credential["access_token"])
        else:
            _log_in(mailbox, user, credential["password"])
        _read_capabilities(mailbox)
        yield mailbox
    finally:
        mailbox.client.shutdown()


def _start_tls(mailbox: Mailbox, network: Network) -> None:
    if "STARTTLS" not in mailbox.capabilities:
        raise SourceError(ProblemCode.NO_TLS)
    mailbox.client.starttls(ssl_context=network.tls)


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


def _has(flags: Sequence[str], flag: str) -> bool:
    return flag.lower() in (each.lower() for each in flags)


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
