"""The one rule of who may open a page of the owner, and what each such page is fenced with."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase

from owner import second_factor

View = TypeVar("View", bound=Callable[..., HttpResponseBase])

# Records are shown here, so whatever one of them might smuggle in has nowhere to load from.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)


def is_owners_account(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether an account is one of the owner's. Being staff is not enough."""
    return isinstance(user, User) and user.is_active and user.is_staff and user.is_superuser


def is_owner(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether somebody may see everything here: with the second factor, where there is one."""
    if not isinstance(user, User) or not is_owners_account(user):
        return False
    return second_factor.has_passed(user) or not second_factor.is_enrolled(user)


def fenced(view: View) -> View:
    """The same view, whose pages load nothing from elsewhere."""

    @wraps(view)
    def inner(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(*args, **kwargs)
        response["Content-Security-Policy"] = POLICY
        response["Referrer-Policy"] = "same-origin"
        return response

    return cast("View", inner)


def owners_page(view: View) -> View:
    """The same view, for the owner alone: everybody else is sent to sign in. Kept by no browser."""

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_owner(request.user):
            return redirect_to_login(request.get_full_path())
        response = fenced(view)(request, *args, **kwargs)
        response["Cache-Control"] = "private, no-store"
        return response

    return cast("View", inner)
