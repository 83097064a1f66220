"""Requests for more access, which refused calls of an app make and the owner answers.

A request contains declared names only: no word of it is the app's. The database has the keyed hash of
its link, never the link.
"""

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q, QuerySet

from evidence.access.crypto import digest_for, digests_for, new_id
from evidence.access.grant_extensions import extend_grant, widen_grant
from evidence.access.grant_states import GrantState, filter_state, with_grant_state
from evidence.access.grant_text import field_label, humanize, join_words, stream_label
from evidence.access.grants import current_grant_id, lock_packages
from evidence.access.scope import Scope
from evidence.access.sql import SQL, fetch_all
from evidence.errors import ApiException, MissingAccess
from evidence.models.grants import Grant, PermissionRequest
from evidence.models.sources import load_declarations

LIFETIME = timedelta(hours=1)
DECLINE_PERIOD = timedelta(days=1)
"""The time after a declined request in which the same request is not made again."""
EXPIRED_RETENTION = timedelta(days=1)
ANSWERED_RETENTION = timedelta(days=30)
MAX_OPEN = 5
"""Unanswered requests of one package."""
MAX_NAMED_FIELDS = 3
LOCK_TIMEOUT = "1s"
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
    with transaction.atomic():
        fetch_all(SQL("SELECT set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,)))
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
