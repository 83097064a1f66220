"""How django-oauth-toolkit is set; its models are named in the settings."""

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
"""Every switch by which the library holds to the security practice of RFC 9700."""

SETTINGS: Mapping[str, object] = {
    **{f"COMPLIANT_BCP_RFC9700_{rule}": True for rule in RFC_9700},
    # Loopback and programs' own schemes are let in by owner.oauth.uris.
    "ALLOWED_REDIRECT_URI_SCHEMES": ["https"],
    "ALLOW_LOCALHOST_LOOPBACK": True,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
}
