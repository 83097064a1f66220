"""Derive who occurs in which record, in batches: as a background job, or at once by ``reindex``.

Each batch locks its connection and commits its mentions with the progress, so a run can be
interrupted, and imports continue between batches.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from django.db import transaction
from django.db.models import Exists, OuterRef

from evidence.declarations.declaration import normalize_identity
from evidence.models.connections import Connection
from evidence.models.digests import person_digest
from evidence.models.owners import Owner, current_owner
from evidence.write import stored_keys
from evidence.write.locks import lock_connections
from evidence.write.targets import connection_targets
from owner.records import mentions
from owner.records.mentions import FoundMention
from owner.records.models import Mention, PeopleProgress, PersonMerge
from owner.records.periods import is_plausible
from owner.records.person_identities import owner_identities, people_of
from owner.records.record_roles import StreamRoles
from owner.text import parse_time

VERSION = 2
"""Changes whenever the same record would have other mentions."""
BATCH_SIZE = 500


@dataclass(frozen=True, slots=True)
class PeopleStream:
    """A stream of one connection that names people."""

    connection: Connection
    roles: StreamRoles
    owner: frozenset[str]
    country: str

    @property
    def name(self) -> str:
        return self.roles.stream.name

    @property
    def fields(self) -> list[str]:
        """The fields that mentions depend on."""
        roles = self.roles
        names = {roles.actor, roles.actor_id, roles.title, roles.stream.event_time_field,
                 *roles.addresses, *roles.participants, *roles.stream.authorship}  # fmt: skip
        return sorted(filter(None, names))

    def mentions(self, records: Mapping[str, Mapping[str, Any]]) -> list[FoundMention]:
        return [mention for key, data in records.items() for mention in self._mentions(key, data)]

    def _mentions(self, key: str, data: Mapping[str, Any]) -> Iterator[FoundMention]:
        at = parse_time(data.get(self.roles.stream.event_time_field or ""))
        moment = at if at is not None and self._is_contact(at) else None
        found = people_of(
            self.roles,
            data,
            connection_id=self.connection.connection_id,
            identities=self.connection.identities,
            owner=self.owner,
            country=self.country,
        )
        for person in found:
            yield FoundMention(key, person.identity, person.name, moment)

    def _is_contact(self, at: datetime) -> bool:
        """Return whether the time of a record is one of contact: of no card and no sender's mistake."""
        return not self.roles.is_contact_card and is_plausible(self.roles.stream, at.date())


def derive_people() -> Iterator[int]:
    """Derive the people of new and changed records; yield the number of records per batch."""
    is_changed = False
    try:
        for connection_id in outdated_connections():
            while (count := derive_batch(connection_id, limit=BATCH_SIZE)) is not None:
                is_changed = True
                yield count
    finally:
        if is_changed:
            join_people()


def is_collecting() -> bool:
    """Return whether records wait for their people. One query."""
    current = PeopleProgress.unscoped.filter(
        pk=OuterRef("pk"), is_complete=True, seq__gte=OuterRef("change_seq")
    )
    rows = Connection.unscoped.filter(pk__in=_connection_ids())
    return rows.filter(~Exists(current)).exists()


def outdated_connections() -> list[str]:
    """Return the connections with records whose people are not derived yet. Locks nothing."""
    rows = Connection.unscoped.exclude(status=Connection.Status.REVOKED).order_by("pk")
    connections = list(rows.select_related("source"))
    facts = _OwnerFacts.load(current_owner())
    saved = PeopleProgress.unscoped.in_bulk([row.pk for row in connections])
    return [row.pk for row in connections if not _is_current(row, facts, saved.get(row.pk))]


def derive_batch(connection_id: str, *, limit: int) -> int | None:
    """Derive and commit the next records of a connection; None when nothing is left."""
    with transaction.atomic():
        if not lock_connections([connection_id]):
            return None
        row = Connection.unscoped.select_related("source").get(pk=connection_id)
        streams = _people_streams(row, _OwnerFacts.load(current_owner()))
        saved = PeopleProgress.unscoped.filter(pk=row.pk).first()
        progress = _valid_progress(row, saved, _basis(streams))
        if not progress.is_complete:
            return _derive_all(streams, progress, limit)
        if progress.seq >= row.change_seq:
            return None
        return _derive_changes(streams, progress, limit)


def join_people() -> None:
    """Join identities that share a contact card, or that the owner merged."""
    with transaction.atomic():
        lock_connections(_connection_ids())
        groups = _Groups()
        for identities in _cards():
            for identity in identities[1:]:
                groups.join(person_digest(identities[0]), person_digest(identity))
        for identity, person in PersonMerge.unscoped.values_list("identity", "person"):
            groups.join(person_digest(identity), person)
        mentions.join_identities(groups.people())


def _connection_ids() -> list[str]:
    rows = Connection.unscoped.exclude(status=Connection.Status.REVOKED).order_by("pk")
    return list(rows.values_list("pk", flat=True))


