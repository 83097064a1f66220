"""One-time links that set an owner's user name and password, and the page that they open.

A link contains 256 random bits and is stored as a keyed hash. It ends when it is used, after 24 hours,
or when another is created for the same owner. An invitation is a link whose use creates an owner; it
reaches nothing of those who are here already.
"""

import secrets
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django import forms
from django.conf import settings
from django.contrib.auth import get_user_model, login, password_validation
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods
from typing_extensions import override

from evidence.access.crypto import digest_for, digests_for
from evidence.models.owners import Owner, acting_for, create_owner
from evidence.write.app_data import AppData
from operations.notifications.models import NotificationKind
from operations.notifications.store import notify
from owner import second_factor
from owner.accounts import sign_in_throttle
from owner.accounts.proxy_sign_in import mark_confirmed
from owner.models import SetupLink
from owner.permissions import PAGE_HEADERS
from owner.preferences import PreferencesForm, browser_language

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import QuerySet


LIFETIME = timedelta(hours=24)
PURPOSE = "setup link"
NAME_TAKEN = "This user name is taken. Choose another."
LINK_MADE = (
    "A set-up link for your account was made on the server. The link lets a person choose your user"
    " name and password."
)


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
        _store_link(token, owner=owner, now=now)
        if owner.user is not None:
            with acting_for(owner.owner_id):
                key = f"{now:%Y-%m-%d %H:%M:%S.%f}"
                notify(NotificationKind.SIGN_IN, key=key, text=LINK_MADE, path="/", now=now)
    return token


def create_invitation(*, name: str = "", now: datetime) -> str:
    """Return a new token with which somebody becomes another owner of this installation."""
    token = secrets.token_urlsafe(32)
    SetupLink.unscoped.filter(owner=None, expires_at__lte=now).delete()
    _store_link(token, name=name, now=now)
    return token


def _store_link(token: str, *, owner: Owner | None = None, name: str = "", now: datetime) -> None:
    SetupLink.unscoped.create(
        digest=digest_for(PURPOSE, token),
        owner=owner,
        name=name,
        replaces_account=owner is not None and owner.user is not None,
        created_at=now,
        expires_at=now + LIFETIME,
    )


def open_invitations(*, now: datetime) -> int:
    """Return how many invitations can still be used."""
    return SetupLink.unscoped.filter(owner=None, used_at=None, expires_at__gt=now).count()


def link_url(token: str) -> str:
    """Return where the token is opened."""
    return f"{settings.PDPP_PUBLIC_URL}{reverse('set-up', args=[token])}"


def recent_link(owner_id: str, *, since: datetime) -> SetupLink | None:
    """Return the link that was made for an owner since then, used or not."""
    return SetupLink.unscoped.filter(owner_id=owner_id, created_at__gte=since).first()


def _valid_links(token: str, now: datetime) -> "QuerySet[SetupLink]":
    links = SetupLink.unscoped.filter(digest__in=digests_for(PURPOSE, token))
    return links.filter(used_at=None, expires_at__gt=now)


def find_link(token: str, *, now: datetime) -> SetupLink | None:
    """Return the link of a token, or None if it cannot be redeemed."""
    return _valid_links(token, now).select_related("owner__user").first()


@transaction.atomic
def redeem(token: str, *, username: str, password: str, now: datetime) -> tuple[Owner, "User"]:
    """Set an owner's user name and password, end their sessions and disable the second factor.

    Works once. Raises InvalidLinkError, and IntegrityError where the name was taken meanwhile.
    """
    link = _valid_links(token, now).select_for_update().first()
    if link is None:
        raise InvalidLinkError
    owner = link.owner or create_owner(now)
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
    return owner, user


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

    def __init__(self, data: Mapping[str, str] | None, *, link: SetupLink, proposed: str) -> None:
        super().__init__(data, current=link.owner or Owner(), proposed=proposed)
        self._account = None if link.owner is None else link.owner.user
        self.initial["username"] = self._account.get_username() if self._account else link.name
        self.order_fields(["username", "password", "again"])

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        users = get_user_model()
        users.username_validator(name)
        others = users.objects.filter(username__iexact=name)
        if self._account is not None:
            others = others.exclude(pk=self._account.pk)
        if others.exists():
            raise forms.ValidationError(NAME_TAKEN)
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
    link = find_link(token, now=now)
    if link is None:
        return _page(request, "link_invalid", context={}, status=410)
    attempt.succeeded()
    form = SetUpForm(request.POST or None, link=link, proposed=browser_language(request))
    if not form.is_valid():
        return _form_page(request, form, link)
    try:
        owner, user = redeem(
            token,
            username=form.cleaned_data["username"],
            password=form.cleaned_data["password"],
            now=now,
        )
    except InvalidLinkError:
        return _page(request, "link_invalid", context={}, status=410)
    except IntegrityError:
        form.add_error("username", NAME_TAKEN)
        return _form_page(request, form, link)
    form.save(owner)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    mark_confirmed(request)
    return redirect("home")


def _form_page(request: HttpRequest, form: SetUpForm, link: SetupLink) -> HttpResponse:
    context = {
        "form": form,
        "has_account": link.owner is not None and link.owner.user is not None,
        "is_invitation": link.owner is None,
    }
    return _page(request, "set_up", context=context, status=422 if form.errors else 200)


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
