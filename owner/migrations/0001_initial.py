"""The tables of the owner's sign-in."""

from typing import Any

from django.conf import settings
from django.db import migrations, models

UNSCOPED = [("unscoped", models.Manager())]
OPTIONS = {"default_manager_name": "unscoped"}


def row_id() -> models.BigAutoField:
    return models.BigAutoField(
        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
    )


def refers(to: str, on_delete: Any, **options: Any) -> models.ForeignKey:
    return models.ForeignKey(to=to, on_delete=on_delete, related_name="+", **options)


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("evidence", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="SetupLink",
            fields=[
                ("digest", models.BinaryField(primary_key=True, serialize=False)),
                ("owner", refers("evidence.owner", models.CASCADE)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))),
                        name="setup_link_ends_after_start",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Attempts",
            fields=[
                ("digest", models.BinaryField(primary_key=True, serialize=False)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("last_at", models.DateTimeField()),
                ("blocked_until", models.DateTimeField(blank=True, null=True)),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="Passkey",
            fields=[
                ("id", row_id()),
                (
                    "user",
                    models.ForeignKey(
                        help_text="The user that this device belongs to.",
                        on_delete=models.CASCADE,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        help_text="The human-readable name of this device.", max_length=64
                    ),
                ),
                (
                    "confirmed",
                    models.BooleanField(default=True, help_text="Is this device ready for use?"),
                ),
                ("credential_id", models.BinaryField(unique=True)),
                ("credential", models.BinaryField()),
                ("sign_count", models.BigIntegerField(default=0)),
                ("last_challenge", models.BinaryField(default=b"")),
                ("created_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(null=True)),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
    ]
