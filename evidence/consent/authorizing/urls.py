"""Every route of the authorization server."""

from django.urls import path

from evidence.consent.authorizing.metadata import authorization_server

urlpatterns = [
    path(".well-known/oauth-authorization-server", authorization_server),
]
