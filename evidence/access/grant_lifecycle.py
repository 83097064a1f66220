"""Narrow, widen and close grants, suspend or delete all access, and keep what apps ask for.

Narrowing issues a successor in the same package, never wider than the grant that it supersedes. Tokens
stay valid, because they belong to the package. Whatever is bound to the old grant, such as a bookmark
of the changes feed or a temporary grant, becomes invalid (design, section 4).

A grant is widened for good by a successor, or for a while by a temporary grant that extends it. Only what
was asked is added. Time range, records and connections of a stream stay as they are, and the token of the
app reads more from its next request.

Refused calls of an app make the requests for more access that the owner answers. A request contains
declared names only: no word of it is the app's. The database has the keyed hash of its link, never the
link.
"""

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from evidence.access.crypto import digest_for, digests_for, new_id
from evidence.access.grant_states import (
    CURRENT_STATES,
    GrantState,
    connection_ids,
    filter_state,
    state_of,
    terms_of,
    with_grant_state,
)
from evidence.access.grant_terms import StreamRequest, resolve_terms, serialize_terms
from evidence.access.grant_text import field_label, humanize, join_words, stream_label
from evidence.access.grants import (
    current_grant_id,
    lock_packages,
    revoke_grant,
    source_of_connections,
)
from evidence.access.quotas import (
    get_tripwire_share,
    lock_quotas,
    set_tripwire_share,
    transfer_quotas,
)
from evidence.access.scope import (
    Allowed,
    Everything,
    Only,
    Scope,
    StreamTerms,
    TimeRange,
    TokenKind,
)
from evidence.access.sql import SQL, fetch_prepared, time_limited_transaction
from evidence.declarations.declaration import SourceDeclaration, StreamDeclaration
from evidence.errors import ApiException, GrantConsumed, GrantRevoked, InvalidRequest, MissingAccess
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.events import Bookmark
from evidence.models.grants import AccessToken, Collector, Grant, Package, PermissionRequest
from evidence.models.quotas import Quota, RefusedCall
from evidence.models.sources import load_declarations


@transaction.atomic
def narrow_grant(
    grant_id: str,
    streams: Sequence[StreamRequest],
    *,
    connection_ids: Sequence[str],
    expires_at: datetime | None,
    now: datetime,
) -> Grant:
    """Replace a grant with a narrower successor and return it.

    It expires with the old grant, or at ``expires_at`` if that is sooner. Raises ``GrantRevoked`` if the
    old grant is neither active nor paused, ``InvalidRequest`` for anything wider, or like ``issue``.
    """
    old, limits = lock_grant(grant_id, states=CURRENT_STATES, now=now)
    source, ids = source_of_connections(connection_ids, owner_id=old.package.owner_id)
    if source.pk != old.source_id or source.current_declaration_id is None:
        message = "The connections must belong to the source of the old grant."
        raise InvalidRequest(message=message, param="connections")
    successor = copy_grant(
        old,
        declaration_id=source.current_declaration_id,
        streams=_narrowed(old, streams, declaration_id=source.current_declaration_id, ids=ids),
        issued_at=now,
        expires_at=min((e for e in (old.expires_at, expires_at) if e is not None), default=None),
    )
    supersede(old, limits, by=successor, now=now)
    return successor


def lock_grant(
    grant_id: str, *, states: Collection[GrantState], now: datetime
) -> tuple[Grant, list[Quota]]:
    """Lock a grant and its quotas until the transaction ends.

    Raises ``GrantRevoked`` if it is in none of the states.
    """
    lock_packages(pk__in=Grant.unscoped.filter(pk=grant_id).values("package"))
    limits = lock_quotas(grant_id)
    grant = with_grant_state(now).select_for_update(of=("self",)).filter(pk=grant_id).first()
    if grant is None or state_of(grant) not in states:
        raise GrantRevoked
    return grant, limits


def copy_grant(old: Grant, **changes: Any) -> Grant:
    """Create a grant of the same package and source that differs in ``changes``."""
    columns: dict[str, Any] = {
        name: getattr(old, name)
        for name in (
            "package", "source", "purpose_code", "purpose_description", "access_mode", "retention",
            "paused_at", "readable_until", "extends",
        )
    }  # fmt: skip
    return Grant.unscoped.create(grant_id=new_id("grt_"), **columns | changes)


def supersede(old: Grant, limits: Sequence[Quota], *, by: Grant, now: datetime) -> None:
    """Put a successor in the place of a locked grant, with its quotas and their usage."""
    Grant.unscoped.filter(pk=old.pk).update(superseded_by=by)
    transfer_quotas(old.pk, limits, to=by.pk, now=now)


