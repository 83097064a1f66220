"""The Django app of the owner's pages, with the tables of the owner's sign-in."""

from django.apps import AppConfig
from typing_extensions import override

from evidence.write import app_data


class OwnerConfig(AppConfig):
    name = "owner"
    verbose_name = "Owner"

    @override
    def ready(self) -> None:
        from owner.accounts.setup import AccountData

        app_data.register(AccountData())
