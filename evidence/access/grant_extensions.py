"""Widen a grant: for good by a successor, or for a while by a temporary grant that extends it.

Only what was asked is added. Time range, records and connections of a stream stay as they are, and
the token of the app reads more from its next request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from evidence.access.grant_lifecycle import copy_grant, lock_grant, supersede
from evidence.access.grant_states import GrantState, filter_state, terms_of, with_grant_state
from evidence.access.grant_terms import StreamRequest, resolve_terms, serialize_terms
from evidence.access.quotas import get_tripwire_share, set_tripwire_share
from evidence.access.scope import Allowed, Only, StreamTerms, TimeRange
from evidence.declarations.declaration import SourceDeclaration, StreamDeclaration
from evidence.errors import GrantRevoked, InvalidRequest
from evidence.models.grants import Grant
from evidence.models.sources import load_declarations

TEMPORARY = timedelta(hours=1)
"""The time in which a temporary grant can be used."""


@transaction.atomic
def widen_grant(
    grant_id: str, stream: str, fields: Sequence[str] | None, *, now: datetime
) -> Grant:
    """Replace a grant with a successor that also includes a stream or fields of it, and return it.

    Raises ``GrantRevoked`` if the old grant is not active, ``StreamNotDeclared`` or
    ``InvalidRequest``.
    """
    old, limits = lock_grant(grant_id, states=[GrantState.ACTIVE], now=now)
    successor = copy_grant(
        old,
        **_stored(old, widened_terms(old, stream, fields)),
        issued_at=now,
        expires_at=old.expires_at,
    )
    supersede(old, limits, by=successor, now=now)
    return successor


@transaction.atomic
def extend_grant(
    grant_id: str, stream: str, fields: Sequence[str] | None, *, single_use: bool, now: datetime
) -> Grant:
    """Issue a temporary grant for one stream with these fields in addition, and return it.

    It replaces an earlier temporary grant for the stream, and keeps the fields of one that was not for
    a single use. Nothing becomes visible for longer than the owner allowed. Raises like
    ``widen_grant``.
    """
    base, _ = lock_grant(grant_id, states=[GrantState.ACTIVE], now=now)
    if base.access_mode == Grant.AccessMode.SINGLE_USE or base.extends_id is not None:
        raise GrantRevoked
    earlier = temporary_grant(base, stream, now)
    is_kept = earlier is not None and earlier.access_mode != "single_use" and fields is not None
    kept = earlier if is_kept else None
    terms = [term for term in widened_terms(kept or base, stream, fields) if term.name == stream]
    ends = (base.expires_at, None if kept is None else kept.expires_at, now + TEMPORARY)
    temporary = copy_grant(
        base,
        **_stored(base, terms),
        issued_at=now,
        expires_at=min(end for end in ends if end is not None),
        access_mode="single_use" if single_use else "continuous",
        extends=base,
    )
    if earlier is not None:
        Grant.unscoped.filter(pk=earlier.pk).update(superseded_by=temporary)
    set_tripwire_share(temporary.pk, get_tripwire_share(base.pk))
    return temporary


def temporary_grant(base: Grant, stream: str, now: datetime) -> Grant | None:
    """Return the active temporary grant that extends a grant for a stream."""
    rows = filter_state(with_grant_state(now), GrantState.ACTIVE).filter(extends=base)
    return next((row for row in rows if row.streams[0]["name"] == stream), None)


def widened_terms(grant: Grant, stream: str, fields: Sequence[str] | None) -> list[StreamTerms]:
    """Return the terms of a grant with more fields of a stream, or with the whole stream if None.

    A new stream has the connections of the grant, and its time range if all its streams with a time
    have one. Raises ``StreamNotDeclared`` or ``InvalidRequest``.
    """
    declared = _declaration(grant).streams
    terms = [term for term, _ in terms_of(grant)]
    granted = [term for term in terms if term.name == stream]
    missing = _connections(terms) - _connections(granted)
    if not (missing if fields is None else granted):
        raise InvalidRequest(message="The grant has changed.", param="streams")
    request = StreamRequest(name=stream)
    asked = resolve_terms(request, streams=declared, connection_ids=missing)
    if fields is not None:
        return [
            _with_fields(term, asked, frozenset(fields), declared[stream])
            if term.name == stream else term
            for term in terms
        ]  # fmt: skip
    time = _common_time(terms, declared) if declared[stream].consent_time_field else None
    return [*terms, replace(asked, time=time)]


def _with_fields(
    term: StreamTerms, asked: StreamTerms, fields: frozenset[str], stream: StreamDeclaration
) -> StreamTerms:
    shown = _names(term.fields) | (fields & _names(asked.fields))
    views = {view.id for view in stream.views.values() if shown.issuperset(view.fields)}
    return replace(
        term,
        fields=Only(shown),
        filters=Only(_names(term.filters) | (fields & _names(asked.filters))),
        views=Only(_names(term.views) | views),
    )


def _connections(terms: Sequence[StreamTerms]) -> frozenset[str]:
    return frozenset(connection_id for term in terms for connection_id in term.connection_ids)


def _common_time(
    terms: Sequence[StreamTerms], declared: Mapping[str, StreamDeclaration]
) -> TimeRange | None:
    """Return the time range that all streams with a time have in common, None if one has none."""
    ranges = [
        term.time for term in terms
        if term.name in declared and declared[term.name].consent_time_field is not None
    ]  # fmt: skip
    if not ranges or None in ranges:
        return None
    starts = [time.since for time in ranges if time is not None and time.since is not None]
    ends = [time.until for time in ranges if time is not None and time.until is not None]
    return TimeRange(max(starts, default=None), min(ends, default=None))


def _stored(grant: Grant, terms: Sequence[StreamTerms]) -> dict[str, Any]:
    streams = _declaration(grant).streams
    time_fields = {name: stream.consent_time_field for name, stream in streams.items()}
    return {
        "declaration_id": grant.source.current_declaration_id,
        "streams": serialize_terms(terms, time_fields=time_fields),
    }


def _declaration(grant: Grant) -> SourceDeclaration:
    pk = grant.source.current_declaration_id
    if pk is None:
        raise InvalidRequest(message="The source has no declaration.", param="connections")
    return load_declarations([pk])[pk].declaration


def _names(allowed: Allowed) -> frozenset[str]:
    """Return the names of a grant's terms, which are never everything."""
    return allowed.names if isinstance(allowed, Only) else frozenset()
