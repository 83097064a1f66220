"""Restrict views to the signed-in owner and set the security headers of the owner's pages."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase

from owner import second_factor

View = TypeVar("View", bound=Callable[..., HttpResponseBase])

# Pages show untrusted record text; the policy keeps it from loading anything.
CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)

# The URL of a set-up page is a secret until its link is used: nothing may load from elsewhere or
# receive it as a referrer. (With "no-referrer", browsers send forms with "Origin: null", which
# Django's CSRF protection rejects.)
PAGE_HEADERS = {
    "Referrer-Policy": "strict-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}


def is_owner_account(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether an account is the owner's: an active superuser. Staff accounts are not."""
    return isinstance(user, User) and user.is_active and user.is_staff and user.is_superuser


def is_owner(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the owner is signed in, with the second factor if one is enrolled."""
    if not isinstance(user, User) or not is_owner_account(user):
        return False
    return second_factor.has_passed(user) or not second_factor.is_enrolled(user)


def with_security_headers(view: View) -> View:
    """Add a policy to a view's responses that blocks content from other origins, unless it has its own."""

    @wraps(view)
    def inner(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(*args, **kwargs)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Referrer-Policy", "same-origin")
        return response

    return cast("View", inner)


def owner_required(view: View) -> View:
    """Restrict a view to the owner, and redirect others to sign-in."""

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_owner(request.user):
            return redirect_to_login(request.get_full_path())
        return with_security_headers(view)(request, *args, **kwargs)

    return cast("View", inner)
