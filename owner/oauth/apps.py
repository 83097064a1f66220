"""The Django app of the OAuth 2.0 authorization server."""

from django.apps import AppConfig
from typing_extensions import override

from evidence.write import app_data


class OAuthConfig(AppConfig):
    name = "owner.oauth"
    verbose_name = "Sign-in of apps"

    @override
    def ready(self) -> None:
        from owner.oauth.requests import OAuthData

        app_data.register(OAuthData())
