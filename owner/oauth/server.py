"""The protocol endpoints, with the three grant types that exist here and none of the others."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from oauth2_provider.oauth2_backends import OAuthLibCore
from oauthlib.common import Request
from oauthlib.oauth2.rfc6749.endpoints.authorization import AuthorizationEndpoint
from oauthlib.oauth2.rfc6749.endpoints.revocation import RevocationEndpoint
from oauthlib.oauth2.rfc6749.endpoints.token import TokenEndpoint
from oauthlib.oauth2.rfc6749.grant_types import AuthorizationCodeGrant, RefreshTokenGrant
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256
from oauthlib.oauth2.rfc6749.tokens import BearerToken
from oauthlib.oauth2.rfc8628.grant_types import DeviceCodeGrant

from evidence import limits
from evidence.access.crypto import ACCESS_PREFIX, REFRESH_PREFIX, new_bearer
from owner.oauth.request_validator import Validator

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
GRANTS = frozenset({"authorization_code", "refresh_token", DEVICE_GRANT})


PARAMETERS = frozenset(
    {
        "client_id", "client_secret", "code", "code_challenge", "code_challenge_method",
        "code_verifier", "device_code", "grant_type", "redirect_uri", "refresh_token", "resource",
        "response_mode", "response_type", "scope", "state", "token", "token_type_hint",
    }
)  # fmt: skip
"""What the library may see. It reads its own state (``client``, ``user``, ``scopes``, …) from
parameters of these names too, so everything else is left out, as RFC 6749 says of unknown ones."""


class CodeGrant(AuthorizationCodeGrant):
    """PKCE by S256 alone. A request without a method means ``plain``, which is none of ours."""

    _code_challenge_methods = {"S256": code_challenge_method_s256}  # noqa: RUF012 the library's name


class Server(AuthorizationEndpoint, TokenEndpoint, RevocationEndpoint):
    """Code, refresh and device grants, whose tokens are ours."""

    def __init__(self, validator: Validator) -> None:
        bearer = BearerToken(validator, _access_token, _lifetime, _refresh_token)
        code = CodeGrant(validator)
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


class Core(OAuthLibCore):
    """The library's bridge from Django's requests to ``Server``."""

    def extract_body(self, request: HttpRequest) -> list[tuple[str, str]]:
        return known_parameters(super().extract_body(request))

    def request_of(self, request: HttpRequest, sent: Mapping[str, str]) -> Any:
        """A request as the validator takes it, of parameters that need not have come as a form."""
        headers = self.extract_headers(request)
        body = urlencode(known_parameters(sent.items()))
        return Request(request.path, str(request.method), body, headers)


def known_parameters(sent: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the parameters that the library may see."""
    return [(name, value) for name, value in sent if name in PARAMETERS]


@lru_cache(maxsize=1)
def core() -> Any:
    """The one of this process; it keeps nothing between requests."""
    return Core(Server(Validator()))


def _access_token(request: Request) -> str:
    return new_bearer(ACCESS_PREFIX)


def _refresh_token(request: Request) -> str:
    return new_bearer(REFRESH_PREFIX)


def _lifetime(request: Request) -> int:
    return limits.ACCESS_SECONDS
