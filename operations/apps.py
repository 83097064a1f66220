"""Django app for running the server: background jobs, commands for erasure and diagnosis."""

from django.apps import AppConfig
from typing_extensions import override

from evidence.write import app_data


class OperationsConfig(AppConfig):
    name = "operations"
    verbose_name = "Operations"

    @override
    def ready(self) -> None:
        from operations.backup.schedule import BackupData
        from operations.notifications.store import NotificationData

        app_data.register(BackupData())
        app_data.register(NotificationData())
