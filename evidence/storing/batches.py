"""One line -> one entry: an operation on one record of one target, checked."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from evidence.declarations.record_validation import RecordFault, record_key
from evidence.declarations.values import instant
from evidence.storing.derivation import Derived, derive
from evidence.storing.ndjson import Line, read_object
from evidence.storing.receipts import Code, Receipt, Rejected
from evidence.storing.rows import Ref
from evidence.storing.targets import Destinations, Target

# `connector_key` and `type` say nothing that the connection does not; exports carry them.
_MEMBERS = frozenset(
    {"key", "data", "emitted_at", "op", "connection_id", "stream", "connector_key", "type"}
)


class Op(StrEnum):
    UPSERT = "upsert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Address:
    """Where lines go that do not say it themselves."""

    connection_id: str
    stream: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What one line asks for. ``data`` is empty for a deletion."""

    line: int
    target: Target
    key: str
    op: Op
    data: dict[str, Any]
    emitted_at: datetime


def read_entry(
    content: bytes,
    *,
    line: int,
    destinations: Destinations,
    address: Address | None,
    now: datetime,
) -> Entry:
    """The entry of a line; raises ``Rejected``. Without an ``emitted_at`` it is emitted now."""
    members = read_object(content)
    if not members.keys() <= _MEMBERS:
        raise Rejected(Code.INVALID_ENVELOPE)
    target = _target(members, destinations, address)
    op = _op(members)
    data = members.get("data")
    if not isinstance(data, dict) and not (op is Op.DELETE and data is None):
        raise Rejected(Code.INVALID_RECORD, path="$.data")
    key = _key(members.get("key"), data or {}, target)
    emitted_at = _emitted_at(members, now)
    if op is Op.DELETE:
        return Entry(line, target, key, op, {}, emitted_at)
    _check(data or {}, target)
    return Entry(line, target, key, op, data or {}, emitted_at)


def _target(
    members: Mapping[str, Any], destinations: Destinations, address: Address | None
) -> Target:
    if address is None:
        address = Address(_name(members, "connection_id"), _name(members, "stream"))
    for name in ("connection_id", "stream"):
        if name in members and members[name] != getattr(address, name):
            raise Rejected(Code.INVALID_ENVELOPE, path=f"$.{name}")
    return destinations.find(address.connection_id, stream=address.stream)


def _name(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise Rejected(Code.INVALID_ENVELOPE, path=f"$.{name}")
    return value


def _op(members: Mapping[str, Any]) -> Op:
    try:
        return Op(members.get("op", Op.UPSERT))
    except ValueError:
        raise Rejected(Code.INVALID_OP, path="$.op") from None


def _emitted_at(members: Mapping[str, Any], now: datetime) -> datetime:
    if members.get("emitted_at") is None:
        return now
    moment = instant(members["emitted_at"])
    if moment is None:
        raise Rejected(Code.INVALID_EMITTED_AT, path="$.emitted_at")
    return moment


def _check(data: dict[str, Any], target: Target) -> None:
    fault = target.validator.check(data)
    if fault is None:
        return
    path, _, reason = fault.partition(": ")
    code = Code.NESTED_TOO_DEEPLY if reason == "depth" else Code.INVALID_RECORD
    raise Rejected(code, path="$.data" + path.removeprefix("$"), reason=reason)


def _key(stated: object, data: Mapping[str, Any], target: Target) -> str:
    try:
        return record_key(target.stream, data, stated)
    except RecordFault as fault:
        raise Rejected(Code(fault.code), path=fault.at) from None


RECORDS_AT_ONCE = 1_000
BYTES_AT_ONCE = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prepared:
    """An entry and what follows from its data; nothing does for a deletion."""

    entry: Entry
    ref: Ref
    derived: Derived | None


@dataclass(slots=True)
class Batch:
    """Consecutive lines: the good ones prepared, the bad ones with their receipts."""

    records: list[Prepared] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    lines: int = 0
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.lines >= RECORDS_AT_ONCE or self.size >= BYTES_AT_ONCE


@dataclass(frozen=True, slots=True)
class Preparer:
    """Makes records of lines for one run."""

    destinations: Destinations
    address: Address | None
    now: datetime

    def batches(self, lines: Iterable[Line]) -> Iterator[Batch]:
        batch = Batch()
        for line in lines:
            self._add(batch, line)
            if batch.is_full:
                yield batch
                batch = Batch()
        if batch.lines:
            yield batch

    def _add(self, batch: Batch, line: Line) -> None:
        batch.lines += 1
        batch.size += len(line.content or b"")
        try:
            batch.records.append(self._prepared(line))
        except Rejected as refusal:
            batch.receipts.append(Receipt(line.number, refusal.code, refusal.path, refusal.reason))

    def _prepared(self, line: Line) -> Prepared:
        if line.content is None:
            raise Rejected(Code.LINE_TOO_LONG)
        entry = read_entry(
            line.content,
            line=line.number,
            destinations=self.destinations,
            address=self.address,
            now=self.now,
        )
        target = entry.target
        ref = Ref(target.connection_id, target.stream.name, entry.key)
        if entry.op is Op.DELETE:
            return Prepared(entry, ref, None)
        return Prepared(entry, ref, derive(target, key=entry.key, data=entry.data))
