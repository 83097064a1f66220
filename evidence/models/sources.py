"""Sources and the exact declarations they were published with."""

from django.db import models
from typing_extensions import override

from evidence.models.owners import Owner


class Source(models.Model):
    """A kind of place records come from: one mail connector, one bank."""

    owner = models.ForeignKey(Owner, on_delete=models.PROTECT, related_name="+")
    kind = models.TextField(default="connector")
    source_id = models.TextField(db_collation="C", help_text="Absolute URI of the source.")
    connector_key = models.TextField(db_collation="C")
    display_name = models.TextField()
    current_declaration = models.ForeignKey(
        "SourceDeclaration", null=True, on_delete=models.PROTECT, related_name="+"
    )

    unscoped = models.Manager["Source"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(fields=["owner", "source_id"], name="source_once_per_owner"),
            models.UniqueConstraint(
                fields=["owner", "connector_key"], name="connector_key_once_per_owner"
            ),
            models.CheckConstraint(
                name="source_kind_known",
                condition=models.Q(kind__in=["connector", "provider_native"]),
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.display_name


class SourceDeclaration(models.Model):
    """An immutable snapshot of a declaration, byte for byte as it was posted.

    ``layout`` says where typed values and search terms of each stream are stored
    (``evidence.declarations.layout``); a later revision only ever adds to it.
    """

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="+")
    revision = models.PositiveIntegerField()
    version = models.TextField()
    snapshot = models.TextField()
    layout = models.JSONField()
    created_at = models.DateTimeField()

    unscoped = models.Manager["SourceDeclaration"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(
                fields=["source", "revision"], name="declaration_revision_once_per_source"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.version} (revision {self.revision})"
