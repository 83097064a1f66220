"""The owner's second factor: setting it up, new recovery codes, ending it.

The QR code is drawn here; nobody else learns the secret.
"""

import base64
from typing import cast

import segno
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.debug import sensitive_post_parameters
from django_otp.models import Device
from django_otp.plugins.otp_totp.models import TOTPDevice
from typing_extensions import override

from evidence.admin.base import page
from evidence.consent import phones, second_factor
from evidence.consent.authorizing.second_step import CodeForm, passed, slowed

TITLE = "Second factor"


class FinishForm(CodeForm):
    """The first code of a phone that is being set up."""

    @override
    def judged(self, user: User, code: str) -> Device | None:
        return second_factor.finish(user, code)


@sensitive_post_parameters()
def second_factor_page(request: HttpRequest) -> HttpResponse:
    """What the button that was pressed asks for; else how things stand."""
    user = cast("User", request.user)
    deed = request.POST.get("deed", "")
    if deed == "begin":
        second_factor.begin(user)
        return redirect(request.path)
    if deed == "finish":
        return _finished(request, user)
    if deed in ("renew", "end") and second_factor.is_enrolled(user):
        return _with_a_code(request, user, deed)
    return _stand(request, user, CodeForm(request=request))


def _finished(request: HttpRequest, user: User) -> HttpResponse:
    form = FinishForm(request.POST, request=request)
    if not form.is_valid() or form.device is None:
        return slowed(_stand(request, user, form, status=422), form)
    passed(request, form.device)
    return _codes(request, second_factor.renew_recovery(user))


def _with_a_code(request: HttpRequest, user: User, deed: str) -> HttpResponse:
    """Whoever finds the browser open cannot take the second factor away."""
    form = CodeForm(request.POST, request=request)
    if not form.is_valid():
        return slowed(_stand(request, user, form, status=422), form)
    if deed == "renew":
        if not isinstance(form.device, TOTPDevice):
            form.add_error("code", "New recovery codes need a code of the phone.")
            return _stand(request, user, form, status=422)
        return _codes(request, second_factor.renew_recovery(user))
    second_factor.forget(user)
    messages.success(request, "The password alone opens these pages again.")
    return redirect(request.path)


def _codes(request: HttpRequest, codes: list[str]) -> HttpResponse:
    context = {"codes": codes, "back": reverse("admin:second_factor")}
    return page(request, "recovery_codes", title="Recovery codes", context=context).render()


def _stand(request: HttpRequest, user: User, form: CodeForm, *, status: int = 200) -> HttpResponse:
    device = second_factor.begun(user)
    begun = None if device is None else phones.shown(device)
    context = {
        "form": form,
        "enrolled": second_factor.is_enrolled(user),
        "left": second_factor.recovery_left(user),
        "begun": begun is not None,
        "qr": _drawn(begun) if begun else "",
        "secret": _typed(begun) if begun else "",
    }
    return page(request, "second_factor", title=TITLE, context=context, status=status).render()


def _drawn(device: TOTPDevice) -> SafeString:
    """Shapes only, no text of anybody's."""
    code = segno.make(device.config_url, error="m", micro=False)
    drawn = code.svg_inline(scale=5, dark="#000", light="#fff", title="QR code")
    return mark_safe(drawn)  # noqa: S308


def _typed(device: TOTPDevice) -> str:
    """The secret in groups of four, for a phone that cannot see the page."""
    secret = base64.b32encode(device.bin_key).decode()
    return " ".join(secret[at : at + 4] for at in range(0, len(secret), 4))
