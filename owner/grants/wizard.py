"""The question as a page, and the owner's answer.

Three callers, one page: ``/oauth/authorize``, ``/device`` and the approval of ``/agent-connect``. Each
has made sure that the owner is signed in, and calls ``review`` to ask and ``decided`` on the POST.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from evidence.access.crypto import key_for
from evidence.access.grant_terms import frozen
from evidence.access.grants import approved_before, hold_sources, holder, issue
from evidence.access.quotas import set_limits
from evidence.errors import Refusal
from evidence.models.accounts import OWNER_ID
from owner.grants.access_request import Asked
from owner.grants.draft import Choice, SourceDraft, is_answer
from owner.grants.grantable_sources import (
    SourceOffer,
    asked_offers,
    readable_connections,
    whole_offers,
)
from owner.grants.review_page import Review, review_page
from owner.permissions import is_owner


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


OURS = frozenset({"csrfmiddlewaretoken", "decision", "pick", "mark", "revision"})
EMPTY = "Nothing is chosen yet: tick at least one connection, or do not allow it."
FAULTY = "Something below needs another look; it is marked."
NOT_SEEN = "This is not what you were shown last. Look at what it comes to now, then allow it."


@dataclass(frozen=True, slots=True)
class Approved:
    """The package that holds what the owner allowed."""

    package_id: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The owner said no."""


def review(
    request: HttpRequest,
    asked: Asked,
    *,
    action_url: str,
    hidden: Mapping[str, str],
    error: str = "",
) -> HttpResponse:
    """The page. Its form posts to ``action_url`` with the ``hidden`` fields as they are."""
    _require_owner(request)
    question = _Question(request, asked)
    return question.page(action_url=action_url, hidden=hidden, error=error)


def decided(request: HttpRequest, asked: Asked) -> Approved | Denied | HttpResponse:
    """The owner's answer. A response where there is none yet; nothing is stored then.

    The caller's own fields come back in the page: everything posted that is not the page's. The same
    form sent twice is approved once, and gives the same package both times.
    """
    _require_owner(request)
    decision = request.POST.get("decision")
    if decision == "deny":
        return Denied()
    with transaction.atomic():
        if decision == "allow":
            hold_sources(OWNER_ID)
        question = _Question(request, asked)
        error = question.reason_not_to_approve() if decision == "allow" else ""
        if decision == "allow" and not error:
            try:
                return question.approved()
            except Refusal as refusal:
                error = refusal.message
    return question.page(action_url=request.path, hidden=question.hidden, error=error)


class _Question:
    """One client's question, and the owner's answers to it so far."""

    def __init__(self, request: HttpRequest, asked: Asked) -> None:
        self._request = request
        self._asked = asked
        self._offers, self._unknown = _offers(asked)
        self._choice = Choice(
            self._offers,
            request.POST if _has_answers(request, self._offers) else None,
            at_most=min((d.expires_at for d in asked.details if d.expires_at), default=None),
            ticked=bool(asked.details),
        )

    def page(self, *, action_url: str, hidden: Mapping[str, str], error: str) -> HttpResponse:
        mark = secrets.token_urlsafe(16)
        complete = self._choice.check()
        if not complete and not error and not self._choice.is_empty and self._choice.has_errors:
            error = FAULTY
        return review_page(
            self._request,
            Review(
                asked=self._asked,
                choice=self._choice,
                unknown=self._unknown,
                action_url=action_url,
                hidden=hidden,
                error=error,
                mark=mark,
                revision=self._revision(mark) if complete else "",
            ),
        )

    def reason_not_to_approve(self) -> str:
        """Empty where the owner has seen exactly what an approval would give."""
        if self._choice.is_empty:
            return EMPTY
        if not self._choice.check():
            return FAULTY
        mark, given = (self._request.POST.get(name, "") for name in ("mark", "revision"))
        if not mark or not is_same(given, self._revision(mark)):
            return NOT_SEEN
        return ""

    def approved(self) -> Approved:
        """Stores the approval. Raises ``Refusal`` for what cannot be given any more."""
        now = timezone.now()
        mark = self._request.POST["mark"]
        if (before := approved_before(mark)) is not None:
            return Approved(before)
        client = self._asked.client
        held_by = holder(client.client_id, display_name=client.name, owner_id=OWNER_ID, now=now)
        requests, limits = self._choice.draft.requests(now), self._choice.limits.limits
        package, grants = issue(requests, client=held_by, now=now, approval=mark)
        for grant in grants if limits else ():
            set_limits(grant.pk, limits, now=now)
        return Approved(package.pk)

    @property
    def hidden(self) -> dict[str, str]:
        """The caller's own fields."""
        return {
            name: str(value)
            for name, value in self._request.POST.items()
            if name not in OURS and not is_answer(self._offers, name)
        }

    def _revision(self, mark: str) -> str:
        asked = self._asked
        question = [
            repr(each)
            for each in (asked.client, asked.resource, asked.redirect_host, asked.details)
        ]
        return revision(
            self._choice.draft.sources,
            question=[*question, sorted(asked.claims.items())],
            ends=self._choice.ends,
            at_most=self._choice.limits.limits_in_words,
            mark=mark,
            user_pk=self._request.user.pk,
        )


def _offers(asked: Asked) -> tuple[list[SourceOffer], list[str]]:
    if asked.details:
        return asked_offers(asked.details, owner_id=OWNER_ID)
    return whole_offers(readable_connections(OWNER_ID)), []


def _has_answers(request: HttpRequest, offers: list[SourceOffer]) -> bool:
    """Whether the form of the page was sent, and not only some other form of the caller."""
    return "mark" in request.POST and any(is_answer(offers, name) for name in request.POST)


def _require_owner(request: HttpRequest) -> None:
    """The callers ask for a sign-in first; whatever they forget ends here."""
    if not is_owner(request.user):
        raise PermissionDenied
