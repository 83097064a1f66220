"""The tables of notifications."""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

UNSCOPED = [("unscoped", models.Manager())]
OPTIONS = {"default_manager_name": "unscoped"}
KEY = {"blank": True, "editable": False, "primary_key": True, "serialize": False}


def row_id() -> models.BigAutoField:
    return models.BigAutoField(
        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
    )


def refers(to: str, on_delete: Any, **options: Any) -> models.ForeignKey:
    return models.ForeignKey(to=to, on_delete=on_delete, related_name="+", **options)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("evidence", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="NotificationChannel",
            fields=[
                (
                    "channel_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("owner", refers("evidence.owner", models.CASCADE)),
                (
                    "transport",
                    models.TextField(
                        choices=[("mail", "Mail"), ("ntfy", "ntfy"), ("webhook", "Webhook")]
                    ),
                ),
                ("address", models.BinaryField()),
                (
                    "kinds",
                    ArrayField(
                        base_field=models.TextField(
                            choices=[
                                ("new_app", "A new app may read"),
                                ("tripwire", "An app was paused automatically"),
                                ("permission_request", "An app asks to read more"),
                                ("grant_ending", "Access of an app ends soon"),
                                ("failed_import", "An import stopped before its end"),
                                ("failed_backup", "A backup failed"),
                                ("stopped_account", "A live account stopped syncing"),
                                ("digest", "What apps read, once a month"),
                            ]
                        ),
                        default=list,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("next_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(null=True)),
                ("problem", models.TextField(default="")),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("transport__in", ["mail", "ntfy", "webhook"])),
                        name="notification_transport_known",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                ("id", row_id()),
                ("owner", refers("evidence.owner", models.CASCADE)),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("new_app", "A new app may read"),
                            ("tripwire", "An app was paused automatically"),
                            ("permission_request", "An app asks to read more"),
                            ("grant_ending", "Access of an app ends soon"),
                            ("failed_import", "An import stopped before its end"),
                            ("failed_backup", "A backup failed"),
                            ("stopped_account", "A live account stopped syncing"),
                            ("digest", "What apps read, once a month"),
                        ]
                    ),
                ),
                ("key", models.TextField(db_collation="C")),
                ("text", models.TextField()),
                ("path", models.TextField(help_text="The page of the owner where it can be seen.")),
                ("created_at", models.DateTimeField()),
            ],
            options={
                **OPTIONS,
                "indexes": [models.Index(fields=["created_at"], name="notification_created")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "kind", "key"), name="notification_once_an_occasion"
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="QueuedNotification",
            fields=[
                ("pk", models.CompositePrimaryKey("channel_id", "notification_id", **KEY)),
                ("channel", refers("notifications.notificationchannel", models.CASCADE)),
                ("notification", refers("notifications.notification", models.CASCADE)),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
    ]
