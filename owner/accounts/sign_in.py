"""Sign-in: the password, the second step, asking again, enrolment, recovery codes and passkeys."""

import base64
from typing import Any, cast

import segno
from django import forms
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.contrib.auth.models import User
from django.contrib.auth.views import (
    LoginView,
    LogoutView,
    PasswordChangeView,
    RedirectURLMixin,
    redirect_to_login,
)
from django.contrib.messages.views import SuccessMessageMixin
from django.core.exceptions import ValidationError
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    JsonResponse,
)
from django.shortcuts import redirect
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST
from django.views.generic import FormView
from django_otp import login as otp_login
from django_otp.models import Device
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice
from typing_extensions import override

from operations import session_store
from owner import second_factor
from owner.accounts import sign_in_throttle
from owner.accounts.proxy_sign_in import (
    confirmation_url,
    is_proxy_session,
    mark_confirmed,
    needs_confirmation,
)
from owner.permissions import (
    is_owner,
    is_owner_account,
    owner_posts,
    owner_required,
    with_security_headers,
)
from owner.site import page
from owner.text import one_line


class OneTimeInput(forms.TextInput):
    """Input that is empty again after each submission, because a code counts once."""

    @override
    def format_value(self, value: Any) -> None:
        return None


class HiddenOneTimeInput(OneTimeInput, forms.HiddenInput):
    input_type = "hidden"


WRONG_PASSKEY = "The passkey was not accepted. Try again, or enter a recovery code."


class CodeForm(forms.Form):
    """A TOTP code, a recovery code or the answer of a passkey. `device` accepted it."""

    throttled = "second factor"
    wrong = "Wrong or already used code. Enter the current code from your authenticator app."
    code = forms.CharField(
        label="Code",
        max_length=40,
        required=False,
        widget=OneTimeInput(
            attrs={"autocomplete": "one-time-code", "autofocus": True, "spellcheck": "false"}
        ),
    )
    passkey = forms.CharField(
        required=False, max_length=second_factor.MAX_RESPONSE_CHARS, widget=HiddenOneTimeInput
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
        keys = sign_in_throttle.throttle_keys(
            self.request, user.get_username(), kind=self.throttled
        )
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
            self.device = second_factor.verify_passkey(user, session, answer, now=timezone.now())
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
    mark_confirmed(request)


def with_retry_after(response: HttpResponse, form: CodeForm) -> HttpResponse:
    """Turn the response into 429 if the form was throttled."""
    if form.retry_after is not None:
        response.status_code = 429
        response["Retry-After"] = str(form.retry_after)
    return response


def second_factor_url(next_url: str) -> str:
    """Return the URL of the second sign-in step, which then redirects to `next_url`."""
    return reverse("second-factor", query={REDIRECT_FIELD_NAME: next_url})


@method_decorator([sensitive_post_parameters(), never_cache], name="dispatch")
class CodeView(RedirectURLMixin, FormView[CodeForm]):
    """A page that asks for a code, a passkey or a password."""

    template_name = "owner/accounts/second_factor.html"
    form_class = CodeForm

    @override
    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"request": self.request}

    @override
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = passkey_context(cast("User", self.request.user))
        return super().get_context_data(**kwargs) | context

    @override
    def form_invalid(self, form: CodeForm) -> HttpResponse:
        return with_retry_after(super().form_invalid(form), form)


class SecondFactorView(CodeView):
    """Second sign-in step, for an owner account that has entered its password."""

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_owner_account(request.user):
            return redirect_to_login(self.get_success_url())
        if is_owner(request.user):
            return HttpResponseRedirect(self.get_success_url())
        return super().dispatch(request, *args, **kwargs)

    @override
    def form_valid(self, form: CodeForm) -> HttpResponse:
        assert form.device is not None  # noqa: S101 - a valid form has a device
        mark_verified(self.request, form.device)
        response = HttpResponseRedirect(self.get_success_url())
        sign_in_throttle.remember_browser(response, self.request.user.get_username())
        return response


second_factor_check = with_security_headers(
    SecondFactorView.as_view(next_page=reverse_lazy("home"))
)


class PasswordView(SuccessMessageMixin[PasswordChangeForm], PasswordChangeView):
    template_name = "owner/accounts/password.html"
    success_url = reverse_lazy("preferences")
    success_message = "Your password was changed."


change_password = owner_required(PasswordView.as_view())
sign_out = owner_required(LogoutView.as_view(next_page=reverse_lazy("home")))


def passkey_context(user: User) -> dict[str, Any]:
    """Return what templates with a passkey button need."""
    return {
        "passkeys": second_factor.list_passkeys(user),
        "passkey_origin": second_factor.passkey_origin(),
        "has_phone": second_factor.has_phone(user),
    }


@sensitive_post_parameters()
@owner_required
def second_factor_page(request: HttpRequest) -> HttpResponse:
    """Set up or switch off the second factor, or renew the recovery codes."""
    user = cast("User", request.user)
    action = request.POST.get("action", "")
    if action in ("start", "confirm") and needs_confirmation(request):
        return redirect(confirmation_url(request.path))
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


