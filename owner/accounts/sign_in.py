"""Sign-in page, and the page that asks a signed-in owner again before something that is hard to undo.

Signing in checks the password, applies the throttle, then asks for the second factor. Passkeys are
added, offered and removed here too.
"""

from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, RedirectURLMixin, redirect_to_login
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
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST
from django.views.generic import FormView
from typing_extensions import override

from operations import session_store
from owner import passkeys, second_factor
from owner.accounts import known_browsers, sign_in_throttle, step_up
from owner.accounts.proxy_backend import is_proxy_session
from owner.accounts.second_factor_views import (
    CodeForm,
    PasswordForm,
    mark_verified,
    passkey_context,
    recovery_codes_page,
    second_factor_url,
    with_retry_after,
)
from owner.permissions import (
    is_owner,
    is_owner_account,
    owner_required,
    with_security_headers,
)
from owner.text import one_line


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

    @override
    def clean(self) -> dict[str, Any]:
        username = self.cleaned_data.get("username", "")
        if self.request is None or not username or not self.cleaned_data.get("password"):
            return super().clean()
        try:
            attempt = sign_in_throttle.record_attempt(
                *known_browsers.throttle_keys(self.request, username), now=timezone.now()
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
        step_up.mark_confirmed(self.request)
        known_browsers.remember(response, form.get_user().get_username())
        return response

    @override
    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        if isinstance(form, SignInForm) and form.retry_after is not None:
            response.status_code = 429
            response["Retry-After"] = str(form.retry_after)
        return response


sign_in = with_security_headers(SignInView.as_view(next_page=reverse_lazy("home")))


@method_decorator([sensitive_post_parameters(), never_cache], name="dispatch")
class ConfirmView(RedirectURLMixin, FormView[CodeForm]):
    """Confirms that the person at the browser is the owner, for ten minutes."""

    template_name = "owner/accounts/second_factor.html"

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
    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"request": self.request}

    @override
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = passkey_context(cast("User", self.request.user))
        return super().get_context_data(**kwargs) | context | {"confirms": True}

    @override
    def form_valid(self, form: CodeForm) -> HttpResponse:
        if form.device is not None:
            mark_verified(self.request, form.device)
        else:
            self.request.session.cycle_key()
            step_up.mark_confirmed(self.request)
        return HttpResponseRedirect(self.get_success_url())

    @override
    def form_invalid(self, form: CodeForm) -> HttpResponse:
        return with_retry_after(super().form_invalid(form), form)


confirm = with_security_headers(ConfirmView.as_view(next_page=reverse_lazy("home")))


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
        return JsonResponse({"confirm": step_up.url(reverse("second-factor-settings"))}, status=403)
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
    user, back = cast("User", request.user), reverse("second-factor-settings")
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
    user, back = cast("User", request.user), reverse("second-factor-settings")
    if step_up.is_needed(request):
        return redirect(step_up.url(back))
    if passkeys.remove(user, request.POST.get("id", "")):
        second_factor.forget_enrolment(user)
        if not second_factor.is_enrolled(user):
            second_factor.disable(user)
        messages.success(request, "The passkey is removed.")
    return redirect(back)
