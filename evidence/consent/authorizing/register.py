"""``/oauth/register``: a program introduces itself (RFC 7591). It may read nothing by that."""

from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from evidence import limits
from evidence.access.authorizations import registrations
from evidence.consent.authorizing import introductions
from evidence.consent.authorizing.answers import refused, said, slowed
from evidence.refusals import RateLimitExceeded


@csrf_exempt
@require_POST
def register(request: HttpRequest) -> HttpResponse:
    """201 with the metadata as it was understood. Members that are not known are ignored."""
    if len(request.body) > limits.REGISTRATION_BYTES:
        return refused("invalid_client_metadata", "The client metadata is too large.")
    try:
        introduction = introductions.read(_json(request.body))
        row, secret = registrations.register(
            introduction, address=request.META.get("REMOTE_ADDR", ""), now=timezone.now()
        )
    except introductions.NotAcceptedError as error:
        return refused(error.error, str(error))
    except RateLimitExceeded as refusal:
        return slowed(refusal)
    answer: dict[str, Any] = {
        **introduction.metadata,
        "client_id": row.client_id,
        "client_id_issued_at": int(row.created_at.timestamp()),
        "redirect_uris": row.redirect_uris,
        "grant_types": row.grant_types,
        "response_types": ["code"] if "authorization_code" in row.grant_types else [],
        "token_endpoint_auth_method": row.auth_method,
    }
    if secret is not None:
        answer |= {"client_secret": secret, "client_secret_expires_at": 0}
    return said(answer, status=201)


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
