"""Second-factor pages: the code or passkey after the password, enrolment, and recovery codes."""

import base64
from typing import Any, cast
from urllib.parse import urlencode

import segno
from django import forms
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import User
from django.contrib.auth.views import RedirectURLMixin, redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.generic import FormView
from django_otp import login as otp_login
from django_otp.models import Device
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice
from typing_extensions import override

from owner import passkeys, second_factor
from owner.accounts import known_browsers, sign_in_throttle, step_up
from owner.permissions import is_owner, is_owner_account, owner_required, with_security_headers
from owner.site import page


class CodeInput(forms.TextInput):
    """Text input that never shows the submitted value again."""

    @override
    def format_value(self, value: Any) -> None:
        return None


class HiddenAnswer(forms.HiddenInput):
    """Hidden input that is empty again after each submission, because an answer counts once."""

    @override
    def format_value(self, value: Any) -> None:
        return None


WRONG_PASSKEY = "The passkey was not accepted. Try again, or enter a recovery code."


class CodeForm(forms.Form):
    """A TOTP code, a recovery code or the answer of a passkey. `device` accepted it."""

    throttled = "second factor"
    wrong = "Wrong or already used code. Enter the current code from your authenticator app."
    code = forms.CharField(
        label="Code",
        max_length=40,
        required=False,
        widget=CodeInput(
            attrs={"autocomplete": "one-time-code", "autofocus": True, "spellcheck": "false"}
        ),
    )
    passkey = forms.CharField(
        required=False, max_length=passkeys.MAX_RESPONSE_CHARS, widget=HiddenAnswer
    )
    retry_after: int | None = None
    device: Device | None = None

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request

    @override
    def clean(self) -> None:
        code, answer = self.cleaned_data.get("code", ""), self.cleaned_data.get("passkey", "")
        if not code and not answer:
            self.add_error("code", "This field is required.")
            return
        user = self.request.user
        assert isinstance(user, User)  # noqa: S101 - the views require a signed-in account
        keys = known_browsers.throttle_keys(self.request, user.get_username(), kind=self.throttled)
        try:
            attempt = sign_in_throttle.record_attempt(*keys, now=timezone.now())
        except sign_in_throttle.ThrottledError as error:
            self.retry_after = error.retry_after
            self.add_error("code", str(error))
            return
        problem = self.check(user, code, answer)
        if problem is None:
            attempt.succeeded()
        else:
            self.add_error("code", problem)

    def check(self, user: User, code: str, answer: str) -> str | None:
        """Set `device`, or return what is wrong."""
        if answer:
            session = self.request.session
            self.device = passkeys.verify(user, session, answer, now=timezone.now())
            return WRONG_PASSKEY if self.device is None else None
        self.device = second_factor.verify_code(user, code)
        return self.wrong if self.device is None else None


class EnrolmentForm(CodeForm):
    """The first code of a device that is being enrolled."""

    @override
    def check(self, user: User, code: str, answer: str) -> str | None:
        self.device = second_factor.confirm_enrolment(user, code)
        return self.wrong if self.device is None else None


class PasswordForm(CodeForm):
    """The password of an owner without a second factor, asked again before a sensitive change."""

    throttled = "account"
    wrong = "Wrong password. Passwords are case-sensitive."
    code = forms.CharField(
        label="Password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )

    @override
    def check(self, user: User, code: str, answer: str) -> str | None:
        return None if code and user.check_password(code) else self.wrong


def mark_verified(request: HttpRequest, device: Device) -> None:
    """Store in the session that the second factor was verified, under a new session key."""
    request.session.cycle_key()
    otp_login(request, device)
    step_up.mark_confirmed(request)


def with_retry_after(response: HttpResponse, form: CodeForm) -> HttpResponse:
    """Turn the response into 429 if the form was throttled."""
    if form.retry_after is not None:
        response.status_code = 429
        response["Retry-After"] = str(form.retry_after)
    return response


def second_factor_url(next_url: str) -> str:
    """Return the URL of the second sign-in step, which then redirects to `next_url`."""
    return f"{reverse('second-factor')}?{urlencode({REDIRECT_FIELD_NAME: next_url})}"


@method_decorator([sensitive_post_parameters(), never_cache], name="dispatch")
class SecondFactorView(RedirectURLMixin, FormView[CodeForm]):
    """Second sign-in step, for an owner account that has entered its password."""

    template_name = "owner/accounts/second_factor.html"
    form_class = CodeForm

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_owner_account(request.user):
            return redirect_to_login(self.get_success_url())
        if is_owner(request.user):
            return HttpResponseRedirect(self.get_success_url())
        return super().dispatch(request, *args, **kwargs)

    @override
    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"request": self.request}

    @override
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = passkey_context(cast("User", self.request.user))
        return super().get_context_data(**kwargs) | context

    @override
    def form_valid(self, form: CodeForm) -> HttpResponse:
        assert form.device is not None  # noqa: S101 - a valid form has a device
        mark_verified(self.request, form.device)
        response = HttpResponseRedirect(self.get_success_url())
        known_browsers.remember(response, self.request.user.get_username())
        return response

    @override
    def form_invalid(self, form: CodeForm) -> HttpResponse:
        return with_retry_after(super().form_invalid(form), form)