def _narrowed(
    old: Grant, streams: Sequence[StreamRequest], *, declaration_id: int, ids: frozenset[str]
) -> list[dict[str, Any]]:
    """Return the serialized terms of the successor."""
    declared_streams = load_declarations([declaration_id])[declaration_id].declaration.streams
    old_terms = {terms.name: terms for terms, _ in terms_of(old)}
    terms = [
        _require_narrower(
            resolve_terms(request, streams=declared_streams, connection_ids=ids),
            old_terms.get(request.name),
            declared_streams[request.name],
        )
        for request in streams
    ]
    time_fields = {name: stream.consent_time_field for name, stream in declared_streams.items()}
    return serialize_terms(terms, time_fields=time_fields)


def _require_narrower(
    new: StreamTerms, old: StreamTerms | None, stream: StreamDeclaration
) -> StreamTerms:
    """Return ``new`` without filters, views and relations that ``old`` lacks.

    Raises ``InvalidRequest`` if ``new`` shows more than ``old``.
    """
    if old is None:
        raise InvalidRequest(
            message=f"The old grant does not include {new.name!r}.", param="streams"
        )
    if not new.connection_ids <= old.connection_ids:
        raise InvalidRequest(
            message="The old grant does not include the connection.", param="connections"
        )
    if not _is_subset(new.fields, old.fields):
        raise InvalidRequest(message="The old grant does not include the field.", param="fields")
    if not _is_subset(new.records, old.records):
        raise InvalidRequest(
            message="The old grant does not include the record.", param="resources"
        )
    if not _is_within_time(new.time, old.time):
        raise InvalidRequest(
            message="The old grant does not include the time range.", param="since"
        )
    old_relations = old.relations if not isinstance(old.relations, Everything) else ()
    new_relations = new.relations if not isinstance(new.relations, Everything) else ()
    return replace(
        new,
        filters=_intersection(new.filters, old.filters, among=stream.fields),
        views=_intersection(new.views, old.views, among=stream.views),
        relations=tuple(relation for relation in new_relations if relation in old_relations),
    )


def _is_subset(new: Allowed, old: Allowed) -> bool:
    if isinstance(old, Everything):
        return True
    return isinstance(new, Only) and new.names <= old.names


def _is_within_time(new: TimeRange | None, old: TimeRange | None) -> bool:
    if old is None:
        return True
    if new is None:
        return False
    after = old.since is None or (new.since is not None and new.since >= old.since)
    before = old.until is None or (new.until is not None and new.until <= old.until)
    return after and before


def _intersection(new: Allowed, old: Allowed, *, among: Iterable[str]) -> Only:
    return Only(frozenset(name for name in among if new.allows(name) and old.allows(name)))


@transaction.atomic
def suspend_all(*, now: datetime) -> tuple[int, int]:
    """Pause all grants and revoke all tokens of owners and collectors after a restore.

    Returns the number of each.

    Otherwise access that was revoked after the backup would work again.
    """
    paused = Grant.unscoped.filter(revoked_at=None, paused_at=None).update(paused_at=now)
    owner_tokens = AccessToken.unscoped.filter(kind=TokenKind.OWNER, revoked_at=None)
    collectors = Collector.unscoped.filter(revoked_at=None).update(revoked_at=now)
    return paused, owner_tokens.update(revoked_at=now) + collectors


def revoke_grants_of_connection(connection_id: str, *, now: datetime) -> int:
    """Revoke the grants that have no other existing connection. Returns their number."""
    others = set(Connection.unscoped.exclude(pk=connection_id).values_list("pk", flat=True))
    usable = with_grant_state(now).filter(Q(state__in=CURRENT_STATES))
    orphaned = [grant for grant in usable if not others.intersection(connection_ids(grant))]
    return sum(
        revoke_grant(grant.grant_id, now=now)
        for grant in orphaned
        if connection_id in connection_ids(grant)
    )


@transaction.atomic
def delete_access(owner_id: str) -> Counter[str]:
    """Delete every grant, token and client of an owner. Returns the number of each."""
    of_owner = {"owner_id": owner_id}
    removed = Counter(
        {
            "tokens": _delete(AccessToken.unscoped.filter(**of_owner)),
            "collectors": _delete(Collector.unscoped.filter(**of_owner)),
            "grants": _delete_grants(owner_id),
            "bookmarks": _delete(Bookmark.unscoped.filter(**of_owner)),
        }
    )
    _delete(RefusedCall.unscoped.filter(**of_owner))
    _delete(Package.unscoped.filter(**of_owner))
    removed["clients"] = _delete(Client.unscoped.filter(**of_owner))
    return +removed


