"""Define what a live source is, what it yields, and the errors that the owner sees.

A source reads an account, such as a mailbox, in the sandbox. It gets its own credential, and sockets
to the hosts of its settings that the server connects, see ``importers.core.source_worker``.
"""

import ssl
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from importers.core.importer import Installed
from importers.core.results import ExportItem


class ProblemText(NamedTuple):
    """What the owner reads, as in ``problems.toml``."""

    problem: str
    side: str
    next_step: str
    needs_owner: bool = False


@cache
def _problem_texts() -> dict[str, ProblemText]:
    found = tomllib.loads(Path(__file__).with_name("problems.toml").read_text(encoding="utf-8"))
    return {code: ProblemText(**text) for code, text in found.items()}


class ProblemCode(StrEnum):
    """Why a run failed; the values are stored."""

    PASSWORD_REFUSED = "password_refused"  # noqa: S105 - a code
    CREDENTIAL_UNREADABLE = "credential_unreadable"
    SIGN_IN_ENDED = "sign_in_ended"
    SIGN_IN_UNAVAILABLE = "sign_in_unavailable"
    CLIENT_REFUSED = "client_refused"
    TOKEN_REFUSED = "token_refused"  # noqa: S105 - a code
    HOST_UNKNOWN = "host_unknown"
    PRIVATE_ADDRESS = "private_address"
    UNREACHABLE = "unreachable"
    BAD_CERTIFICATE = "bad_certificate"
    NO_TLS = "no_tls"
    TOO_SLOW = "too_slow"
    CONNECTION_LOST = "connection_lost"
    SERVER_REFUSED = "server_refused"
    NOT_FOUND = "not_found"
    MOVED = "moved"
    WRONG_CONTENT = "wrong_content"
    CONTAINER_MISSING = "container_missing"
    SOURCE_MISSING = "source_missing"
    SOURCE_FAILED = "source_failed"
    STORAGE_FAILED = "storage_failed"

    @property
    def text(self) -> ProblemText:
        return _problem_texts()[self]


class SourceError(Exception):
    """A run cannot go on. ``detail`` names a host, a folder or the type of an error."""

    def __init__(self, code: ProblemCode, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class Network(Protocol):
    """Connects to the hosts of the settings, through the server's filter."""

    def connect(self, host: str, port: int, *, is_encrypted: bool = True) -> Any:
        """Return a connected socket. Raises ``SourceError``."""

    @property
    def tls(self) -> ssl.SSLContext:
        """The context that verifies certificates, to encrypt a connection later (STARTTLS)."""


def confirmed_hosts(settings: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the hosts and ports to which an address led, and that the owner confirmed."""
    return [(str(host), int(port)) for host, port in settings.get("hosts", ())]


@dataclass(frozen=True, slots=True)
class SourceRun:
    """What a run works with. ``state`` is the last one that was stored.

    ``known(container, refs)`` returns the marks of the container's items by ref, of all items if
    ``refs`` is None. ``series_keys`` returns the first keys of each stored series, as importers get.
    """

    settings: Mapping[str, Any]
    credential: Mapping[str, str]
    state: Mapping[str, Any]
    network: Network
    known: Callable[[str, Collection[str] | None], dict[str, str]]
    series_keys: Callable[[], Sequence[str]]
    now: str

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """The hosts that the owner confirmed, besides those that were entered."""
        return confirmed_hosts(self.settings)


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a container, such as a message in a folder, with what was made from it."""

    container: str
    ref: str
    mark: str
    content: ExportItem


@dataclass(frozen=True, slots=True)
class Change:
    """A new mark of a known item, and fields of its record that changed."""

    container: str
    ref: str
    mark: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gone:
    """An item that its container no longer has.

    ``keeps_record``: the server only names its items in another way, so that no record is deleted.
    """

    container: str
    ref: str
    keeps_record: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state that covers everything that was yielded before it. ``done`` of ``total`` items.

    ``skipped`` counts what the chosen containers have and the source does not read, by kind, such as
    ``.mp4``.
    """

    state: Mapping[str, Any]
    done: int = 0
    total: int = 0
    ends_pass: bool = False
    skipped: Mapping[str, int] = field(default_factory=dict)


Event = Item | Change | Gone | Checkpoint


@dataclass(frozen=True, slots=True)
class Container:
    """Something to choose, such as a folder. ``is_usual``: chosen unless the owner says otherwise."""

    name: str
    title: str
    is_usual: bool
    items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Reads one kind of account.

    - ``run`` yields what is new since the state, and ends with a ``Checkpoint`` that ends the pass.
    - ``containers`` signs in and returns what the owner can choose.
    """

    run: Callable[[SourceRun], Iterator[Event]]
    containers: Callable[[SourceRun], Sequence[Container]]


class FieldKind(StrEnum):
    """How a setting is asked for. The text of a secret is never shown again.

    An address (``url``) begins with https, and sets the settings ``host`` and ``port``.
    """

    TEXT = "text"
    HOST = "host"
    PORT = "port"
    SECRET = "secret"  # noqa: S105 - a kind
    URL = "url"
    SECRET_URL = "secret_url"  # noqa: S105 - a kind

    @property
    def is_secret(self) -> bool:
        return self in (FieldKind.SECRET, FieldKind.SECRET_URL)

    @property
    def is_url(self) -> bool:
        return self in (FieldKind.URL, FieldKind.SECRET_URL)


@dataclass(frozen=True, slots=True)
class SourceField:
    """A setting that a source needs, from its manifest."""

    name: str
    label: str
    kind: FieldKind
    hint: str = ""
    default: str = ""
    is_optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledSource(Installed):
    """A live source.

    ``volatile`` are the fields by stream that reading a stored record again changes; other streams
    are replaced. ``container_field`` has the container. Records of ``dependents`` are deleted with
    the record whose key and a dot begin theirs. An item whose records are of such a stream has the
    part before the dot as its key: it is a series. A record whose twin has a key that begins with
    ``twin_prefix`` becomes that one: another format has brought it.
    ``hosts`` are pairs of the settings that name a host and its port: the source can connect to nothing else.
    ``has_deletions``: it notices what the account deletes, so that the owner can choose mirroring.
    ``discovery`` is the service, ``caldav`` or ``carddav``, that finds an empty address. ``companion``
    is the source that reads what else the same account has.
    ``signs_in``: instead of secrets, it may get an access token (OAuth).
    """

    fields: tuple[SourceField, ...]
    hosts: tuple[tuple[str, str], ...]
    container_title: str = ""
    container_field: str = ""
    volatile: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dependents: tuple[str, ...] = ()
    interval: timedelta = timedelta(minutes=5)
    has_deletions: bool = True
    signs_in: bool = False
    discovery: str = ""
    companion: str = ""

    def item_key(self, stream: str, record_key: str) -> str:
        """Return the key of the item with this first record."""
        return record_key.partition(".")[0] if stream in self.dependents else record_key

    def host_addresses(self, settings: Mapping[str, Any]) -> set[tuple[str, int]]:
        """Return the hosts and ports that the owner entered or confirmed."""
        entered = {(str(settings[host]), int(settings[port])) for host, port in self.hosts}
        return entered | set(confirmed_hosts(settings))
