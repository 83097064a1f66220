"""The Django app of the records and of who may read them."""

from django.apps import AppConfig


class EvidenceConfig(AppConfig):
    name = "evidence"
    verbose_name = "Evidence"
    default_auto_field = "django.db.models.BigAutoField"
