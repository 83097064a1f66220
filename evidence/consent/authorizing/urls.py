"""Every route of the authorization server."""

from django.urls import path

from evidence.consent.authorizing.authorize import authorize
from evidence.consent.authorizing.metadata import authorization_server
from evidence.consent.authorizing.register import register
from evidence.consent.authorizing.signing_in import sign_in
from evidence.consent.authorizing.token import revoke, token

urlpatterns = [
    path(".well-known/oauth-authorization-server", authorization_server),
    path("login", sign_in, name="login"),
    path("oauth/authorize", authorize, name="authorize"),
    path("oauth/token", token),
    path("oauth/revoke", revoke),
    path("oauth/register", register),
    # Where clients of the revision 2025-03-26 look when they have read no metadata.
    path("authorize", authorize),
    path("token", token),
    path("register", register),
]
