"""Every route of the authorization server."""

from django.urls import path

from evidence.consent.authorizing.authorize import authorize
from evidence.consent.authorizing.connect import agent_connect, attempt_token
from evidence.consent.authorizing.device import device, device_authorization
from evidence.consent.authorizing.introspect import introspect
from evidence.consent.authorizing.metadata import authorization_server
from evidence.consent.authorizing.pushed import push
from evidence.consent.authorizing.register import register
from evidence.consent.authorizing.second_step import second
from evidence.consent.authorizing.signing_in import sign_in
from evidence.consent.authorizing.token import revoke, token

urlpatterns = [
    path(".well-known/oauth-authorization-server", authorization_server),
    path("login", sign_in, name="login"),
    path("login/second", second, name="login-second"),
    path("oauth/authorize", authorize, name="authorize"),
    path("oauth/token", token),
    path("oauth/revoke", revoke),
    path("oauth/register", register),
    path("oauth/par", push),
    path("oauth/device_authorization", device_authorization),
    path("device", device, name="device"),
    path("introspect", introspect),
    path("agent-connect", agent_connect),
    path("agent-connect/<str:attempt_id>/token", attempt_token),
    # Where clients of the revision 2025-03-26 look when they have read no metadata.
    path("authorize", authorize),
    path("token", token),
    path("register", register),
]
