"""``/login``: the owner proves to be the owner, and goes on to where they were going."""

from typing import Any

from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse_lazy
from django.utils import timezone
from typing_extensions import override

from evidence.access import sign_in_throttle
from owner import second_factor
from owner.accounts import known_browsers
from owner.accounts.second_factor_views import second_step
from owner.permissions import fenced, is_owner, is_owners_account


class OwnersForm(AdminAuthenticationForm):
    """Signs in only whom a page would let in, and nobody who has failed too often."""

    error_messages = AdminAuthenticationForm.error_messages | {
        "invalid_login": "This user name and this password do not belong together. Capital letters"
        " and small ones are not the same."
    }
    retry_after: int | None = None

    @override
    def clean(self) -> dict[str, Any]:
        name = self.cleaned_data.get("username", "")
        if self.request is None or not name or not self.cleaned_data.get("password"):
            return super().clean()
        try:
            attempt = sign_in_throttle.begin(
                *known_browsers.subjects(self.request, name), now=timezone.now()
            )
        except sign_in_throttle.TooManyAttempts as refusal:
            self.retry_after = refusal.retry_after
            raise ValidationError(str(refusal), code="throttled") from None
        cleaned = super().clean()
        attempt.succeeded()
        return cleaned

    @override
    def confirm_login_allowed(self, user: User) -> None:
        super().confirm_login_allowed(user)
        if not is_owners_account(user):
            raise self.get_invalid_login_error()


class SignIn(LoginView):
    template_name = "owner/consent/sign_in.html"
    authentication_form = OwnersForm

    @override
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        user = self.request.user
        stranger = user.get_username() if user.is_authenticated and not is_owner(user) else ""
        return super().get_context_data(**kwargs) | {"stranger": stranger}

    @override
    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        if is_owners_account(user) and not is_owner(user):
            return redirect(second_step(self.get_success_url()))
        return super().get(request, *args, **kwargs)

    @override
    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        if second_factor.is_enrolled(form.get_user()):
            return redirect(second_step(self.get_success_url()))
        known_browsers.remember(response, form.get_user().get_username())
        return response

    @override
    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        if isinstance(form, OwnersForm) and form.retry_after is not None:
            response.status_code = 429
            response["Retry-After"] = str(form.retry_after)
        return response


# ``next`` leads to a path of this very site or nowhere: Django checks it.
sign_in = fenced(SignIn.as_view(next_page=reverse_lazy("admin:index")))
