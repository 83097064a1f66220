"""One grant: what it says, and ending it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.contrib.admin.utils import quote
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from evidence.access.grant_states import (
    State,
    connection_ids,
    connection_labels,
    grants_with_state,
    state_of,
    stream_labels,
    terms_of,
    tokens_with_state,
    usable_until,
)
from evidence.access.grant_text import StreamInWords
from evidence.access.grants import mint_token, revoke_grant, revoke_package
from evidence.access.quotas import limits_of, own_share_of, set_limits, set_share
from evidence.models.grants import AccessToken, Grant, Package
from owner.formatting import counted, mark, when, worded
from owner.grants.term_forms import ReadingForm, TokensForm, filled_in, used_in_words
from owner.setup_snippets import WHERE, Recipe, recipes
from owner.site import Question, confirmation, is_confirmed, owner, page


@dataclass(frozen=True, slots=True)
class GrantLine:
    url: str
    client: str
    source: str
    connections: str
    streams: str
    issued: str
    ends: str
    state: SafeString


def grant_lines(grants: Iterable[Grant]) -> list[GrantLine]:
    """Of grants from ``grants_with_state``, in their order."""
    labels = connection_labels(owner().pk)
    return [
        GrantLine(
            url=grant_url("change", grant.grant_id),
            client=grant.package.client.display_name,
            source=grant.source.display_name,
            connections=", ".join(labels.get(each, each) for each in connection_ids(grant)),
            streams=", ".join(stream_labels(grant)),
            issued=when(grant.issued_at),
            ends=when(grant.expires_at),
            state=mark(state_of(grant)),
        )
        for grant in grants
    ]


def grant_url(view: str, grant_id: str) -> str:
    return reverse(f"admin:evidence_grant_{view}", args=[quote(grant_id)])


Minted = Sequence[tuple[str, str]]
"""(resource, bearer)"""


def further_token(request: HttpRequest, grant: Grant) -> HttpResponse:
    """Another token for everything that was given together; none where all of it has ended."""
    back = grant_url("change", grant.pk)
    usable, _ = usable_until(grant.package_id, now=timezone.now())
    if not usable:
        messages.error(request, "This grant has ended, so a token for it would open nothing.")
        return redirect(back)
    form = TokensForm(request.POST or None)
    if not form.is_valid():
        together = grant_lines(grants_with_state(timezone.now()).filter(package=grant.package))
        context = {"form": form, "grant": grant, "together": together, "back": back}
        return page(request, "further_token", title="Another token", context=context)
    with transaction.atomic():
        minted = mint(grant.package, form.cleaned_data["tokens"])
    return shown_once(request, grant.package, minted)


def mint(package: Package, resources: Sequence[str]) -> Minted:
    """A bearer for each resource; they end with the grants they stand for."""
    now = timezone.now()
    return [(resource, mint_token(package, resource=resource, now=now)) for resource in resources]


def shown_once(request: HttpRequest, package: Package, minted: Minted) -> HttpResponse:
    """The page with the bearers. Like every page of the site it is kept by no browser."""
    _, until = usable_until(package.pk, now=timezone.now())
    context = {
        "until": when(until, never="when you end it"),
        "minted": [
            (WHERE[resource], bearer, _recipes(bearer, resource)) for resource, bearer in minted
        ],
        "grants_url": reverse("admin:evidence_grant_changelist"),
    }
    title = "Your new token" if len(minted) == 1 else "Your new tokens"
    return page(request, "tokens_once", title=title, context=context)


def _recipes(bearer: str, resource: str) -> tuple[Recipe, ...]:
    return recipes(bearer, resource=resource, url=settings.PDPP_PUBLIC_URL)


REACHES = {
    AccessToken.Kind.OWNER: "You: all records, to read and to write",
    AccessToken.Kind.CLIENT: "One grant",
    AccessToken.Kind.PACKAGE: "Several grants",
}


@dataclass(frozen=True, slots=True)
class TokenLine:
    url: str
    holder: str
    works: str
    reaches: str
    created: str
    ends: str
    state: SafeString


def token_line(token: AccessToken) -> TokenLine:
    """Of a token from ``tokens_with_state``."""
    package = token.package
    return TokenLine(
        url=token_url("change", token.pk),
        holder="You" if package is None else package.client.display_name,
        works=WHERE.get(token.resource, f"at {token.resource}"),
        reaches=REACHES[AccessToken.Kind(token.kind)],
        created=when(token.created_at),
        ends=when(token.expires_at, never="never" if package is None else "with its grants"),
        state=mark(state_of(token)),
    )


def token_lines(tokens: Iterable[AccessToken]) -> list[TokenLine]:
    return [token_line(token) for token in tokens]


def token_url(view: str, token_id: str) -> str:
    return reverse(f"admin:evidence_accesstoken_{view}", args=[quote(token_id)])


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
