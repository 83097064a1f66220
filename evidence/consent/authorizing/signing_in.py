"""``/login``: the owner proves to be the owner, and goes on to where they were going."""

from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.urls import reverse_lazy
from typing_extensions import override

from evidence.consent.owners_only import fenced, is_owner


class OwnersForm(AdminAuthenticationForm):
    """Signs in only whom a page would let in."""

    @override
    def confirm_login_allowed(self, user: User) -> None:
        super().confirm_login_allowed(user)
        if not is_owner(user):
            raise self.get_invalid_login_error()


# ``next`` leads to a path of this very site or nowhere: Django checks it.
sign_in = fenced(
    LoginView.as_view(
        template_name="evidence/consent/sign_in.html",
        authentication_form=OwnersForm,
        next_page=reverse_lazy("admin:index"),
    )
)