class SignInForm(AuthenticationForm):
    """User name and password. Accepts owner accounts only and applies the throttle."""

    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "Wrong user name or password. Passwords are case-sensitive."
    }
    keep = forms.BooleanField(
        label=f"Keep me signed in for {session_store.KEPT_LIFETIME.days} days. Only on your own device.",
        required=False,
    )
    retry_after: int | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].label = "User name"

    @override
    def clean(self) -> dict[str, Any]:
        username = self.cleaned_data.get("username", "")
        if self.request is None or not username or not self.cleaned_data.get("password"):
            return super().clean()
        try:
            attempt = sign_in_throttle.record_attempt(
                *sign_in_throttle.throttle_keys(self.request, username), now=timezone.now()
            )
        except sign_in_throttle.ThrottledError as error:
            self.retry_after = error.retry_after
            raise ValidationError(str(error), code="throttled") from None
        cleaned = super().clean()
        attempt.succeeded()
        return cleaned

    @override
    def confirm_login_allowed(self, user: User) -> None:
        super().confirm_login_allowed(user)
        if not is_owner_account(user):
            raise self.get_invalid_login_error()


class SignInView(LoginView):
    """Sign-in page. Redirects only to paths of this site, which Django checks."""

    template_name = "owner/accounts/sign_in.html"
    authentication_form = SignInForm

    @override
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        user = self.request.user
        other = user.get_username() if user.is_authenticated and not is_owner(user) else ""
        return super().get_context_data(**kwargs) | {"other_account": other}

    @override
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        if is_owner_account(user) and not is_owner(user):
            return redirect(second_factor_url(self.get_success_url()))
        if is_owner(user) and is_proxy_session(request):
            return redirect(self.get_success_url())
        return super().get(request, *args, **kwargs)

    @override
    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        if form.cleaned_data["keep"]:
            session_store.keep(self.request.session)
        if second_factor.is_enrolled(form.get_user()):
            return redirect(second_factor_url(self.get_success_url()))
        mark_confirmed(self.request)
        sign_in_throttle.remember_browser(response, form.get_user().get_username())
        return response

    @override
    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        if isinstance(form, SignInForm) and form.retry_after is not None:
            response.status_code = 429
            response["Retry-After"] = str(form.retry_after)
        return response


sign_in = with_security_headers(SignInView.as_view(next_page=reverse_lazy("home")))


class ConfirmView(CodeView):
    """Confirms that the person at the browser is the owner, for ten minutes."""

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_owner(request.user):
            return redirect_to_login(self.get_success_url())
        return super().dispatch(request, *args, **kwargs)

    @override
    def get_form_class(self) -> type[CodeForm]:
        is_enrolled = second_factor.is_enrolled(cast("User", self.request.user))
        return CodeForm if is_enrolled else PasswordForm

    @override
    def form_valid(self, form: CodeForm) -> HttpResponse:
        if form.device is not None:
            mark_verified(self.request, form.device)
        else:
            self.request.session.cycle_key()
            mark_confirmed(self.request)
        return HttpResponseRedirect(self.get_success_url())


confirm = with_security_headers(
    ConfirmView.as_view(next_page=reverse_lazy("home"), extra_context={"confirms": True})
)


MAX_NAME_CHARS = 40


@sensitive_post_parameters()
@never_cache
@require_POST
def passkey_options(request: HttpRequest, purpose: str) -> JsonResponse:
    """Return the options of a browser's next call, with a new challenge.

    To verify, the password must have been entered. To add, the owner must have confirmed recently.
    """
    user = request.user
    if purpose not in (second_factor.ADD, second_factor.VERIFY):
        raise Http404
    if not is_owner_account(user) or (purpose == second_factor.ADD and not is_owner(user)):
        return JsonResponse({"error": "Sign in first."}, status=403)
    if purpose == second_factor.ADD and needs_confirmation(request):
        return JsonResponse(
            {"confirm": confirmation_url(reverse("second-factor-settings"))}, status=403
        )
    try:
        options = second_factor.begin_passkey(
            cast("User", user), request.session, purpose, now=timezone.now()
        )
    except ValueError:
        return JsonResponse({"error": "Passkeys need a host name and TLS."}, status=409)
    return JsonResponse(options)


@sensitive_post_parameters()
@owner_posts
def add_passkey(request: HttpRequest) -> HttpResponse:
    """Add the passkey that the browser created. Shows recovery codes after the first device."""
    user, back = cast("User", request.user), reverse("second-factor-settings")
    if needs_confirmation(request):
        return redirect(confirmation_url(back))
    had_codes = second_factor.count_recovery_codes(user) > 0
    name = one_line(request.POST.get("name", "").strip(), max_length=MAX_NAME_CHARS) or "Passkey"
    answer = request.POST.get("passkey", "")
    passkey = second_factor.add_passkey(
        user, request.session, answer, name=name, now=timezone.now()
    )
    if passkey is None:
        messages.error(request, "The passkey was not added. Try again.")
        return redirect(back)
    second_factor.forget_enrolment(user)
    mark_verified(request, passkey)
    if not had_codes:
        return recovery_codes_page(request, second_factor.renew_recovery_codes(user))
    messages.success(request, "The passkey is added.")
    return redirect(back)


@owner_posts
def remove_passkey(request: HttpRequest) -> HttpResponse:
    """Remove a passkey. With the last device, the recovery codes go too."""
    user, back = cast("User", request.user), reverse("second-factor-settings")
    if needs_confirmation(request):
        return redirect(confirmation_url(back))
    if second_factor.remove_passkey(user, request.POST.get("id", "")):
        second_factor.forget_enrolment(user)
        if not second_factor.is_enrolled(user):
            second_factor.disable(user)
        messages.success(request, "The passkey is removed.")
    return redirect(back)
