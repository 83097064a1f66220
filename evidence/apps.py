"""The Django app of the records and of who may read them."""

from django.apps import AppConfig
from django.core.checks import register
from typing_extensions import override


class EvidenceConfig(AppConfig):
    name = "evidence"
    verbose_name = "Evidence"

    @override
    def ready(self) -> None:
        from evidence.checks import check_routes_require_grants

        register(check_routes_require_grants)
