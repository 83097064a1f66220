"""Accounts that live sources read, and what each source has seen of them."""

from django.db import models
from typing_extensions import override

from evidence.models.connections import Connection


class SourceAccount(models.Model):
    """The account from which a source keeps one connection up to date.

    ``state`` covers exactly the records that are stored: both change in one transaction, which also
    increments ``version``. ``credential`` is encrypted and bound to the connection. ``last_run`` and
    ``problem`` are for the owner's pages and contain no text of a record. ``held_deletions`` are too
    many to delete without a question, see ``storing.mirrored_deletions``; the owner agreed to those
    of passes up to ``allowed_pass``. ``traffic`` has the bytes that were read on a day.
    """

    connection = models.OneToOneField(
        Connection, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    source_name = models.TextField(db_collation="C")
    settings = models.JSONField(default=dict)
    credential = models.BinaryField(null=True)
    is_mirror = models.BooleanField(default=False)
    state = models.JSONField(default=dict)
    version = models.BigIntegerField(default=0)
    pass_number = models.BigIntegerField(default=1)
    held_deletions = models.JSONField(null=True)
    allowed_pass = models.BigIntegerField(default=0)
    traffic = models.JSONField(default=dict)
    due_at = models.DateTimeField()
    failures = models.IntegerField(default=0)
    problem = models.JSONField(null=True)
    last_run = models.JSONField(default=dict)
    succeeded_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    unscoped = models.Manager["SourceAccount"]()

    class Meta:
        default_manager_name = "unscoped"
        indexes = [models.Index(fields=["due_at"], name="source_account_due")]

    @override
    def __str__(self) -> str:
        return f"{self.source_name} of {self.connection_id}"


class SyncedItem(models.Model):
    """An item of an account, such as a message in a folder, and the record made from it.

    ``mark`` is what the source remembers of it, such as its flags. ``is_ours``: the record did not
    exist before. ``gone_pass`` is the pass that no longer found the item.
    """

    pk = models.CompositePrimaryKey("connection_id", "container", "ref")
    connection = models.ForeignKey(
        Connection, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    container = models.TextField(db_collation="C")
    ref = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    mark = models.TextField(default="")
    is_ours = models.BooleanField(default=False)
    gone_pass = models.BigIntegerField(null=True)
    seen_at = models.DateTimeField()

    unscoped = models.Manager["SyncedItem"]()

    class Meta:
        default_manager_name = "unscoped"
        indexes = [
            models.Index(fields=["connection", "record_key"], name="synced_item_of_record"),
            models.Index(
                fields=["connection", "gone_pass"],
                name="synced_item_gone",
                condition=models.Q(gone_pass__isnull=False),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.container} {self.ref}"
