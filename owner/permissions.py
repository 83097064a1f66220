"""Who is signed in, what only owners may open, and the security headers of their pages.

An account is an owner's when an owner points to it; no account has rights of Django beside that.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_http_methods

from evidence.models.owners import Owner, acting_for, present_owners, read_for
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


_OWNER = "_pdpp_owner"


def account_owner(user: AbstractBaseUser | AnonymousUser) -> Owner | None:
    """Return the owner whose active account this is. Queries once per user object."""
    if not isinstance(user, User) or not user.is_active:
        return None
    if not hasattr(user, _OWNER):
        setattr(user, _OWNER, present_owners().filter(user=user).first())
    owner: Owner | None = getattr(user, _OWNER)
    return owner


def known_owner(user: object) -> Owner | None:
    """Return the owner of an account, if this request has asked for it. Runs no query."""
    owner: Owner | None = getattr(user, _OWNER, None)
    return owner


def is_owner_account(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether an account is an owner's, whose second factor may still be missing."""
    return account_owner(user) is not None


def is_owner(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether an owner is signed in, with the second factor if one is enrolled."""
    if not isinstance(user, User) or not is_owner_account(user):
        return False
    return second_factor.has_passed(user) or not second_factor.is_enrolled(user)


def act_for_signed_in_owner(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: act for the owner who is signed in, or for nobody, while a request is answered."""

    def act(request: HttpRequest) -> HttpResponseBase:
        # Reading the session of a call without one would add "Vary: Cookie" to its answer.
        has_session = settings.SESSION_COOKIE_NAME in request.COOKIES or request.session.modified
        owner = account_owner(request.user) if has_session and is_owner(request.user) else None
        owner_id = None if owner is None else owner.owner_id
        with acting_for(owner_id):
            response = get_response(request)
        if isinstance(response, StreamingHttpResponse):
            chunks = cast("Iterable[bytes]", response.streaming_content)
            response.streaming_content = read_for(owner_id, chunks)
        return response

    return act


def with_security_headers(view: View) -> View:
    """Add a policy to a view's responses that blocks content from other origins, unless it has its own."""

    @wraps(view)
    def inner(*args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(*args, **kwargs)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Referrer-Policy", "same-origin")
        return response

    return cast("View", inner)


def owner_required(view: View, *, methods: Sequence[str] = ("GET", "HEAD", "POST")) -> View:
    """Restrict a view to these methods and to the owner, and redirect others to sign-in."""

    @require_http_methods(list(methods))
    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_owner(request.user):
            page = request.get_full_path() if "GET" in methods else request.headers.get("Referer")
            return redirect_to_login(page or "/")
        return with_security_headers(view)(request, *args, **kwargs)

    return cast("View", inner)


def owner_reads(view: View) -> View:
    """Restrict a view to the owner, who only reads."""
    return owner_required(view, methods=("GET", "HEAD"))


def owner_posts(view: View) -> View:
    """Restrict a view to the owner, who posts a form."""
    return owner_required(view, methods=("POST",))
