"""``/oauth/token`` and ``/oauth/revoke``: the library judges, one transaction holds it together."""

import json
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from evidence.consent.authorizing.answers import refused, said
from evidence.consent.authorizing.server import GRANTS, core


@csrf_exempt
@sensitive_post_parameters()
@require_POST
def token(request: HttpRequest) -> HttpResponse:
    """RFC 6749, 5. A refusal is stored too: a replayed token ends its family."""
    # The library looks for a handler, finds none and calls it.
    if request.POST.get("grant_type") not in GRANTS:
        return refused(
            "unsupported_grant_type", f"The grant types are {', '.join(sorted(GRANTS))}."
        )
    with transaction.atomic():
        _, _, body, status = core().create_token_response(request)
    answer = json.loads(body)
    if status == 200:
        return said(answer)
    return _refused(request, answer)


@csrf_exempt
@sensitive_post_parameters()
@require_POST
def revoke(request: HttpRequest) -> HttpResponse:
    """RFC 7009: a token of the client's own ends, with all that came of the same sign-in."""
    with transaction.atomic():
        _, _, body, status = core().create_revocation_response(request)
    return said({}) if status == 200 else _refused(request, json.loads(body))


def _refused(request: HttpRequest, answer: dict[str, Any]) -> HttpResponse:
    """400, but for credentials in the header, which are answered in kind (RFC 6749, 5.2)."""
    error = answer.pop("error")
    description = answer.pop("error_description", "")
    tried = error == "invalid_client" and "Authorization" in request.headers
    response = refused(error, description, status=401 if tried else 400, **answer)
    if tried:
        response["WWW-Authenticate"] = 'Basic realm="token"'
    return response
