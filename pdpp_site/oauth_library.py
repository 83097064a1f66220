"""Settings of django-oauth-toolkit."""

from collections.abc import Mapping

RFC_9700 = (
    "ACCESS_TOKEN_TRANSPORT",
    "AUTHZ_RESPONSE_ISS",
    "IMPLICIT_GRANT",
    "PASSWORD_GRANT",
    "PKCE_METHOD",
    "PKCE_REQUIRED",
    "REDIRECT_URI_MATCHING",
    "REDIRECT_URI_SCHEME",
    "REFRESH_TOKEN",
    "TOKEN_STORAGE",
)
"""The library's switches for the security best practices of RFC 9700."""

OAUTH2_PROVIDER: Mapping[str, object] = {
    **{f"COMPLIANT_BCP_RFC9700_{rule}": True for rule in RFC_9700},
    # owner.oauth.uris allows loopback and private-use schemes.
    "ALLOWED_REDIRECT_URI_SCHEMES": ["https"],
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
}
