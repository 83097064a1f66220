"""One-time links that set the owner's user name and password, and the page that they open.

A link contains 256 random bits and is stored as a keyed hash. It ends when it is used, after 24 hours,
or when another is created, so at most one is valid at a time.
"""

import secrets
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth import get_user_model, login, password_validation
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods
from typing_extensions import override

from evidence.access.crypto import digest_for, digests_for
from evidence.models.owners import Owner
from evidence.write.app_data import AppData
from owner import second_factor
from owner.accounts import sign_in_throttle, step_up
from owner.models import SetupLink
from owner.permissions import PAGE_HEADERS
from owner.preferences import PreferencesForm, browser_language

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import QuerySet


LIFETIME = timedelta(hours=24)
PURPOSE = "setup link"


class InvalidLinkError(Exception):
    """The link was used, has expired, or never existed."""


def create_link(owner: Owner, *, now: datetime) -> str:
    """Return a new token, which gives control of an owner's account until it ends.

    Ends all sign-in delays: this runs on the server, where guessing is no threat. An owner who has
    an account is told, so that nobody takes it over unnoticed.
    """
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        sign_in_throttle.reset_throttle()
        SetupLink.unscoped.filter(owner=owner).delete()
        SetupLink.unscoped.create(
            digest=digest_for(PURPOSE, token),
            owner=owner,
            created_at=now,
            expires_at=now + LIFETIME,
        )
    return token


def _valid_links(token: str, now: datetime) -> "QuerySet[SetupLink]":
    links = SetupLink.unscoped.filter(digest__in=digests_for(PURPOSE, token))
    return links.filter(used_at=None, expires_at__gt=now)


def link_owner(token: str, *, now: datetime) -> Owner | None:
    """Return whose account the token sets, or None if it cannot be redeemed."""
    link = _valid_links(token, now).select_related("owner__user").first()
    return None if link is None else link.owner


@transaction.atomic
def redeem(token: str, *, username: str, password: str, now: datetime) -> "User":
    """Set an owner's user name and password, end their sessions and disable the second factor.

    Works once. Raises InvalidLinkError, and IntegrityError where the name was taken meanwhile.
    """
    link = _valid_links(token, now).select_for_update().first()
    if link is None:
        raise InvalidLinkError
    owner = link.owner
    user = owner.user or get_user_model()()
    user.username = username
    user.is_active = True
    user.set_password(password)
    user.save()
    second_factor.disable(user)
    owner.user = user
    owner.save(update_fields=["user"])
    link.used_at = now
    link.save(update_fields=["used_at"])
    return user


class SetUpForm(PreferencesForm):
    """User name and password; Django's password validators apply. Then time zone and language."""

    username = forms.CharField(
        label="User name",
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True}),
    )
    password = forms.CharField(
        label="Password",
        strip=False,
        help_text="At least 12 characters, not only digits and not a common password.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    again = forms.CharField(
        label="Repeat password",
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(
        self, data: Mapping[str, str] | None, *, account: "User | None", **kwargs: Any
    ) -> None:
        super().__init__(data, **kwargs)
        self._account = account
        self.initial["username"] = account.get_username() if account else ""
        self.order_fields(["username", "password", "again"])

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        users = get_user_model()
        users.username_validator(name)
        others = users.objects.filter(username=name)
        if self._account is not None:
            others = others.exclude(pk=self._account.pk)
        if others.exists():
            raise forms.ValidationError("This user name is taken. Choose another.")
        return name

    @override
    def clean(self) -> None:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if not name or not password:
            return
        try:
            password_validation.validate_password(password, get_user_model()(username=name))
        except forms.ValidationError as error:
            self.add_error("password", error)
        if password != self.cleaned_data.get("again"):
            self.add_error("again", "The passwords do not match.")


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "POST"])
def set_up(request: HttpRequest, token: str) -> HttpResponse:
    """Redeem a one-time link: set the user name and password, and sign in."""
    now = timezone.now()
    try:
        attempt = sign_in_throttle.record_attempt(
            sign_in_throttle.address_key(request.META.get("REMOTE_ADDR", "")), now=now
        )
    except sign_in_throttle.ThrottledError as error:
        response = _page(request, "throttled", context={"text": str(error)}, status=429)
        response["Retry-After"] = str(error.retry_after)
        return response
    owner = link_owner(token, now=now)
    if owner is None:
        return _page(request, "link_invalid", context={}, status=410)
    attempt.succeeded()
    account = owner.user
    form = SetUpForm(
        request.POST or None,
        account=account,
        current=owner,
        proposed=browser_language(request),
    )
    if not form.is_valid():
        context = {"form": form, "has_account": account is not None}
        return _page(request, "set_up", context=context, status=200 if not form.errors else 422)
    try:
        user = redeem(
            token,
            username=form.cleaned_data["username"],
            password=form.cleaned_data["password"],
            now=now,
        )
    except InvalidLinkError:
        return _page(request, "link_invalid", context={}, status=410)
    form.save(owner)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    step_up.mark_confirmed(request)
    return redirect("home")


def _page(
    request: HttpRequest, name: str, *, context: dict[str, object], status: int
) -> HttpResponse:
    response = render(request, f"owner/accounts/{name}.html", context, status=status)
    for header, value in PAGE_HEADERS.items():
        response[header] = value
    return response


class AccountData(AppData):
    """Setup links and failed sign-ins."""

    @override
    def delete_owner(self, owner_id: str) -> Counter[str]:
        SetupLink.unscoped.filter(owner_id=owner_id).delete()
        return Counter()

    @override
    def delete_expired(self, now: datetime) -> Counter[str]:
        return Counter({"counts of failed sign-ins": sign_in_throttle.delete_expired(now=now)})
