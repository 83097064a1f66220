"""One grant: what it says, and ending it."""

from collections.abc import Sequence

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from evidence.access.describing import StreamInWords
from evidence.access.held import (
    State,
    connection_labels,
    grants_with_state,
    state_of,
    terms_of,
    tokens_with_state,
)
from evidence.access.issuing import revoke_grant, revoke_package
from evidence.access.limiting import limits_of, own_share_of, set_limits, set_share
from evidence.admin.base import owner, page
from evidence.admin.confirming import Question, confirmation, is_confirmed
from evidence.admin.grant_lines import grant_lines, grant_url
from evidence.admin.limits_form import ReadingForm, filled_in, used_in_words
from evidence.admin.token_lines import token_lines
from evidence.consent.wording import counted, mark, when, worded
from evidence.models.grants import Grant

EXPLANATION = (
    "From the next request on nothing can be read through it any more. This cannot be undone;"
    " you can always give access again with a new grant."
)
ALL = "all"


def detail(
    request: HttpRequest, grant: Grant, *, limits_form: ReadingForm | None = None
) -> HttpResponse:
    """The grant in sentences, with what came with it."""
    now = timezone.now()
    used = limits_of(grant.pk, now=now)
    package = grants_with_state(now).filter(package=grant.package)
    context = {
        "grant": grant,
        "facts": _facts(grant),
        "state": mark(state_of(grant)),
        "is_active": state_of(grant) in (State.ACTIVE, State.PAUSED),
        "sentences": sentences(grant),
        "others": grant_lines(package.exclude(pk=grant.pk)),
        "tokens": token_lines(tokens_with_state(now).filter(package=grant.package)),
        "limits_form": limits_form
        or ReadingForm(initial=filled_in(used, share=own_share_of(grant.pk))),
        "used": used_in_words(used),
        "limits_url": grant_url("limits", grant.pk),
        "revoke_url": grant_url("revoke", grant.pk),
        "token_url": grant_url("token", grant.pk),
    }
    title = f"{grant.package.client.display_name} reads {grant.source.display_name}"
    status = 422 if limits_form is not None else 200
    return page(request, "grant", title=title, context=context, status=status)


def limit(request: HttpRequest, grant: Grant) -> HttpResponse:
    """Sets the limits of a grant, and shows the page again where a number is none."""
    form = ReadingForm(request.POST)
    if not form.is_valid():
        return detail(request, grant, limits_form=form)
    with transaction.atomic():
        set_limits(grant.pk, form.limits, now=timezone.now())
        set_share(grant.pk, form.cleaned_data["share"])
    messages.success(request, f"From the next request on, at most: {form.limits_in_words}.")
    return redirect(grant_url("change", grant.pk))


def sentences(grant: Grant) -> list[StreamInWords]:
    """What the grant says, stream by stream, in the words of the declaration it was given under."""
    labels = connection_labels(owner().pk)
    return [worded(terms, stream=stream, labels=labels) for terms, stream in terms_of(grant)]


def revoke(request: HttpRequest, grant: Grant) -> HttpResponse:
    """Asks whether to end this grant alone or all that was given with it, and does it."""
    back = grant_url("change", grant.pk)
    together = list(grants_with_state(timezone.now()).filter(package=grant.package))
    whole = request.GET.get("with") == ALL
    if not is_confirmed(request):
        return confirmation(request, question(together if whole else [grant], back=back))
    if whole:
        revoke_package(grant.package_id, now=timezone.now())
        messages.success(request, "Everything that was given together has ended.")
    else:
        end(request, [grant])
    return redirect(back)


def end(request: HttpRequest, grants: Sequence[Grant]) -> None:
    now = timezone.now()
    ended = sum(revoke_grant(grant.pk, now=now) for grant in grants)
    messages.success(request, f"{counted(ended, 'grant')} ended.")


def question(grants: Sequence[Grant], *, back: str) -> Question:
    lines = grant_lines(grants)
    return Question(
        title="End this grant?" if len(grants) == 1 else f"End {len(grants)} grants?",
        explanation=EXPLANATION,
        items={
            grant.pk: f"{line.client}: {line.streams}, through {line.connections}"
            for grant, line in zip(grants, lines, strict=True)
        },
        button="Yes, end it" if len(grants) == 1 else "Yes, end them",
        back=back,
    )


def _facts(grant: Grant) -> list[tuple[str, str]]:
    successor = grant.superseded_by_id
    ended = grant.revoked_at or grant.package.revoked_at
    return [
        ("Client", grant.package.client.display_name),
        ("Source", grant.source.display_name),
        ("Purpose", grant.purpose_description or "not said"),
        ("Given", when(grant.issued_at)),
        ("Ends", when(grant.expires_at)),
        *([("Use", _use(grant))] if grant.access_mode == Grant.AccessMode.SINGLE_USE else []),
        *([("Replaced by", successor)] if successor is not None else []),
        *([("Ended by you", when(ended))] if ended is not None else []),
        ("Id", grant.pk),
        ("Package", grant.package_id),
    ]


def _use(grant: Grant) -> str:
    once = "once: for ten minutes from its first answer"
    return once if grant.readable_until is None else f"{once}, until {when(grant.readable_until)}"
