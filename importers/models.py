"""Tables of imports and live sources: runs, receipts, choices, waiting exports, accounts and their items."""

from django.db import models
from typing_extensions import override

from evidence.models.connections import Connection
from evidence.models.owners import Owned, OwnedKey, OwnedOne


class ImportRun(Owned):
    """Import of one kind of data from one export into one connection.

    ``items_done`` counts items stored so far; an unfinished import of an export with the same
    ``fingerprint`` resumes there.
    """

    class Status(models.TextChoices):
        RUNNING = "running", "Running"
        FINISHED = "finished", "Finished"
        STOPPED = "stopped", "Stopped before its end"

    run_id = models.TextField(primary_key=True, db_collation="C")
    connection = OwnedKey(Connection, cascade=True)
    kind = models.TextField()
    label = models.TextField(help_text="The name of the file or folder.")
    fingerprint = models.TextField(db_collation="C")
    status = models.TextField(choices=Status.choices, default=Status.RUNNING)
    items_done = models.BigIntegerField(default=0)
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(default=0)
    created = models.BigIntegerField(default=0)
    updated = models.BigIntegerField(default=0)
    unchanged = models.BigIntegerField(default=0)
    doubles = models.BigIntegerField(default=0)
    files = models.BigIntegerField(default=0)
    left_out = models.BigIntegerField(default=0)
    remarked = models.BigIntegerField(default=0)
    totals = models.JSONField(default=dict, help_text="By stream, account and currency.")
    started_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta(Owned.Meta):
        constraints = [
            models.CheckConstraint(
                name="import_status_known",
                condition=models.Q(status__in=["running", "finished", "stopped"]),
            )
        ]
        indexes = [
            models.Index(fields=["owner", "connection", "fingerprint"], name="import_of_an_export")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} of {self.label}"


class ImportReceipt(Owned):
    """One item that was not imported, or imported with a warning. ``item`` counts from 0."""

    connection = OwnedKey(Connection, cascade=True)
    run = OwnedKey(ImportRun, cascade=True)
    item = models.BigIntegerField()
    file = models.TextField()
    place = models.TextField()
    code = models.TextField()
    detail = models.TextField()

    @override
    def __str__(self) -> str:
        return f"{self.code} at {self.place}"


class ImportChoice(Owned):
    """An import option that the owner chose for a connection, reused by later imports."""

    connection = OwnedKey(Connection, cascade=True)
    name = models.TextField(db_collation="C")
    value = models.JSONField()

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "connection", "name"], name="import_choice_once_per_connection"
            )
        ]

    @override
    def __str__(self) -> str:
        return self.name


class WaitingExport(Owned):
    """An export in a watched folder that its owner was asked about.

    ``question`` is empty once nothing is open. ``answer`` has the form values of the owner, which apply
    as long as the export is in the folder.
    """

    waiting_id = models.TextField(primary_key=True, db_collation="C")
    path = models.TextField(db_collation="C")
    question = models.TextField()
    flag = models.TextField(help_text="The option of the command line that answers.")
    answer = models.JSONField(default=dict)
    is_due = models.BooleanField(default=False, help_text="Answered, and not imported yet.")
    asked_at = models.DateTimeField()

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(fields=["owner", "path"], name="waiting_export_once_per_path")
        ]

    @override
    def __str__(self) -> str:
        return self.path


class SourceAccount(Owned):
    """The account from which a source keeps one connection up to date.

    ``state`` covers exactly the records that are stored: both change in one transaction, which also
    increments ``version``. ``credential`` is encrypted and bound to the connection. ``last_run`` and
    ``problem`` are for the owner's pages and contain no text of a record. ``held_deletions`` are too
    many to delete without a question, see ``importers.sources.sync_batch``; the owner agreed to those
    of passes up to ``allowed_pass``. ``traffic`` has the bytes that were read on a day.
    """

    connection = OwnedOne(Connection, primary_key=True, cascade=True)
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

    class Meta(Owned.Meta):
        indexes = [models.Index(fields=["due_at"], name="source_account_due")]

    @override
    def __str__(self) -> str:
        return f"{self.source_name} of {self.connection_id}"


class SyncedItem(Owned):
    """An item of an account, such as a message in a folder, and the record made from it.

    ``mark`` is what the source remembers of it, such as its flags. ``is_ours``: the record did not
    exist before. ``gone_pass`` is the pass that no longer found the item.
    """

    pk = models.CompositePrimaryKey("owner_id", "connection_id", "container", "ref")
    connection = OwnedKey(Connection, cascade=True)
    container = models.TextField(db_collation="C")
    ref = models.TextField(db_collation="C")
    stream = models.TextField(db_collation="C")
    record_key = models.TextField(db_collation="C")
    mark = models.TextField(default="")
    is_ours = models.BooleanField(default=False)
    gone_pass = models.BigIntegerField(null=True)
    seen_at = models.DateTimeField()

    class Meta(Owned.Meta):
        indexes = [
            models.Index(
                fields=["owner", "connection", "record_key"], name="synced_item_of_record"
            ),
            models.Index(
                fields=["owner", "connection", "gone_pass"],
                name="synced_item_gone",
                condition=models.Q(gone_pass__isnull=False),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.container} {self.ref}"
