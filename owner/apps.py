"""Django app for the owner's pages: templates, static files and commands. It has no models."""

from django.apps import AppConfig


class OwnerConfig(AppConfig):
    name = "owner"
    verbose_name = "Owner"
