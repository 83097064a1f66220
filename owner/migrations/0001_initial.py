"""The tables of the owner's sign-in."""

from django.conf import settings
from django.db import migrations
from django.db.models import (
    CASCADE,
    BigIntegerField,
    BinaryField,
    BooleanField,
    CharField,
    CheckConstraint,
    DateTimeField,
    F,
    ForeignKey,
    PositiveIntegerField,
    Q,
    TextField,
)

from evidence.migrations import refers, row_id, table


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("evidence", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        table(
            "SetupLink",
            ("digest", BinaryField(primary_key=True, serialize=False)),
            ("owner", refers("evidence.owner", CASCADE, null=True)),
            ("name", TextField(default="")),
            ("replaces_account", BooleanField(default=False)),
            ("created_at", DateTimeField()),
            ("expires_at", DateTimeField()),
            ("used_at", DateTimeField(blank=True, null=True)),
            constraints=[
                CheckConstraint(
                    condition=Q(("expires_at__gt", F("created_at"))),
                    name="setup_link_ends_after_start",
                )
            ],
        ),
        table(
            "Attempts",
            ("digest", BinaryField(primary_key=True, serialize=False)),
            ("failures", PositiveIntegerField(default=0)),
            ("last_at", DateTimeField()),
            ("blocked_until", DateTimeField(blank=True, null=True)),
        ),
        table(
            "Passkey",
            ("id", row_id()),
            (
                "user",
                ForeignKey(
                    to=settings.AUTH_USER_MODEL,
                    on_delete=CASCADE,
                    help_text="The user that this device belongs to.",
                ),
            ),
            ("name", CharField(help_text="The human-readable name of this device.", max_length=64)),
            ("confirmed", BooleanField(default=True, help_text="Is this device ready for use?")),
            ("credential_id", BinaryField(unique=True)),
            ("credential", BinaryField()),
            ("sign_count", BigIntegerField(default=0)),
            ("last_challenge", BinaryField(default=b"")),
            ("created_at", DateTimeField()),
            ("last_used_at", DateTimeField(null=True)),
        ),
    ]
