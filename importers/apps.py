"""The Django app of imports and live sources."""

from django.apps import AppConfig
from typing_extensions import override

from evidence.write import app_data


class ImportersConfig(AppConfig):
    name = "importers"
    verbose_name = "Importers"

    @override
    def ready(self) -> None:
        from importers.runs.store import ImportData

        app_data.register(ImportData())
