"""The pages of the site itself."""

from django.conf import settings
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from evidence.access import sign_in_throttle
from evidence.api.views.public import IndexView
from owner.accounts import setup_link
from owner.accounts.setup_views import SetUpForm

# The address of the page is a secret while the link is open: nothing may load from elsewhere
# or learn it as a referrer. (Under "no-referrer" browsers send the form with "Origin: null", which
# Django's protection against forged requests rightly refuses.)
PAGE_HEADERS = {
    "Referrer-Policy": "strict-origin",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
}


@require_safe
def front(request: HttpRequest) -> HttpResponseBase:
    """Where to go from here: for a person a page, for a program the API's own index."""
    if request.get_preferred_type(["application/json", "text/html"]) == "text/html":
        return _page(request, "front", context={"url": settings.PDPP_PUBLIC_URL}, status=200)
    return IndexView.as_view()(request)


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "POST"])
def set_up(request: HttpRequest, token: str) -> HttpResponse:
    """The owner chooses a user name and password (one-time link)."""
    now = timezone.now()
    try:
        attempt = sign_in_throttle.begin(
            sign_in_throttle.address(request.META.get("REMOTE_ADDR", "")), now=now
        )
    except sign_in_throttle.TooManyAttempts as refusal:
        return _wait(request, refusal)
    if not setup_link.is_open(token, now=now):
        return _ended(request)
    attempt.succeeded()
    account = setup_link.owner_account(now)
    initial = {"username": account.get_username()} if account else {}
    form = SetUpForm(request.POST or None, account=account, initial=initial)
    if not form.is_valid():
        context = {"form": form, "known": account is not None}
        return _page(request, "set_up", context=context, status=200 if not form.errors else 422)
    try:
        user = setup_link.use(
            token,
            username=form.cleaned_data["username"],
            password=form.cleaned_data["password"],
            now=now,
        )
    except setup_link.LinkEndedError:
        return _ended(request)
    login(request, user)
    return redirect("admin:index")


def _ended(request: HttpRequest) -> HttpResponse:
    return _page(request, "link_ended", context={}, status=410)


def _wait(request: HttpRequest, refusal: sign_in_throttle.TooManyAttempts) -> HttpResponse:
    response = _page(request, "wait", context={"text": str(refusal)}, status=429)
    response["Retry-After"] = str(refusal.retry_after)
    return response


def _page(
    request: HttpRequest, name: str, *, context: dict[str, object], status: int
) -> HttpResponse:
    response = render(request, f"pdpp_site/{name}.html", context, status=status)
    for header, value in PAGE_HEADERS.items():
        response[header] = value
    return response
