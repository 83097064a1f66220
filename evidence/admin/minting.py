"""Making tokens, and the one page that ever shows them."""

from collections.abc import Sequence

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from evidence.access.handing_over import WHERE, Recipe, recipes
from evidence.access.held import grants_with_state, usable_until
from evidence.access.issuing import mint_token
from evidence.access.succession import minted_before
from evidence.admin.approvals import approval_of, new_approval
from evidence.admin.base import page
from evidence.admin.grant_lines import grant_lines, grant_url
from evidence.admin.terms_form import TokensForm
from evidence.consent.wording import when
from evidence.models.grants import Grant, Package

ALREADY_MADE = (
    "A token was already made with this form. If you did not copy it, end it and choose"
    " “Make another token”."
)
Minted = Sequence[tuple[str, str]]
"""(resource, bearer)"""


def further_token(request: HttpRequest, grant: Grant) -> HttpResponse:
    """Another token for everything that was given together; none where all of it has ended."""
    back = grant_url("change", grant.pk)
    usable, _ = usable_until(grant.package_id, now=timezone.now())
    if not usable:
        messages.error(request, "This grant has ended, so a token for it would open nothing.")
        return redirect(back)
    form, approval = TokensForm(request.POST or None), approval_of(request)
    if not form.is_valid() or approval is None:
        together = grant_lines(grants_with_state(timezone.now()).filter(package=grant.package))
        context = {
            "form": form,
            "grant": grant,
            "together": together,
            "back": back,
            "approval": new_approval(),
        }
        return page(request, "further_token", title="Another token", context=context)
    with transaction.atomic():
        if minted_before(approval, package_id=grant.package_id):
            messages.error(request, ALREADY_MADE)
            return redirect(back)
        minted = mint(grant.package, form.cleaned_data["tokens"], approval=approval)
    return shown_once(request, grant.package, minted)


def mint(package: Package, resources: Sequence[str], *, approval: str | None = None) -> Minted:
    """A bearer for each resource; they end with the grants they stand for."""
    now = timezone.now()
    return [
        (resource, mint_token(package, resource=resource, now=now, approval=approval))
        for resource in resources
    ]


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
