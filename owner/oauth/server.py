"""The oauthlib server with the code (PKCE S256), refresh token and device code grants.

A code or token names its owner; nobody has the owner of a wrong one, so that both are answered alike.
Rows that a check locks stay locked until the tokens are stored.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils import timezone
from oauth2_provider.oauth2_backends import OAuthLibCore
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.common import Request
from oauthlib.oauth2.rfc6749 import errors
from oauthlib.oauth2.rfc6749.endpoints.authorization import AuthorizationEndpoint
from oauthlib.oauth2.rfc6749.endpoints.revocation import RevocationEndpoint
from oauthlib.oauth2.rfc6749.endpoints.token import TokenEndpoint
from oauthlib.oauth2.rfc6749.grant_types import AuthorizationCodeGrant, RefreshTokenGrant
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256
from oauthlib.oauth2.rfc6749.tokens import BearerToken
from oauthlib.oauth2.rfc8628.grant_types import DeviceCodeGrant
from typing_extensions import override

from evidence import limits
from evidence.access.crypto import ACCESS_PREFIX, REFRESH_PREFIX, new_secret, owner_in
from evidence.errors import ConnectionNotFound
from evidence.models.owners import act_for
from owner.oauth import requests, tokens
from owner.oauth.responses import (
    COLLECT_SCOPE,
    OFFLINE_SCOPE,
    SCOPE,
    is_registered,
    single_resource,
)


class FreshAuthorizationRequired(errors.InvalidGrantError):
    """The sign-in has ended; the client must request authorization again."""

    @property
    @override
    def twotuples(self) -> list[tuple[str, Any]]:
        return [*super().twotuples, ("fresh_authorization_required", True)]


class InvalidTarget(errors.OAuth2Error):
    """The resource is unknown or not the authorized one (RFC 8707)."""

    error = "invalid_target"


class RequestValidator(OAuth2Validator):
    """Checks of oauthlib, in the order of a sign-in."""

    # --- client

    @override
    def _load_application(self, client_id: str, request: Request) -> Any:
        if request.client is None or request.client.client_id != client_id:
            request.client = requests.find_registration(client_id)
        return request.client

    @override
    def _check_secret(self, provided_secret: str, stored_secret: Any) -> bool:
        return requests.is_client_secret(provided_secret, stored_secret)

    @override
    def is_origin_allowed(self, *args: Any, **kwargs: Any) -> bool:
        """Send no CORS headers, so that pages of other sites cannot read tokens."""
        return False

    @override
    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Any, request: Request, **kwargs: Any
    ) -> bool:
        return grant_type in request.client.grant_types

    @override
    def validate_response_type(
        self, client_id: str, response_type: str, client: Any, request: Request, **kwargs: Any
    ) -> bool:
        return response_type == "code" and "authorization_code" in request.client.grant_types

    # --- scopes and redirect URIs

    @override
    def validate_scopes(
        self, client_id: str, scopes: Any, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        # The owner decides what may be read; unknown scopes are ignored, but a collector reads nothing.
        request.scopes = [SCOPE, *([OFFLINE_SCOPE] if OFFLINE_SCOPE in (scopes or ()) else [])]
        return COLLECT_SCOPE not in (scopes or ())

    @override
    def get_default_scopes(self, *args: Any, **kwargs: Any) -> Any:
        return [SCOPE]

    @override
    def validate_redirect_uri(
        self, client_id: str, redirect_uri: str, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        return is_registered(redirect_uri, request.client.redirect_uris)

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
        act_for(owner_in(code, tokens.CODE_PREFIX))
        row = tokens.redeem_code(code, registration=client, now=timezone.now())
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
        self, client_id: str, code: str, redirect_uri: str, client: Any, request: Request, **_: Any
    ) -> bool:
        # The parameter is required here, although the library fills in a default.
        is_given = not request.using_default_redirect_uri
        return is_given and bool(request.pdpp_row.redirect_uri == redirect_uri)

    @override
    def invalidate_authorization_code(self, *args: Any, **kwargs: Any) -> None:
        """``validate_code`` has already invalidated it."""

    # --- refresh tokens

    @override
    def validate_refresh_token(
        self, refresh_token: str, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        act_for(owner_in(refresh_token, REFRESH_PREFIX))
        try:
            used = tokens.lock_refresh_session(
                refresh_token, registration=client, now=timezone.now()
            )
        except tokens.RefreshTokenReplayed:
            raise FreshAuthorizationRequired(
                description="The refresh token was used before, so all tokens of its sign-in are revoked.",
                request=request,
            ) from None
        except tokens.RefreshTokenEnded:
            raise FreshAuthorizationRequired(
                description="The refresh token is unknown, has expired or was revoked.",
                request=request,
            ) from None
        _check_resource(request, used.family.resource)
        request.pdpp_refresh_token = used
        return True

    @override
    def get_original_scopes(
        self, refresh_token: str, request: Request, *args: Any, **kwargs: Any
    ) -> Any:
        return request.pdpp_refresh_token.family.scope

    @override
    def is_within_original_scope(self, *args: Any, **kwargs: Any) -> bool:
        return True  # validate_scopes has removed unknown scopes

    # --- devices

    def validate_device_code(
        self, client_id: str, device_code: str, request: Request
    ) -> str | None:
        """Return the state of a device code as a constant of the library (RFC 8628, 3.5)."""
        now = timezone.now()
        row = requests.lock_by_handle(requests.Kind.DEVICE, device_code) or requests.lock_by_handle(
            requests.Kind.COLLECTOR, device_code
        )
        if row is None or row.registration_id != request.client.pk or row.used_at is not None:
            return None
        if row.decided_at is None and row.expires_at <= now:
            return str(DeviceCodeGrant.DEVICE_CODE_EXPIRED)
        if not requests.record_poll(row, now=now):
            return str(DeviceCodeGrant.DEVICE_CODE_SLOW_DOWN)
        if row.decided_at is None:
            return str(DeviceCodeGrant.DEVICE_CODE_PENDING)
        if not row.is_allowed or row.owner_id is None:
            return str(DeviceCodeGrant.DEVICE_CODE_DENIED)
        act_for(row.owner_id)
        if row.expires_at + timedelta(seconds=limits.QUESTION_SECONDS) <= now:
            return str(DeviceCodeGrant.DEVICE_CODE_EXPIRED)
        requests.mark_answer_fetched(row, now=now)
        request.pdpp_row = row
        request.scopes = [SCOPE]
        return str(DeviceCodeGrant.DEVICE_CODE_AUTHORIZED)

    # --- tokens

    @override
    def save_bearer_token(self, token: Any, request: Request, *args: Any, **kwargs: Any) -> None:
        """Store the tokens and add this server's members to the response."""
        now = timezone.now()
        if request.grant_type == "refresh_token":
            tokens.rotate_tokens(token, request.pdpp_refresh_token, now=now)
        elif request.grant_type == DEVICE_GRANT and request.pdpp_row.connection_ids is not None:
            try:
                tokens.issue_collector_token(
                    token, request.pdpp_row, registration=request.client, now=now
                )
            except ConnectionNotFound:
                raise errors.InvalidGrantError(
                    description="A connection has ended since it was allowed.", request=request
                ) from None
        else:
            tokens.issue_first_tokens(token, request.pdpp_row, registration=request.client, now=now)

    @override
    def revoke_token(
        self, token: str, token_type_hint: str, request: Request, *args: Any, **kwargs: Any
    ) -> None:
        act_for(owner_in(token, REFRESH_PREFIX) or owner_in(token, ACCESS_PREFIX))
        if request.client is not None:
            tokens.revoke_by_token(token, registration=request.client, now=timezone.now())


