"""Authorization endpoint (RFC 6749, 3.1): show the consent page and redirect to the client.

GET changes nothing. The page carries the signed request, which is validated again on POST.
"""

from datetime import datetime

from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from evidence import limits
from evidence.api.authentication import requested_url
from owner.grants.wizard import Approved, Denied, handle_decision, show_review
from owner.oauth import authorization_request, clients, codes, requests
from owner.oauth.authorization_request import (
    AuthorizationError,
    AuthorizationRequest,
    FatalAuthorizationError,
)
from owner.oauth.responses import (
    allow_form_redirect,
    message_page,
    redirect_to_client,
    redirect_to_sign_in,
)
from owner.permissions import is_owner

SIGNED_QUERY = "question"
SALT = "pdpp/authorize"
START_AGAIN = "No access was given. Start again in the app."


@require_http_methods(["GET", "HEAD", "POST"])
def authorize(request: HttpRequest) -> HttpResponse:
    """Show the consent page, or handle the owner's decision on POST."""
    now = timezone.now()
    try:
        if request.method == "POST":
            return _handle_post(request, now)
        return _show_page(request, now)
    except clients.MetadataDocumentError as error:
        return message_page(
            request, "Cannot identify this app", f"{error} {START_AGAIN}", status=400
        )
    except FatalAuthorizationError as error:
        return message_page(request, "Invalid request", f"{error} {START_AGAIN}", status=400)
    except AuthorizationError as error:
        # Anyone can register an address. It gets no redirect before the owner has answered its app
        # once, or links to this server would lead anywhere (RFC 9700, 4.11.2).
        if is_owner(request.user) and requests.was_answered(error.client_id):
            return redirect_to_client(error.location(requested_url(request)))
        return message_page(request, "Invalid request", f"{error} {START_AGAIN}", status=400)


def _show_page(request: HttpRequest, now: datetime) -> HttpResponse:
    query = request.META.get("QUERY_STRING", "")
    client_id = authorization_request.client_id_of(query)
    is_signed_in = is_owner(request.user)
    if client_id and clients.is_document_url(client_id) and clients.is_stale(client_id, now=now):
        if not is_signed_in:
            return redirect_to_sign_in(request)
        _fetch_document(client_id, now)
    authorization = authorization_request.validate_authorization_request(query, now=now)
    if not is_signed_in:
        return redirect_to_sign_in(request)
    page = show_review(
        request,
        authorization.access_request(now),
        action_url=request.path,
        hidden={SIGNED_QUERY: signing.dumps([authorization.query, request.user.pk], salt=SALT)},
    )
    return allow_form_redirect(page, authorization.redirect_uri)


def _fetch_document(client_id: str, now: datetime) -> None:
    try:
        clients.fetch_document(client_id, now=now)
    except clients.MetadataDocumentError:
        # A stored document stays valid until it can be fetched again.
        if requests.find_registration(client_id) is None:
            raise


def _handle_post(request: HttpRequest, now: datetime) -> HttpResponse:
    if not is_owner(request.user):
        return message_page(request, "You are not signed in", START_AGAIN, status=403)
    query = _verified_query(request)
    authorization = authorization_request.validate_authorization_request(query, now=now)
    with transaction.atomic():
        match handle_decision(request, authorization.access_request(now)):
            case Approved(package_id):
                return redirect_to_client(_success_url(request, authorization, package_id, now))
            case Denied():
                return redirect_to_client(_denial_url(request, authorization))
            case page:
                return allow_form_redirect(page, authorization.redirect_uri)


def _verified_query(request: HttpRequest) -> str:
    max_age = 2 * limits.QUESTION_SECONDS
    try:
        query, user_pk = signing.loads(
            request.POST.get(SIGNED_QUERY, ""), salt=SALT, max_age=max_age
        )
    except signing.SignatureExpired:
        raise FatalAuthorizationError("The request expired after ten minutes.") from None
    except signing.BadSignature:
        raise FatalAuthorizationError("The form was not issued by this server.") from None
    if user_pk != request.user.pk:
        raise FatalAuthorizationError("The form was issued to another account.")
    return str(query)


def _success_url(
    request: HttpRequest, authorization: AuthorizationRequest, package_id: str, now: datetime
) -> str:
    requests.mark_registration_used(authorization.registration, now=now)
    if authorization.pushed is not None:
        requests.mark_answer_fetched(authorization.pushed, now=now)
    answer = codes.CodeTerms(
        package_id=package_id,
        resource=authorization.resource,
        scope=" ".join(authorization.scopes),
        redirect_uri=authorization.redirect_uri,
        code_challenge=authorization.code_challenge,
    )
    code = codes.create_code(answer, registration=authorization.registration, now=now)
    return authorization_request.redirect_url(
        authorization.redirect_uri,
        {"code": code, "state": authorization.state},
        issuer=requested_url(request),
    )


def _denial_url(request: HttpRequest, authorization: AuthorizationRequest) -> str:
    parameters = {
        "error": "access_denied",
        "error_description": "The owner denied the request.",
        "state": authorization.state,
    }
    return authorization_request.redirect_url(
        authorization.redirect_uri, parameters, issuer=requested_url(request)
    )
