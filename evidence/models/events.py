"""Event subscriptions, deliveries and stored bookmarks; none contains data of a record."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

from evidence.models.grants import Package
from evidence.models.owners import Owned, OwnedKey


class Subscription(Owned):
    """A client's webhook receiver, with the access of one package.

    An empty ``streams`` subscribes to every granted stream. ``secret`` is encrypted; after a
    rotation, ``old_secret`` also signs until ``old_secret_until``.
    """

    class Status(models.TextChoices):
        PENDING = "pending_verification", "Waiting for the receiver to prove itself"
        ACTIVE = "active", "Active"
        DISABLED = "disabled", "Switched off by the client"
        FAILED = "disabled_failure", "Switched off because deliveries failed"
        REVOKED = "disabled_revoked", "Ended with the grant"

    subscription_id = models.TextField(primary_key=True, db_collation="C")
    package = OwnedKey(Package, cascade=True)
    callback_url = models.TextField()
    streams = ArrayField(models.TextField(), default=list)
    secret = models.BinaryField()
    old_secret = models.BinaryField(null=True)
    old_secret_until = models.DateTimeField(null=True)
    status = models.TextField(choices=Status.choices, default=Status.PENDING)
    disabled_reason = models.TextField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta(Owned.Meta):
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


class WatchedStream(Owned):
    """Feed position of one subscription in one stream of one connection.

    ``standing`` is a position of ``evidence.read.changes``; ``seen_seq`` is the latest change
    of the connection that was examined, including hidden ones.
    """

    pk = models.CompositePrimaryKey("owner_id", "subscription_id", "connection_id", "stream")
    subscription = OwnedKey(Subscription, cascade=True)
    stream = models.TextField(db_collation="C")
    connection_id = models.TextField(db_collation="C")
    standing = models.JSONField()
    seen_seq = models.BigIntegerField()

    @override
    def __str__(self) -> str:
        return f"{self.subscription_id}: {self.connection_id}/{self.stream}"


class Event(Owned):
    """One event to deliver.

    ``place`` is the range of a stream's history that it reports, null if changes were pruned. Each
    attempt builds the body again from the current grant.
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
    subscription = OwnedKey(Subscription, cascade=True)
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
    settled_at = models.DateTimeField(null=True)

    class Meta(Owned.Meta):
        constraints = [
            # The next event reports changes that happen during a delivery.
            models.UniqueConstraint(
                name="changes_of_a_stream_are_told_one_at_a_time",
                fields=["owner", "subscription", "stream", "connection_id"],
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
                condition=models.Q(status="queued"),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.type} {self.event_id}"


class Bookmark(Owned):
    """A feed position of many connections, found by a keyed hash of its content.

    Equal positions share a row, so polling without changes adds none. Contains change numbers only.
    """

    handle = models.BinaryField(primary_key=True)
    content = models.BinaryField()
    used_at = models.DateTimeField()

    @override
    def __str__(self) -> str:
        return f"bookmark {bytes(self.handle).hex()}"