second_factor_check = with_security_headers(
    SecondFactorView.as_view(next_page=reverse_lazy("home"))
)


def passkey_context(user: User) -> dict[str, Any]:
    """Return what templates with a passkey button need."""
    return {
        "passkeys": passkeys.list_passkeys(user),
        "passkey_origin": passkeys.origin(),
        "has_phone": second_factor.has_phone(user),
    }


@sensitive_post_parameters()
@owner_required
def second_factor_page(request: HttpRequest) -> HttpResponse:
    """Set up or switch off the second factor, or renew the recovery codes."""
    user = cast("User", request.user)
    action = request.POST.get("action", "")
    if action in ("start", "confirm") and step_up.is_needed(request):
        return redirect(step_up.url(request.path))
    if action == "start":
        second_factor.start_enrolment(user)
        return redirect(request.path)
    if action == "confirm":
        return _confirm(request, user)
    if action in ("renew", "disable") and second_factor.is_enrolled(user):
        return _change_with_code(request, user, action)
    return _status_page(request, user, CodeForm(request=request))


def _confirm(request: HttpRequest, user: User) -> HttpResponse:
    form = EnrolmentForm(request.POST, request=request)
    if not form.is_valid() or form.device is None:
        return with_retry_after(_status_page(request, user, form, status=422), form)
    mark_verified(request, form.device)
    return recovery_codes_page(request, second_factor.renew_recovery_codes(user))


def _change_with_code(request: HttpRequest, user: User, action: str) -> HttpResponse:
    """Require a code, so that an unattended browser is not enough to switch the factor off."""
    form = CodeForm(request.POST, request=request)
    if not form.is_valid():
        return with_retry_after(_status_page(request, user, form, status=422), form)
    if action == "renew":
        if isinstance(form.device, StaticDevice):
            form.add_error("code", "Enter a code from your authenticator app, or use a passkey.")
            return _status_page(request, user, form, status=422)
        return recovery_codes_page(request, second_factor.renew_recovery_codes(user))
    second_factor.disable(user)
    messages.success(request, "Second factor turned off. You sign in with your password only.")
    return redirect(request.path)


def recovery_codes_page(request: HttpRequest, codes: list[str]) -> HttpResponse:
    context = {"codes": codes, "back": reverse("second-factor-settings")}
    return page(
        request, "accounts/recovery_codes", title="Recovery codes", context=context
    ).render()


def _status_page(
    request: HttpRequest, user: User, form: CodeForm, *, status: int = 200
) -> HttpResponse:
    pending = second_factor.pending_device(user)
    device = None if pending is None else second_factor.decrypted(pending)
    context = {
        "form": form,
        "is_enrolled": second_factor.is_enrolled(user),
        "recovery_codes_left": second_factor.count_recovery_codes(user),
        "is_pending": device is not None,
        "qr_code": _qr_code(device) if device else "",
        "secret": _secret_text(device) if device else "",
        **passkey_context(user),
    }
    title = "Second factor"
    return page(
        request, "accounts/second_factor_settings", title=title, context=context, status=status
    ).render()


def _qr_code(device: TOTPDevice) -> SafeString:
    """Return an SVG image, which contains no user text."""
    code = segno.make(device.config_url, error="m", micro=False)
    svg = code.svg_inline(scale=5, dark="#000", light="#fff", title="QR code")
    return mark_safe(svg)  # noqa: S308


def _secret_text(device: TOTPDevice) -> str:
    """Return the secret in groups of four, to type it into an app."""
    secret = base64.b32encode(device.bin_key).decode()
    return " ".join(secret[i : i + 4] for i in range(0, len(secret), 4))
