"""Names what the owner was shown, so that nothing else is approved in its place.

A revision covers the question, every right that an approval would give, how long it holds and how
much may be read: not how many records there are just now, for a grant covers those that come later as well, and says so.
"""

import hashlib
import hmac
from collections.abc import Sequence

import orjson

from evidence.access.secrets import key_for
from evidence.access.terms import frozen
from evidence.consent.drafts import SourceDraft


def revision(
    sources: Sequence[SourceDraft],
    *,
    question: object,
    ends: str,
    at_most: str,
    mark: str,
    user_pk: object,
) -> str:
    """``question`` is any JSON; ``mark`` stands for one rendering of the form, and ``user_pk`` for
    the only one who can approve it."""
    shown = {
        "question": question,
        "ends": ends,
        "at_most": at_most,
        "mark": mark,
        "user": user_pk,
        "sources": [_rights(source) for source in sources],
    }
    content = orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)
    return hmac.digest(key_for("consent revision"), content, hashlib.sha256).hex()


def _rights(source: SourceDraft) -> dict[str, object]:
    return {
        "source": source.offer.source.pk,
        "declaration": source.offer.declaration_pk,
        "labels": [[each.pk, each.display_name] for each in source.connections],
        "streams": frozen(source.terms, time_fields={}),
    }


def is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