def _delete_grants(owner_id: str) -> int:
    """Delete grants, each superseded or temporary grant before the one that it refers to."""
    grants = Grant.unscoped.filter(package__owner_id=owner_id)
    superseded = Grant.unscoped.filter(Q(superseded_by=OuterRef("pk")) | Q(extends=OuterRef("pk")))
    total = 0
    while count := _delete(grants.filter(~Exists(superseded))):
        total += count
    return total


def _delete(rows: QuerySet[Any]) -> int:
    """Delete rows and return their number, without cascaded rows."""
    return rows.delete()[1].get(f"evidence.{rows.model.__name__}", 0)


SINGLE_USE_WINDOW = timedelta(minutes=10)

OPEN_WINDOW = """
-- Open the window of single-use grants without one, and lock the grants until the answer is given.
-- Returns those whose window has closed meanwhile. Parameters: end of the window, owner id,
-- grant ids, owner id, now, grant ids.
WITH opened AS (
    UPDATE evidence_grant SET readable_until = %s
    WHERE owner_id = %s AND grant_id = ANY(%s) AND readable_until IS NULL
)
SELECT grant_id FROM evidence_grant
WHERE owner_id = %s AND readable_until <= %s AND grant_id = ANY(%s)
"""


def use_once(scope: Scope, disclosing: Iterable[str], *, now: datetime) -> None:
    """Open the window of each single-use grant among the grants through which an answer discloses.

    Call it in the transaction of the answer. One query, or none without a single-use grant. Raises
    ``GrantConsumed`` if a window has closed since the token was looked up.
    """
    single_use = {str(grant.grant_id) for grant in scope.grants if grant.single_use}
    grant_ids = sorted(single_use & set(disclosing))
    if not grant_ids:
        return
    if fetch_prepared(
        SQL(
            OPEN_WINDOW,
            (now + SINGLE_USE_WINDOW, scope.owner_id, grant_ids, scope.owner_id, now, grant_ids),
        )
    ):
        raise GrantConsumed


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


LIFETIME = timedelta(hours=1)
DECLINE_PERIOD = timedelta(days=1)
"""The time after a declined request in which the same request is not made again."""
EXPIRED_RETENTION = timedelta(days=1)
ANSWERED_RETENTION = timedelta(days=30)
MAX_OPEN = 5
"""Unanswered requests of one package."""
MAX_NAMED_FIELDS = 3
LOCK_SECONDS = 1
"""Time for all of it, since a cluster hands no `lock_timeout` on to its nodes."""
TOKEN_BYTES = 18

Answer = PermissionRequest.Answer


def requestable(error: ApiException, scope: Scope) -> MissingAccess | None:
    """Return what a refused app can ask for: nothing through a single-use grant, nothing for the owner."""
    missing = error.missing
    if missing is None or scope.package_id is None:
        return None
    grants = {grant.grant_id: grant for grant in scope.grants}
    base = grants[grants[missing.grant_id].charged_grant]
    if base.single_use:
        return None
    return MissingAccess(str(base.grant_id), missing.connector_key, missing.stream, missing.fields)


def request_permission(missing: MissingAccess, *, package_id: str, now: datetime) -> str | None:
    """Return the token of the link on which the owner can answer; the same while the request is open.

    Returns None if the owner recently declined any of it, or the package has too many open requests. One
    query for a known request. Raises a database error if the package stays locked.
    """
    token, may_create = _find_token(missing, package_id, now)
    if token is not None or not may_create:
        return token
    with time_limited_transaction(LOCK_SECONDS):
        lock_packages(pk=package_id)
        token, may_create = _find_token(missing, package_id, now)
        return _create(missing, now) if may_create else token


class FoundToken(NamedTuple):
    """The token of an open request, or whether a new request may be created."""

    token: str | None
    may_create: bool


def _find_token(missing: MissingAccess, package_id: str, now: datetime) -> FoundToken:
    is_open = Q(answered_at=None, expires_at__gt=now)
    is_declined = Q(answer=Answer.DECLINED, answered_at__gt=now - DECLINE_PERIOD)
    rows = list(
        PermissionRequest.unscoped.filter(is_open | is_declined, grant__package_id=package_id)
    )
    same_stream = [
        row for row in rows
        if row.stream == missing.stream and current_grant_id(row.grant_id) == missing.grant_id
    ]  # fmt: skip
    if any(row.answered_at and _overlap(row.fields, missing.fields) for row in same_stream):
        return FoundToken(None, may_create=False)
    for row in same_stream:
        if row.answered_at is None and _as_set(row.fields) == _as_set(missing.fields):
            return FoundToken(link_token(row), may_create=False)
    unanswered = sum(row.answered_at is None for row in rows)
    return FoundToken(None, may_create=unanswered < MAX_OPEN)


