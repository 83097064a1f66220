"""The Django app of the owner's record pages; its tables are those of people."""

from django.apps import AppConfig
from typing_extensions import override

from evidence.write import app_data


class RecordsConfig(AppConfig):
    name = "owner.records"
    label = "people"
    verbose_name = "People"

    @override
    def ready(self) -> None:
        from owner.records.mentions import PeopleData

        app_data.register(PeopleData())
