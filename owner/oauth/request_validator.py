"""Where the library asks and our rows answer.

Each request is judged with its own transaction open around it (``token.py``), so that what is
looked up here stays as it is until the answer is stored.
"""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from oauth2_provider.models import redirect_to_uri_allowed
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.common import Request
from oauthlib.oauth2.rfc6749 import errors
from oauthlib.oauth2.rfc8628.grant_types import DeviceCodeGrant
from typing_extensions import override

from evidence import limits
from evidence.access.oauth import codes, requests, tokens
from owner.oauth.uris import OFFLINE, SCOPE, is_plain, the_one


class FreshAuthorizationRequired(errors.InvalidGrantError):
    """Nothing can be refreshed any more: the owner has to be asked again."""

    @property
    @override
    def twotuples(self) -> list[tuple[str, Any]]:
        return [*super().twotuples, ("fresh_authorization_required", True)]


class InvalidTarget(errors.OAuth2Error):
    """The resource is not one of ours, or not the one that was asked for (RFC 8707)."""

    error = "invalid_target"


class Validator(OAuth2Validator):
    """The library's questions in the order of a sign-in."""

    # --- who asks

    @override
    def _load_application(self, client_id: str, request: Request) -> Any:
        if request.client is None or request.client.client_id != client_id:
            request.client = requests.found(client_id)
        return request.client

    @override
    def _check_secret(self, provided_secret: str, stored_secret: Any) -> bool:
        return requests.is_secret(provided_secret, stored_secret)

    @override
    def is_origin_allowed(
        self, client_id: str, origin: str, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        """A browser that names itself is answered, but no page of another site reads the tokens."""
        return False

    @override
    def validate_grant_type(
        self,
        client_id: str,
        grant_type: str,
        client: Any,
        request: Request,
        *args: Any,
        **kwargs: Any,
    ) -> bool:
        return grant_type in request.client.grant_types

    @override
    def validate_response_type(
        self,
        client_id: str,
        response_type: str,
        client: Any,
        request: Request,
        *args: Any,
        **kwargs: Any,
    ) -> bool:
        return response_type == "code" and "authorization_code" in request.client.grant_types

    # --- what for

    @override
    def validate_scopes(
        self, client_id: str, scopes: Any, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        # What may be read is the owner's to say; a scope of another name is left out, not refused.
        request.scopes = granted_scopes(scopes)
        return True

    @override
    def get_default_scopes(
        self, client_id: str, request: Request, *args: Any, **kwargs: Any
    ) -> Any:
        return [SCOPE]

    @override
    def validate_redirect_uri(
        self, client_id: str, redirect_uri: str, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        return is_plain(redirect_uri) and bool(
            redirect_to_uri_allowed(redirect_uri, list(request.client.redirect_uris))
        )

    @override
    def get_default_redirect_uri(
        self, client_id: str, request: Request, *args: Any, **kwargs: Any
    ) -> str | None:
        uris = request.client.redirect_uris
        return uris[0] if len(uris) == 1 else None

    # --- codes

    @override
    def validate_code(
        self, client_id: str, code: str, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        row = codes.take_code(code, registration=client, now=timezone.now())
        if row is None:
            return False
        _check_resource(request, row.resource)
        request.pdpp_row = row
        request.scopes = row.scope.split()
        return True

    @override
    def get_code_challenge(self, code: str, request: Request) -> str:
        return str(request.pdpp_row.code_challenge)

    @override
    def get_code_challenge_method(self, code: str, request: Request) -> str:
        return "S256"

    @override
    def confirm_redirect_uri(
        self,
        client_id: str,
        code: str,
        redirect_uri: str,
        client: Any,
        request: Request,
        *args: Any,
        **kwargs: Any,
    ) -> bool:
        # One left out is none that matches, although the library has filled one in.
        sent = not request.using_default_redirect_uri
        return sent and bool(request.pdpp_row.redirect_uri == redirect_uri)

    @override
    def invalidate_authorization_code(
        self, client_id: str, code: str, request: Request, *args: Any, **kwargs: Any
    ) -> None:
        """``validate_code`` has used it up."""

    # --- refresh tokens

    @override
    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        try:
            standing = codes.present(refresh_token, registration=client, now=timezone.now())
        except codes.Replayed:
            raise FreshAuthorizationRequired(
                description="The refresh token had been used before, so everything that came of "
                "its sign-in has been ended.",
                request=request,
            ) from None
        except codes.Ended:
            raise FreshAuthorizationRequired(
                description="The refresh token is not known, or what it stood for has ended.",
                request=request,
            ) from None
        _check_resource(request, standing.family.resource)
        request.pdpp_standing = standing
        return True

    @override
    def get_original_scopes(
        self, refresh_token: str, request: Request, *args: Any, **kwargs: Any
    ) -> Any:
        return request.pdpp_standing.family.scope

    @override
    def is_within_original_scope(
        self, request_scopes: Any, refresh_token: str, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        return True  # as in validate_scopes: what is unknown is left out

    # --- devices

    def validate_device_code(
        self, client_id: str, device_code: str, request: Request
    ) -> str | None:
        """The state of a device's question, in the library's words (RFC 8628, 3.5)."""
        now = timezone.now()
        row = requests.by_handle_for_update(requests.Kind.DEVICE, device_code)
        if row is None or row.registration_id != request.client.pk or row.used_at is not None:
            return None
        if row.decided_at is None and row.expires_at <= now:
            return str(DeviceCodeGrant.DEVICE_CODE_EXPIRED)
        if not requests.note_poll(row, now=now):
            return str(DeviceCodeGrant.DEVICE_CODE_SLOW_DOWN)
        if row.decided_at is None:
            return str(DeviceCodeGrant.DEVICE_CODE_PENDING)
        if row.package is None:
            return str(DeviceCodeGrant.DEVICE_CODE_DENIED)
        if row.expires_at + timedelta(seconds=limits.QUESTION_SECONDS) <= now:
            return str(DeviceCodeGrant.DEVICE_CODE_EXPIRED)
        requests.use_up(row, now=now)
        request.pdpp_row = row
        request.scopes = [SCOPE]
        return str(DeviceCodeGrant.DEVICE_CODE_AUTHORIZED)

    # --- tokens

    @override
    def save_bearer_token(self, token: Any, request: Request, *args: Any, **kwargs: Any) -> None:
        """Stores the tokens that the library has made, and adds what our answers say beside them."""
        now = timezone.now()
        if request.grant_type == "refresh_token":
            tokens.next_tokens(token, request.pdpp_standing, now=now)
        else:
            tokens.first_tokens(token, request.pdpp_row, registration=request.client, now=now)

    @override
    def revoke_token(
        self, token: str, token_type_hint: str, request: Request, *args: Any, **kwargs: Any
    ) -> None:
        if request.client is not None:
            codes.end_by_token(token, registration=request.client, now=timezone.now())


def granted_scopes(asked: Any) -> list[str]:
    """Reading, and staying signed in where that was asked for."""
    return [SCOPE, *([OFFLINE] if OFFLINE in (asked or ()) else [])]


def _check_resource(request: Request, resource: str) -> None:
    """Whether a token request that names a resource names the one that was allowed."""
    sent = [value for name, value in request.decoded_body or () if name == "resource"]
    if sent and the_one(sent, default="/mcp") != resource:
        raise InvalidTarget(
            description="The token was allowed for another resource.", request=request
        )