def _check_resource(request: Request, resource: str) -> None:
    """Raise InvalidTarget if the token request names another resource than the authorized one."""
    names = [value for name, value in request.decoded_body or () if name == "resource"]
    if names and single_resource(names, default="/mcp") != resource:
        raise InvalidTarget(
            description="The authorization is for another resource.", request=request
        )


DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
GRANT_TYPES = frozenset({"authorization_code", "refresh_token", DEVICE_GRANT})


PARAMETERS = frozenset(
    {
        "client_id", "client_secret", "code", "code_challenge", "code_challenge_method",
        "code_verifier", "device_code", "grant_type", "redirect_uri", "refresh_token", "resource",
        "response_mode", "response_type", "scope", "state", "token", "token_type_hint",
    }
)  # fmt: skip
"""What the library may see. It reads its own state (``client``, ``user``, ``scopes``, …) from
parameters of these names too, so everything else is left out, as RFC 6749 says of unknown ones."""


class PkceCodeGrant(AuthorizationCodeGrant):
    """Code grant that accepts PKCE with S256 only; a missing method means the unsupported `plain`."""

    _code_challenge_methods = {"S256": code_challenge_method_s256}  # noqa: RUF012 the library's name


class Server(AuthorizationEndpoint, TokenEndpoint, RevocationEndpoint):
    """The OAuth endpoints of this server. Tokens are generated by ``evidence.access.crypto``."""

    def __init__(self, validator: RequestValidator) -> None:
        bearer = BearerToken(
            validator,
            lambda request: new_secret(ACCESS_PREFIX),
            lambda request: limits.ACCESS_SECONDS,
            lambda request: new_secret(REFRESH_PREFIX),
        )
        code = PkceCodeGrant(validator)
        AuthorizationEndpoint.__init__(
            self,
            default_response_type="code",
            response_types={"code": code},
            default_token_type=bearer,
        )
        TokenEndpoint.__init__(
            self,
            default_grant_type="",
            grant_types={
                "authorization_code": code,
                "refresh_token": RefreshTokenGrant(validator),
                DEVICE_GRANT: DeviceCodeGrant(validator),
            },
            default_token_type=bearer,
        )
        RevocationEndpoint.__init__(self, validator)


class OAuthLibBackend(OAuthLibCore):
    """Converts Django requests to oauthlib requests."""

    def extract_body(self, request: HttpRequest) -> list[tuple[str, str]]:
        return known_parameters(super().extract_body(request))

    def request_from(self, request: HttpRequest, parameters: Mapping[str, str]) -> Any:
        """Return an oauthlib request with `parameters`, which may come from a JSON body."""
        headers = self.extract_headers(request)
        body = urlencode(known_parameters(parameters.items()))
        return Request(request.path, str(request.method), body, headers)


def known_parameters(parameters: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the parameters that the library may see."""
    return [(name, value) for name, value in parameters if name in PARAMETERS]


@lru_cache(maxsize=1)
def oauth_backend() -> Any:
    """Return the backend of this process; it keeps no state between requests."""
    return OAuthLibBackend(Server(RequestValidator()))