def _overlap(declined: Sequence[str] | None, fields: Sequence[str] | None) -> bool:
    return declined is None or fields is None or not set(declined).isdisjoint(fields)


def _as_set(fields: Sequence[str] | None) -> frozenset[str] | None:
    return None if fields is None else frozenset(fields)


def _create(missing: MissingAccess, now: datetime) -> str:
    request_id = new_id("ask_")
    [token, *_] = _tokens(request_id)
    PermissionRequest.unscoped.create(
        request_id=request_id,
        digest=digest_for("permission request", token),
        grant_id=missing.grant_id,
        stream=missing.stream,
        fields=None if missing.fields is None else list(missing.fields),
        created_at=now,
        expires_at=now + LIFETIME,
    )
    return token


def _tokens(request_id: str) -> list[str]:
    """Derive the token of a request from the current key, then from previous keys."""
    digests = digests_for("permission request link", request_id)
    return [base64.urlsafe_b64encode(digest[:TOKEN_BYTES]).decode() for digest in digests]


def link_token(request: PermissionRequest) -> str | None:
    """Return the token of a request's link, or None if its key was retired."""
    digest = bytes(request.digest)
    tokens = _tokens(request.request_id)
    return next((t for t in tokens if digest in digests_for("permission request", t)), None)


def find_request(token: str, *, owner_id: str) -> PermissionRequest | None:
    """Return the request of a link, answered or not."""
    digests = digests_for("permission request", token)
    return _of_owner(owner_id).filter(digest__in=digests).first()


def open_requests(owner_id: str, *, now: datetime) -> list[PermissionRequest]:
    """Return the requests that wait for the owner, oldest first."""
    rows = _of_owner(owner_id).filter(answered_at=None, expires_at__gt=now)
    return [row for row in rows.order_by("created_at", "pk") if requested_grant(row, now=now)]


def requested_grant(request: PermissionRequest, *, now: datetime) -> Grant | None:
    """Return the grant that an answer would widen, if it is active."""
    rows = filter_state(with_grant_state(now), GrantState.ACTIVE)
    return rows.filter(pk=current_grant_id(request.grant_id)).first()


def _of_owner(owner_id: str) -> QuerySet[PermissionRequest]:
    rows = PermissionRequest.unscoped.select_related("grant__package__client", "grant__source")
    return rows.filter(grant__package__owner_id=owner_id)


def describe_request(request: PermissionRequest) -> str:
    """Return ``Body text of Messages in Mail``, in declared names."""
    source = request.grant.source
    pk = source.current_declaration_id or request.grant.declaration_id
    stream = load_declarations([pk])[pk].declaration.streams.get(request.stream)
    if stream is None:
        return f"{humanize(request.stream)} in {source.display_name}"
    label = f"{stream_label(stream)} in {source.display_name}"
    if request.fields is None:
        return label
    names = [
        field_label(stream.fields[name], stream.fields)
        for name in request.fields
        if name in stream.fields
    ]
    more = len(names) - MAX_NAMED_FIELDS
    shown = names if more <= 1 else [*names[:MAX_NAMED_FIELDS], f"{more} more fields"]
    return f"{join_words(shown)} of {label}"


def request_sentence(request: PermissionRequest) -> str:
    client = request.grant.package.client.display_name
    return f"{client} asks to read {describe_request(request)}"


@transaction.atomic
def answer_request(request_id: str, answer: str, *, now: datetime) -> bool:
    """Apply the owner's answer. Returns False if the request is not open any more.

    Raises ``GrantRevoked`` or ``InvalidRequest`` if the grant cannot be widened.
    """
    rows = PermissionRequest.unscoped.filter(pk=request_id)
    lock_packages(pk__in=rows.values("grant__package"))
    row = rows.filter(answered_at=None, expires_at__gt=now).first()
    if row is None:
        return False
    rows.update(answered_at=now, answer=answer)
    grant_id = current_grant_id(row.grant_id)
    if answer == Answer.ALWAYS:
        widen_grant(grant_id, row.stream, row.fields, now=now)
    elif answer != Answer.DECLINED:
        single_use = answer == Answer.ONCE
        extend_grant(grant_id, row.stream, row.fields, single_use=single_use, now=now)
    return True


def delete_old_requests(now: datetime) -> int:
    """Delete expired requests and answered ones after their retention. Returns their number."""
    is_expired = Q(answered_at=None, expires_at__lt=now - EXPIRED_RETENTION)
    is_old = Q(answered_at__lt=now - ANSWERED_RETENTION)
    return PermissionRequest.unscoped.filter(is_expired | is_old).delete()[0]
