"""``/login/second``: the owner's second factor, after the password."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import User
from django.contrib.auth.views import RedirectURLMixin, redirect_to_login
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.generic import FormView
from django_otp import login as note_device
from django_otp.models import Device
from typing_extensions import override

from evidence.consent import attempts, known_browsers, second_factor
from evidence.consent.owners_only import fenced, is_owner, is_owners_account

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
            attempt = attempts.begin(
                *known_browsers.subjects(self.request, user.get_username(), kind="second factor"),
                now=timezone.now(),
            )
        except attempts.TooManyAttempts as refusal:
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
    template_name = "evidence/consent/second_step.html"
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
