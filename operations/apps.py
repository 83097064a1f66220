"""Django app for running the server: commands for backup, erasure and diagnosis. It has no models."""

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "operations"
    verbose_name = "Operations"
