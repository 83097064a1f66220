"""Hold what a source read between two states, and how its records change."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SeenItem:
    """An item that was read, and the key of its record; the key is empty if it has none."""

    container: str
    ref: str
    mark: str
    stream: str
    key: str


@dataclass(frozen=True, slots=True)
class SyncedRecord:
    """A record as JSON. ``replaces`` and ``unknown`` are as in ``IngestEntry``."""

    stream: str
    key: str
    data: bytes
    replaces: Sequence[str] = ()
    unknown: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class OutdatedRecords:
    """Records below a key that an item no longer has: all from ``first`` but those in ``keep``."""

    stream: str
    key: str
    keep: Sequence[str]
    first: str


@dataclass(frozen=True, slots=True)
class ItemChange:
    """Fields of a known item's record that changed, and its new mark."""

    container: str
    ref: str
    mark: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SyncRules:
    """How a source's records change.

    ``volatile`` are the fields by stream that reading a stored record again changes; other streams
    are replaced. ``container_field`` has the container. Records of ``dependents`` are deleted with
    the record whose key and a dot begin theirs. An item whose records are of such a stream has the
    part before the dot as its key: it is a series. A record whose twin has a key that begins with
    ``twin_prefix`` becomes that one: another format has brought it.
    """

    volatile: Mapping[str, Collection[str]]
    container_field: str = ""
    dependents: Sequence[str] = ()
    twin_prefix: str = ""

    def item_key(self, stream: str, record_key: str) -> str:
        """Return the key of the item with this first record."""
        return record_key.partition(".")[0] if stream in self.dependents else record_key


@dataclass(slots=True)
class SyncBatch:
    """What a source read between two states. ``ends_pass``: it has looked at everything once.

    ``gone`` has containers and refs, and whether the record stays whatever the owner chose.
    """

    records: list[SyncedRecord] = field(default_factory=list)
    outdated: list[OutdatedRecords] = field(default_factory=list)
    seen: list[SeenItem] = field(default_factory=list)
    changes: list[ItemChange] = field(default_factory=list)
    gone: list[tuple[str, str, bool]] = field(default_factory=list)
    traffic: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    ends_pass: bool = False
