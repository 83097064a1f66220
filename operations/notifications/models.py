"""Notifications to the owner, and the channels that carry them; none contains data of a record."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

from evidence.models.owners import Owned, OwnedKey


class NotificationKind(models.TextChoices):
    """What a notification is about. Each channel carries the kinds that the owner chose."""

    NEW_APP = "new_app", "A new app may read"
    TRIPWIRE = "tripwire", "An app was paused automatically"
    PERMISSION_REQUEST = "permission_request", "An app asks to read more"
    GRANT_ENDING = "grant_ending", "Access of an app ends soon"
    FAILED_IMPORT = "failed_import", "An import stopped before its end"
    FAILED_BACKUP = "failed_backup", "A backup failed"
    STOPPED_ACCOUNT = "stopped_account", "A live account stopped syncing"
    DIGEST = "digest", "What apps read, once a month"
    SIGN_IN = "sign_in", "A set-up link for your account was made"


class NotificationChannel(Owned):
    """One way to reach the owner.

    ``address`` is encrypted and bound to the channel. Nothing is sent before ``next_at``.
    ``problem`` is our sentence about the latest failure, and empty after a success.
    """

    class Transport(models.TextChoices):
        MAIL = "mail", "Mail"
        NTFY = "ntfy", "ntfy"
        WEBHOOK = "webhook", "Webhook"

    channel_id = models.TextField(primary_key=True, db_collation="C")
    transport = models.TextField(choices=Transport.choices)
    address = models.BinaryField()
    kinds = ArrayField(models.TextField(choices=NotificationKind.choices), default=list)
    created_at = models.DateTimeField()
    next_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True)
    problem = models.TextField(default="")

    class Meta(Owned.Meta):
        constraints = [
            models.CheckConstraint(
                name="notification_transport_known",
                condition=models.Q(transport__in=["mail", "ntfy", "webhook"]),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.transport} {self.channel_id}"


class Notification(Owned):
    """One message to the owner. ``key`` names its occasion, which is announced once per kind."""

    kind = models.TextField(choices=NotificationKind.choices)
    key = models.TextField(db_collation="C")
    text = models.TextField()
    path = models.TextField(help_text="The page of the owner where it can be seen.")
    created_at = models.DateTimeField()

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "kind", "key"], name="notification_once_an_occasion"
            )
        ]
        indexes = [models.Index(fields=["owner", "created_at"], name="notification_created")]

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class QueuedNotification(Owned):
    """A notification that one channel has not sent yet."""

    pk = models.CompositePrimaryKey("owner_id", "channel_id", "notification_id")
    channel = OwnedKey(NotificationChannel, cascade=True)
    notification = OwnedKey(Notification, cascade=True)

    @override
    def __str__(self) -> str:
        return f"{self.notification_id} on {self.channel_id}"
