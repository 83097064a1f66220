"""``/login/second``: the owner's second factor, after the password."""

import base64
from typing import Any, cast
from urllib.parse import urlencode

import segno
from django import forms
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import User
from django.contrib.auth.views import RedirectURLMixin, redirect_to_login
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.generic import FormView
from django_otp import login as note_device
from django_otp.models import Device
from django_otp.plugins.otp_totp.models import TOTPDevice
from typing_extensions import override

from evidence.access import sign_in_throttle
from owner import second_factor
from owner.accounts import known_browsers
from owner.permissions import fenced, is_owner, is_owners_account
from owner.site import page

WRONG = (
    "That is not a code of yours, or it has been used. Codes of a phone change every 30 seconds."
)


class OnceInput(forms.TextInput):
    """What was typed is not written back: it is a secret, or wrong."""

    @override
    def format_value(self, value: Any) -> None:
        return None


class CodeForm(forms.Form):
    """One code, of the phone or one of the recovery codes. ``device`` is whose it was."""

    code = forms.CharField(
        label="Code",
        max_length=40,
        widget=OnceInput(
            attrs={"autocomplete": "one-time-code", "autofocus": True, "spellcheck": "false"}
        ),
    )
    retry_after: int | None = None
    device: Device | None = None

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request

    def clean_code(self) -> str:
        """Counted as every other step of signing in."""
        user = self.request.user
        assert isinstance(user, User)  # noqa: S101 - the page is for nobody else
        try:
            attempt = sign_in_throttle.begin(
                *known_browsers.subjects(self.request, user.get_username(), kind="second factor"),
                now=timezone.now(),
            )
        except sign_in_throttle.TooManyAttempts as refusal:
            self.retry_after = refusal.retry_after
            raise ValidationError(str(refusal), code="throttled") from None
        code: str = self.cleaned_data["code"]
        self.device = self.judged(user, code)
        if self.device is None:
            raise ValidationError(WRONG, code="wrong")
        attempt.succeeded()
        return code

    def judged(self, user: User, code: str) -> Device | None:
        return second_factor.shown_by(user, code)


def passed(request: HttpRequest, device: Device) -> None:
    """This session has shown the second factor; it goes on under another name."""
    request.session.cycle_key()
    note_device(request, device)


def slowed(response: HttpResponse, form: CodeForm) -> HttpResponse:
    """The same answer, as one that may be tried again later where that is so."""
    if form.retry_after is not None:
        response.status_code = 429
        response["Retry-After"] = str(form.retry_after)
    return response


def second_step(next_url: str) -> str:
    return f"{reverse('login-second')}?{urlencode({REDIRECT_FIELD_NAME: next_url})}"


@method_decorator([sensitive_post_parameters(), never_cache], name="dispatch")
class SecondStep(RedirectURLMixin, FormView[CodeForm]):
    template_name = "owner/consent/second_step.html"
    form_class = CodeForm

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_owners_account(request.user):
            return redirect_to_login(self.get_success_url())
        if is_owner(request.user):
            return HttpResponseRedirect(self.get_success_url())
        return super().dispatch(request, *args, **kwargs)

    @override
    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"request": self.request}

    @override
    def form_valid(self, form: CodeForm) -> HttpResponse:
        assert form.device is not None  # noqa: S101 - else the form had not been valid
        passed(self.request, form.device)
        response = HttpResponseRedirect(self.get_success_url())
        known_browsers.remember(response, self.request.user.get_username())
        return response

    @override
    def form_invalid(self, form: CodeForm) -> HttpResponse:
        return slowed(super().form_invalid(form), form)


second = fenced(SecondStep.as_view(next_page=reverse_lazy("admin:index")))


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
    begun = None if device is None else second_factor.shown(device)
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
