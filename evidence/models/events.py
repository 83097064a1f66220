"""Event subscriptions: who is told, how far each stream has been told of, and what is on its way.

Nothing here holds anything of a record: names of streams and connections, and bookmarks.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

from evidence.models.accounts import Owner
from evidence.models.grants import Package


class Subscription(models.Model):
    """A receiver of one client, with the rights of one package and for as long as those hold.

    ``streams`` are those that the client wants to hear of, empty for all that it may. ``secret`` is
    sealed; ``old_secret`` signs beside it for a while after a rotation.
    """

    class Status(models.TextChoices):
        PENDING = "pending_verification", "Waiting for the receiver to prove itself"
        ACTIVE = "active", "Active"
        DISABLED = "disabled", "Switched off by the client"
        FAILED = "disabled_failure", "Switched off because deliveries failed"
        REVOKED = "disabled_revoked", "Ended with the grant"

    subscription_id = models.TextField(primary_key=True, db_collation="C")
    package = models.ForeignKey(Package, on_delete=models.CASCADE, related_name="+")
    callback_url = models.TextField()
    streams = ArrayField(models.TextField(), default=list)
    secret = models.BinaryField()
    old_secret = models.BinaryField(null=True)
    old_secret_until = models.DateTimeField(null=True)
    status = models.TextField(choices=Status.choices, default=Status.PENDING)
    disabled_reason = models.TextField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    unscoped = models.Manager["Subscription"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="subscription_status_known",
                condition=models.Q(
                    status__in=[
                        "pending_verification",
                        "active",
                        "disabled",
                        "disabled_failure",
                        "disabled_revoked",
                    ]
                ),
            )
        ]

    @override
    def __str__(self) -> str:
        return self.subscription_id


class WatchedStream(models.Model):
    """How far one subscription has been told of one stream of one connection.

    ``standing`` is what ``evidence.reading.bookmarks`` keeps; ``seen_seq`` is the latest change of
    the connection, hidden ones included, that has been looked at.
    """

    pk = models.CompositePrimaryKey("subscription_id", "connection_id", "stream")
    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="+")
    stream = models.TextField(db_collation="C")
    connection_id = models.TextField(db_collation="C")
    standing = models.JSONField()
    seen_seq = models.BigIntegerField()

    unscoped = models.Manager["WatchedStream"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"{self.subscription_id}: {self.connection_id}/{self.stream}"


class Event(models.Model):
    """One message. ``place`` says between which two points of a stream's history it tells of
    changes, null where the history is not kept that far back; the body is made anew for each
    attempt, from what the grant shows then.

    ``enqueued`` while a worker has been asked to deliver it.
    """

    class Type(models.TextChoices):
        VERIFY = "pdpp.subscription.verify", "Verification"
        TEST = "pdpp.subscription.test", "Test"
        CHANGED = "pdpp.records.changed", "Records changed"
        REVOKED = "pdpp.grant.revoked", "Grant revoked"

    class Status(models.TextChoices):
        QUEUED = "queued", "On its way"
        DELIVERED = "delivered", "Delivered"
        FAILED = "failed", "Given up"
        DROPPED = "dropped", "Not sent"

    event_id = models.TextField(primary_key=True, db_collation="C")
    subscription = models.ForeignKey(Subscription, on_delete=models.CASCADE, related_name="+")
    type = models.TextField(choices=Type.choices)
    stream = models.TextField(default="", db_collation="C")
    connection_id = models.TextField(default="", db_collation="C")
    place = models.JSONField(null=True)
    challenge = models.TextField(default="")
    status = models.TextField(choices=Status.choices, default=Status.QUEUED)
    attempts = models.PositiveSmallIntegerField(default=0)
    answered = models.PositiveSmallIntegerField(null=True)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    enqueued = models.BooleanField(default=False)
    settled_at = models.DateTimeField(null=True)

    unscoped = models.Manager["Event"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            # What changes while an event is on its way is told by the next one.
            models.UniqueConstraint(
                name="changes_of_a_stream_are_told_one_at_a_time",
                fields=["subscription", "stream", "connection_id"],
                condition=models.Q(type="pdpp.records.changed", status="queued"),
            ),
            models.CheckConstraint(
                name="event_status_known",
                condition=models.Q(status__in=["queued", "delivered", "failed", "dropped"]),
            ),
        ]
        indexes = [
            models.Index(
                name="events_due",
                fields=["due_at"],
                condition=models.Q(status="queued", enqueued=False),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.type} {self.event_id}"


class Bookmark(models.Model):
    """How far many connections have been told of, found by a keyed hash of what it says.

    The same position is the same row, so that a client that asks every minute and hears of nothing
    new adds none. Holds numbers of changes only, nothing of any record.
    """

    handle = models.BinaryField(primary_key=True)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="+")
    content = models.BinaryField()
    used_at = models.DateTimeField()

    unscoped = models.Manager["Bookmark"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"bookmark {bytes(self.handle).hex()}"
