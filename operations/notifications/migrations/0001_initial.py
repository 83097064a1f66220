"""The tables of notifications."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations
from django.db.models import (
    BinaryField,
    CheckConstraint,
    DateTimeField,
    Index,
    PositiveIntegerField,
    Q,
    TextField,
    UniqueConstraint,
)

from evidence.migrations import OwnerFirst, composite, owned, row_id, same, table, text_key


class Migration(migrations.Migration):
    initial = True

    dependencies = [("evidence", "0001_initial")]

    operations = [
        table(
            "NotificationChannel",
            owned(),
            ("channel_id", text_key()),
            (
                "transport",
                TextField(choices=[("mail", "Mail"), ("ntfy", "ntfy"), ("webhook", "Webhook")]),
            ),
            ("address", BinaryField()),
            (
                "kinds",
                ArrayField(
                    TextField(
                        choices=[
                            ("new_app", "A new app may read"),
                            ("tripwire", "An app was paused automatically"),
                            ("permission_request", "An app asks to read more"),
                            ("grant_ending", "Access of an app ends soon"),
                            ("failed_import", "An import stopped before its end"),
                            ("failed_backup", "A backup failed"),
                            ("stopped_account", "A live account stopped syncing"),
                            ("digest", "What apps read, once a month"),
                            ("sign_in", "A set-up link for your account was made"),
                        ]
                    ),
                    default=list,
                ),
            ),
            ("created_at", DateTimeField()),
            ("next_at", DateTimeField()),
            ("sent_at", DateTimeField(null=True)),
            ("failures", PositiveIntegerField(default=0)),
            ("failing_since", DateTimeField(null=True)),
            ("problem", TextField(default="")),
            constraints=[
                CheckConstraint(
                    condition=Q(("transport__in", ["mail", "ntfy", "webhook"])),
                    name="notification_transport_known",
                )
            ],
        ),
        table(
            "Notification",
            ("id", row_id()),
            owned(),
            (
                "kind",
                TextField(
                    choices=[
                        ("new_app", "A new app may read"),
                        ("tripwire", "An app was paused automatically"),
                        ("permission_request", "An app asks to read more"),
                        ("grant_ending", "Access of an app ends soon"),
                        ("failed_import", "An import stopped before its end"),
                        ("failed_backup", "A backup failed"),
                        ("stopped_account", "A live account stopped syncing"),
                        ("digest", "What apps read, once a month"),
                        ("sign_in", "A set-up link for your account was made"),
                    ]
                ),
            ),
            ("key", TextField(db_collation="C")),
            ("text", TextField()),
            ("path", TextField(help_text="The page of the owner where it can be seen.")),
            ("created_at", DateTimeField()),
            indexes=[Index(fields=["owner", "created_at"], name="notification_created")],
            constraints=[
                UniqueConstraint(
                    fields=("owner", "kind", "key"), name="notification_once_an_occasion"
                )
            ],
        ),
        table(
            "QueuedNotification",
            owned(),
            ("pk", composite("owner_id", "channel_id", "notification_id")),
            ("channel", same("notifications.notificationchannel", cascade=True)),
            ("notification", same("notifications.notification", cascade=True)),
        ),
        OwnerFirst(),
    ]
