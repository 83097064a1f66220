"""What a grant would show if it were issued, or shows: a scope for the owner to look through, never
for a token.

The terms go through the very document that issuing freezes and authentication reads back, so that
what is previewed is what will be enforced.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import orjson

from evidence.access.owning import owner_scope
from evidence.access.scope import GrantTerms, Scope, StreamTerms, TokenKind
from evidence.access.terms import frozen, parsed_terms, thawed
from evidence.models.grants import Grant

NOT_ISSUED = "not-issued"


def tried_scope(grants: Iterable[tuple[int, Sequence[StreamTerms]]], *, owner_id: str) -> Scope:
    """The scope of a package with one grant for each (source, terms). The caller has made sure that
    the owner asks."""
    return replace(
        owner_scope(owner_id),
        kind=TokenKind.CLIENT,
        token_id=NOT_ISSUED,
        grants=tuple(
            GrantTerms(f"{NOT_ISSUED}-{number}", source_pk, _as_enforced(terms))
            for number, (source_pk, terms) in enumerate(grants)
        ),
    )


def held_scope(grant: Grant, *, owner_id: str) -> Scope:
    """The scope of one grant alone, as the token reads it, for the owner to look through. The caller
    has made sure that the owner asks, and that the grant is theirs."""
    terms = parsed_terms(grant.grant_id, orjson.dumps(grant.streams).decode())
    return replace(
        owner_scope(owner_id),
        kind=TokenKind.CLIENT,
        token_id=NOT_ISSUED,
        grants=(GrantTerms(grant.grant_id, grant.source_id, terms),),
    )


def _as_enforced(terms: Sequence[StreamTerms]) -> tuple[StreamTerms, ...]:
    return thawed(orjson.dumps(frozen(terms, time_fields={})))
