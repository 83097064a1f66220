"""``/oauth/authorize``: a client sends the owner's browser here, and gets it back with a code.

A GET changes nothing, so a client may try the address itself. What it asks is carried through the
page sealed, and is judged again when the answer comes.
"""

import secrets
from datetime import datetime

from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from evidence import limits
from evidence.access.oauth import codes, requests
from owner.grants.wizard import Approved, Denied, decided, review
from owner.oauth import authorization_request, client_metadata
from owner.oauth.authorization_request import Question, RefusedError, UnanswerableError
from owner.oauth.responses import letting_through, sent_back, sign_in_first, told
from owner.permissions import is_owner

SEALED = "question"
SALT = "pdpp/authorize"
AGAIN = "Nothing was given. Start again from the program that sent you here."


@require_http_methods(["GET", "HEAD", "POST"])
def authorize(request: HttpRequest) -> HttpResponse:
    """The page on GET, the answer on POST."""
    now = timezone.now()
    try:
        if request.method == "POST":
            return _answer(request, now)
        return _ask(request, now)
    except client_metadata.NotFetchedError as error:
        return told(request, "This client cannot be recognised", f"{error} {AGAIN}", status=400)
    except UnanswerableError as error:
        return told(request, "This request cannot be answered", f"{error} {AGAIN}", status=400)
    except RefusedError as error:
        return sent_back(error.location)


def _ask(request: HttpRequest, now: datetime) -> HttpResponse:
    query = request.META.get("QUERY_STRING", "")
    client_id = authorization_request.client_id_of(query)
    signed_in = is_owner(request.user)
    if (
        client_id
        and client_metadata.is_address(client_id)
        and client_metadata.is_stale(client_id, now=now)
    ):
        if not signed_in:
            return sign_in_first(request)
        _fetch(client_id, now)
    question = authorization_request.read(query, now=now)
    if not signed_in:
        return sign_in_first(request)
    page = review(
        request,
        question.asked(now),
        action_url=request.path,
        hidden={SEALED: signing.dumps([question.query, request.user.pk], salt=SALT)},
    )
    return letting_through(page, question.redirect_uri)


def _fetch(client_id: str, now: datetime) -> None:
    try:
        client_metadata.fetch(client_id, now=now)
    except client_metadata.NotFetchedError:
        # What it said the last time still holds, until it can be read again.
        if requests.found(client_id) is None:
            raise


def _answer(request: HttpRequest, now: datetime) -> HttpResponse:
    if not is_owner(request.user):
        return told(request, "You are not signed in", AGAIN, status=403)
    question = authorization_request.read(_unsealed(request), now=now)
    with transaction.atomic():
        match decided(request, question.asked(now)):
            case Approved(package_id):
                return sent_back(_with_code(question, package_id, now))
            case Denied():
                return sent_back(_denial(question))
            case page:
                return letting_through(page, question.redirect_uri)


def _unsealed(request: HttpRequest) -> str:
    age = 2 * limits.QUESTION_SECONDS
    try:
        query, user = signing.loads(request.POST.get(SEALED, ""), salt=SALT, max_age=age)
    except signing.SignatureExpired:
        raise UnanswerableError("You took longer than ten minutes. Start again.") from None
    except signing.BadSignature:
        raise UnanswerableError("The answer belongs to no question of ours.") from None
    if user != request.user.pk:
        raise UnanswerableError("Somebody else was asked.")
    return str(query)


def _with_code(question: Question, package_id: str, now: datetime) -> str:
    requests.note_use(question.registration, now=now)
    if question.pushed is not None:
        requests.use_up(question.pushed, now=now)
    code = secrets.token_urlsafe(32)
    answer = codes.Answer(
        package_id=package_id,
        resource=question.resource,
        scope=" ".join(question.scopes),
        redirect_uri=question.redirect_uri,
        code_challenge=question.code_challenge,
    )
    codes.keep_code(code, answer, registration=question.registration, now=now)
    return authorization_request.answered(
        question.redirect_uri, {"code": code, "state": question.state}
    )


def _denial(question: Question) -> str:
    answer = {
        "error": "access_denied",
        "error_description": "The owner said no.",
        "state": question.state,
    }
    return authorization_request.answered(question.redirect_uri, answer)
