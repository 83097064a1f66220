"""Options for the browser's passkey calls, and adding and removing a passkey."""

from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from owner import passkeys, second_factor
from owner.accounts import step_up
from owner.accounts.second_factor_views import mark_verified, recovery_codes_page
from owner.permissions import is_owner, is_owner_account, owner_required
from owner.text import one_line

MAX_NAME_CHARS = 40


@sensitive_post_parameters()
@never_cache
@require_POST
def passkey_options(request: HttpRequest, purpose: str) -> JsonResponse:
    """Return the options of a browser's next call, with a new challenge.

    To verify, the password must have been entered. To add, the owner must have confirmed recently.
    """
    user = request.user
    if purpose not in (passkeys.ADD, passkeys.VERIFY):
        raise Http404
    if not is_owner_account(user) or (purpose == passkeys.ADD and not is_owner(user)):
        return JsonResponse({"error": "Sign in first."}, status=403)
    if purpose == passkeys.ADD and step_up.is_needed(request):
        return JsonResponse({"confirm": step_up.url(reverse("admin:second_factor"))}, status=403)
    try:
        options = passkeys.begin(cast("User", user), request.session, purpose, now=timezone.now())
    except ValueError:
        return JsonResponse({"error": "Passkeys need a host name and TLS."}, status=409)
    return JsonResponse(options)


@sensitive_post_parameters()
@require_POST
@owner_required
def add_passkey(request: HttpRequest) -> HttpResponse:
    """Add the passkey that the browser created. Shows recovery codes after the first device."""
    user, back = cast("User", request.user), reverse("admin:second_factor")
    if step_up.is_needed(request):
        return redirect(step_up.url(back))
    had_codes = second_factor.count_recovery_codes(user) > 0
    name = one_line(request.POST.get("name", "").strip(), max_length=MAX_NAME_CHARS) or "Passkey"
    answer = request.POST.get("passkey", "")
    passkey = passkeys.add(user, request.session, answer, name=name, now=timezone.now())
    if passkey is None:
        messages.error(request, "The passkey was not added. Try again.")
        return redirect(back)
    second_factor.forget_enrolment(user)
    mark_verified(request, passkey)
    if not had_codes:
        return recovery_codes_page(request, second_factor.renew_recovery_codes(user))
    messages.success(request, "The passkey is added.")
    return redirect(back)


@require_POST
@owner_required
def remove_passkey(request: HttpRequest) -> HttpResponse:
    """Remove a passkey. With the last device, the recovery codes go too."""
    user, back = cast("User", request.user), reverse("admin:second_factor")
    if step_up.is_needed(request):
        return redirect(step_up.url(back))
    if passkeys.remove(user, request.POST.get("id", "")):
        second_factor.forget_enrolment(user)
        if not second_factor.is_enrolled(user):
            second_factor.disable(user)
        messages.success(request, "The passkey is removed.")
    return redirect(back)
