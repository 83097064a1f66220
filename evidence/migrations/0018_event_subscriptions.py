"""Who wants to be told of changes, how far each has been told, and what is on its way."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0017_tripwire"),
    ]

    operations = [
        migrations.CreateModel(
            name="Subscription",
            fields=[
                (
                    "subscription_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("callback_url", models.TextField()),
                (
                    "streams",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), default=list, size=None
                    ),
                ),
                ("secret", models.BinaryField()),
                ("old_secret", models.BinaryField(null=True)),
                ("old_secret_until", models.DateTimeField(null=True)),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("pending_verification", "Waiting for the receiver to prove itself"),
                            ("active", "Active"),
                            ("disabled", "Switched off by the client"),
                            ("disabled_failure", "Switched off because deliveries failed"),
                            ("disabled_revoked", "Ended with the grant"),
                        ],
                        default="pending_verification",
                    ),
                ),
                ("disabled_reason", models.TextField(null=True)),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "package",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.package",
                    ),
                ),
            ],
            options={
                "default_manager_name": "unscoped",
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("event_id", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                (
                    "type",
                    models.TextField(
                        choices=[
                            ("pdpp.subscription.verify", "Verification"),
                            ("pdpp.subscription.test", "Test"),
                            ("pdpp.records.changed", "Records changed"),
                            ("pdpp.grant.revoked", "Grant revoked"),
                        ]
                    ),
                ),
                ("stream", models.TextField(db_collation="C", default="")),
                ("connection_id", models.TextField(db_collation="C", default="")),
                ("place", models.JSONField(null=True)),
                ("challenge", models.TextField(default="")),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("queued", "On its way"),
                            ("delivered", "Delivered"),
                            ("failed", "Given up"),
                            ("dropped", "Not sent"),
                        ],
                        default="queued",
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("answered", models.PositiveSmallIntegerField(null=True)),
                ("created_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("enqueued", models.BooleanField(default=False)),
                ("settled_at", models.DateTimeField(null=True)),
                (
                    "subscription",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.subscription",
                    ),
                ),
            ],
            options={
                "default_manager_name": "unscoped",
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name="WatchedStream",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "subscription_id",
                        "connection_id",
                        "stream",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("stream", models.TextField(db_collation="C")),
                ("connection_id", models.TextField(db_collation="C")),
                ("standing", models.JSONField()),
                ("seen_seq", models.BigIntegerField()),
                (
                    "subscription",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.subscription",
                    ),
                ),
            ],
            options={
                "default_manager_name": "unscoped",
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        [
                            "pending_verification",
                            "active",
                            "disabled",
                            "disabled_failure",
                            "disabled_revoked",
                        ],
                    )
                ),
                name="subscription_status_known",
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("enqueued", False), ("status", "queued")),
                fields=["due_at"],
                name="events_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.UniqueConstraint(
                condition=models.Q(("status", "queued"), ("type", "pdpp.records.changed")),
                fields=("subscription", "stream", "connection_id"),
                name="changes_of_a_stream_are_told_one_at_a_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="event",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ["queued", "delivered", "failed", "dropped"])),
                name="event_status_known",
            ),
        ),
    ]