@dataclass(frozen=True, slots=True)
class _OwnerFacts:
    """What decides for all connections of an owner who a person is."""

    identities: frozenset[str]
    country: str

    @classmethod
    def load(cls, owner_id: str) -> "_OwnerFacts":
        """Return the owner's facts. Two queries."""
        rows = Connection.unscoped.filter(owner_id=owner_id).values_list("identities", flat=True)
        country = Owner.unscoped.values_list("country", flat=True).get(pk=owner_id)
        every = (each for identities in rows for each in identities)
        return cls(owner_identities(every, country), country)


def _people_streams(row: Connection, owner: _OwnerFacts) -> dict[str, PeopleStream]:
    found = (StreamRoles(target.stream) for target in connection_targets(row))
    return {
        roles.stream.name: PeopleStream(row, roles, owner.identities, owner.country)
        for roles in sorted(found, key=lambda each: each.stream.name)
        if roles.names_people
    }


def _basis(streams: Mapping[str, PeopleStream]) -> str:
    """Return a digest of all that mentions depend on besides the records."""
    parts = [
        [
            each.name,
            each.fields,
            each.connection.identities,
            sorted(each.owner),
            *filter(None, [each.country]),
        ]
        for each in streams.values()
    ]
    return hashlib.sha256(orjson.dumps([VERSION, parts])).hexdigest()


def _is_current(row: Connection, owner: _OwnerFacts, saved: PeopleProgress | None) -> bool:
    progress = _valid_progress(row, saved, _basis(_people_streams(row, owner)))
    return progress.is_complete and progress.seq >= row.change_seq


def _valid_progress(row: Connection, saved: PeopleProgress | None, basis: str) -> PeopleProgress:
    """Return the saved progress, or a new start if something else changed, or too much."""
    if saved is not None and saved.basis == basis and saved.seq >= row.pruned_seq:
        return saved
    return PeopleProgress(connection=row, basis=basis, seq=row.change_seq, is_complete=False)


def _derive_all(streams: Mapping[str, PeopleStream], progress: PeopleProgress, limit: int) -> int:
    """Derive the next records in the order of stream and key."""
    for name, stream in streams.items():
        if name < progress.after_stream:
            continue
        after = progress.after_key if name == progress.after_stream else ""
        connection_id = progress.connection_id
        records = stored_keys.next_fields(
            connection_id, name, fields=stream.fields, after=after, limit=limit
        )
        if records:
            mentions.replace_mentions(connection_id, name, records, stream.mentions(records))
            progress.after_stream, progress.after_key = name, max(records)
            progress.save()
            return len(records)
    mentions.delete_other_streams(progress.connection_id, streams)
    progress.is_complete, progress.after_stream, progress.after_key = True, "", ""
    progress.save()
    return 0


def _derive_changes(
    streams: Mapping[str, PeopleStream], progress: PeopleProgress, limit: int
) -> int:
    """Derive the records of the next changes."""
    connection_id = progress.connection_id
    changed, last = stored_keys.changed_keys(connection_id, since=progress.seq, limit=limit)
    for name, keys in changed.items():
        if (stream := streams.get(name)) is not None:
            records = stored_keys.fields_of(connection_id, name, fields=stream.fields, keys=keys)
            mentions.replace_mentions(connection_id, name, keys, stream.mentions(records))
    progress.seq = progress.connection.change_seq if last is None else last
    progress.save()
    return sum(map(len, changed.values()))


def _cards() -> Iterator[list[str]]:
    """Yield the identities of each contact card, without those on cards of several names."""
    cards: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    names: dict[str, set[str]] = defaultdict(set)
    for connection_id, stream in _card_streams():
        rows = Mention.unscoped.filter(connection_id=connection_id, stream=stream)
        for key, identity, name in rows.values_list("record_key", "identity", "name"):
            cards[connection_id, stream, key].append(identity)
            names[identity].add(normalize_identity(name or ""))
    for identities in cards.values():
        yield sorted(identity for identity in identities if len(names[identity]) == 1)


def _card_streams() -> Iterator[tuple[str, str]]:
    for row in Connection.unscoped.select_related("source").filter(pk__in=_connection_ids()):
        for target in connection_targets(row):
            if StreamRoles(target.stream).is_contact_card:
                yield row.connection_id, target.stream.name


class _Groups:
    """Disjoint sets of hashes of identities."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def join(self, left: str, right: str) -> None:
        first, second = sorted((self._root(left), self._root(right)))
        self._parents[second] = first

    def people(self) -> dict[str, str]:
        """Return the least member of the group of each hash."""
        return {each: self._root(each) for each in self._parents}

    def _root(self, each: str) -> str:
        self._parents.setdefault(each, each)
        while self._parents[each] != each:
            self._parents[each] = self._parents[self._parents[each]]
            each = self._parents[each]
        return each
