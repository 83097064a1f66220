"""Page that asks a signed-in owner again for the second factor, or else the password."""

from typing import Any, cast

from django.contrib.auth.models import User
from django.contrib.auth.views import RedirectURLMixin, redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.generic import FormView
from typing_extensions import override

from owner import second_factor
from owner.accounts import step_up
from owner.accounts.second_factor_views import (
    CodeForm,
    PasswordForm,
    mark_verified,
    passkey_context,
    with_retry_after,
)
from owner.permissions import is_owner, with_security_headers


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
