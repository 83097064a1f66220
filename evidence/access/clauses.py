"""Which clause of which grant refused a call, in words for the owner. Pure; no answer quotes it.

It is made of what the grants say and of names that a declaration knows. It looks at no record, so it
says as much of a record that is hidden as of one that is not there.
"""

from collections.abc import Collection, Iterable

from evidence.access.describing import day, joined
from evidence.access.scope import Allowed, GrantTerms, Only, Scope, StreamTerms, TimeRange
from evidence.refusals import Code, Refusal

MOST_NAMED = 12
BY_CODE = {
    Code.GRANT_PAUSED: "Everything that this token stands for is paused.",
    Code.GRANT_CONSUMED: "Everything that this token stands for was for a single use, and is closed.",
    Code.GRANT_EXPIRED: "Everything that this token stands for has expired.",
    Code.GRANT_REVOKED: "Everything that this token stands for was ended.",
    Code.PERMISSION_ERROR: "Only the owner's own token may do this.",
    Code.AMBIGUOUS_CONNECTION: "The call fits several connections that are granted and names none.",
    Code.AMBIGUOUS_SCHEMA_DETAIL: "The call fits several sources that are granted and names none.",
}
NO_CLAUSE = "No clause of a grant: the call itself could not be answered."


def clause_of(refusal: Refusal, scope: Scope, *, stream: str, declared: Collection[str]) -> str:
    """Why a call that was let in was refused. ``stream`` is empty where it named none that any granted
    source ``declared``."""
    if refusal.clause:
        return refusal.clause
    if refusal.code is Code.GRANT_STREAM_NOT_ALLOWED:
        return _streams(scope.grants, stream)
    if refusal.code is Code.CONNECTION_NOT_FOUND:
        return _connections(scope)
    if refusal.code in (Code.NOT_FOUND, Code.BLOB_NOT_FOUND):
        return _rows(scope, stream) if stream else _no_such_stream(declared)
    if refusal.code is Code.RATE_LIMIT_EXCEEDED:
        return refusal.message
    return BY_CODE.get(refusal.code, NO_CLAUSE)


def fields_clause(grant_id: str | None, allowed: Allowed, field: str) -> str:
    return f"Grant {grant_id} freezes the fields {_named(allowed)}; “{field}” is not among them."


def filters_clause(grant_id: str | None, allowed: Allowed, field: str) -> str:
    return (
        f"Grant {grant_id} shows “{field}”, but lets rows be chosen and ordered only by"
        f" {_named(allowed)}."
    )


def _streams(grants: Iterable[GrantTerms], stream: str) -> str:
    return " ".join(
        f"Grant {grant.grant_id} freezes the streams"
        f" {joined([terms.name for terms in grant.streams])}; “{stream}” is not among them."
        for grant in grants
    )


def _connections(scope: Scope) -> str:
    covered = {
        each for grant in scope.grants for terms in grant.streams for each in terms.connection_ids
    }
    names = [facts.display_name for key, facts in scope.connections.items() if key in covered]
    return (
        f"The grants of this token lead to the connections {joined(names[:MOST_NAMED])}; the one asked"
        " for is not among them, or does not have that stream."
    )


def _no_such_stream(declared: Collection[str]) -> str:
    names = joined(sorted(declared)[:MOST_NAMED])
    return f"The sources that are granted declare {names}, and nothing of the name asked for."


def _rows(scope: Scope, stream: str) -> str:
    said = [
        f"Grant {grant.grant_id} shows {_extent(terms)}"
        for grant in scope.grants
        for terms in grant.streams
        if terms.name == stream
    ]
    return f"{'; '.join(said)}. Nothing of the id asked for is among them: hidden, or not there."


def _extent(terms: StreamTerms) -> str:
    if isinstance(terms.records, Only):
        return f"{len(terms.records.names)} single records of {terms.name}"
    return f"the records of {terms.name}{_during(terms.time)}"


def _during(time: TimeRange | None) -> str:
    if time is None:
        return ", whatever their time"
    since = "" if time.since is None else f" from {day(time.since)} on"
    return since + ("" if time.until is None else f" until before {day(time.until)}")


def _named(allowed: Allowed) -> str:
    names = sorted(allowed.names) if isinstance(allowed, Only) else ["(all)"]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "") or "(none)"
