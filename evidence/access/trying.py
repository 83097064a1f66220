"""What a grant would show if it were issued: a scope for the owner to look through, never for a token.

The terms go through the very document that issuing freezes and authentication reads back, so that
what is previewed is what will be enforced.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import orjson

from evidence.access.owning import owner_scope
from evidence.access.scope import GrantTerms, Scope, StreamTerms, TokenKind
from evidence.access.terms import frozen, thawed

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


def _as_enforced(terms: Sequence[StreamTerms]) -> tuple[StreamTerms, ...]:
    return thawed(orjson.dumps(frozen(terms, time_fields={})))
