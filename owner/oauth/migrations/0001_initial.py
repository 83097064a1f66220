"""The tables of OAuth clients, their requests and their refresh tokens."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import migrations
from django.db.models import (
    CASCADE,
    BinaryField,
    CheckConstraint,
    DateTimeField,
    Index,
    IntegerField,
    JSONField,
    Q,
    TextField,
)

from evidence.migrations import OwnerFirst, owned, refers, same, same_one, table, text_key


class Migration(migrations.Migration):
    initial = True

    dependencies = [("evidence", "0001_initial")]

    operations = [
        table(
            "Registration",
            ("client_id", text_key()),
            (
                "source",
                TextField(
                    choices=[
                        ("dynamic", "Registered itself"),
                        ("metadata_document", "Its own document"),
                        ("owner", "Registered by the owner"),
                    ]
                ),
            ),
            ("name", TextField(blank=True)),
            ("redirect_uris", ArrayField(TextField())),
            ("grant_types", ArrayField(TextField())),
            (
                "auth_method",
                TextField(
                    choices=[
                        ("none", "No secret"),
                        ("client_secret_basic", "Secret in the header"),
                        ("client_secret_post", "Secret in the body"),
                    ]
                ),
            ),
            ("secret_digest", BinaryField(null=True)),
            ("metadata", JSONField()),
            ("registered_from", BinaryField(null=True)),
            ("created_at", DateTimeField()),
            ("used_at", DateTimeField(null=True)),
            ("fresh_until", DateTimeField(null=True)),
            indexes=[Index(fields=["created_at"], name="registration_by_age")],
            constraints=[
                CheckConstraint(
                    condition=Q(
                        Q(("auth_method", "none"), ("secret_digest__isnull", True)),
                        Q(
                            Q(("auth_method", "none"), _negated=True),
                            ("secret_digest__isnull", False),
                        ),
                        _connector="OR",
                    ),
                    name="registration_secret_as_its_method_says",
                )
            ],
        ),
        table(
            "RefreshFamily",
            owned(),
            ("family_id", text_key()),
            ("registration", refers(settings.OAUTH2_PROVIDER_APPLICATION_MODEL, CASCADE)),
            ("package", same("evidence.package", cascade=True)),
            ("resource", TextField()),
            ("scope", TextField()),
            ("created_at", DateTimeField()),
            ("revoked_at", DateTimeField(null=True)),
        ),
        table(
            "RefreshToken",
            owned(),
            ("digest", BinaryField(primary_key=True, serialize=False)),
            ("family", same("oauth.refreshfamily", cascade=True)),
            ("created_at", DateTimeField()),
            ("expires_at", DateTimeField()),
            ("replaced_at", DateTimeField(null=True)),
        ),
        table(
            "FamilyMember",
            owned(),
            (
                "token",
                same_one(
                    settings.OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL,
                    cascade=True,
                    primary_key=True,
                    serialize=False,
                ),
            ),
            ("family", same("oauth.refreshfamily", cascade=True)),
        ),
        table(
            "AuthorizationCode",
            owned(),
            ("digest", BinaryField(primary_key=True, serialize=False)),
            ("registration", refers(settings.OAUTH2_PROVIDER_APPLICATION_MODEL, CASCADE)),
            ("package", same("evidence.package", cascade=True)),
            ("resource", TextField()),
            ("scope", TextField()),
            ("redirect_uri", TextField()),
            ("code_challenge", TextField()),
            ("created_at", DateTimeField()),
            ("expires_at", DateTimeField()),
            ("used_at", DateTimeField(null=True)),
            ("family", same("oauth.refreshfamily", cascade=True, null=True)),
            ("token", same(settings.OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL, cascade=True, null=True)),
        ),
        table(
            "PendingRequest",
            ("request_id", text_key()),
            (
                "kind",
                TextField(
                    choices=[
                        ("device", "Device"),
                        ("collector", "Collector"),
                        ("connect", "Command line"),
                        ("pushed", "Pushed"),
                    ]
                ),
            ),
            ("handle", BinaryField(unique=True)),
            ("user_code", BinaryField(null=True, unique=True)),
            ("registration", refers(settings.OAUTH2_PROVIDER_APPLICATION_MODEL, CASCADE)),
            ("resource", TextField()),
            ("parameters", TextField()),
            ("created_at", DateTimeField()),
            ("expires_at", DateTimeField()),
            ("polled_at", DateTimeField(null=True)),
            ("interval_seconds", IntegerField(default=5)),
            ("decided_at", DateTimeField(null=True)),
            ("owner", refers("evidence.owner", CASCADE, null=True)),
            ("package_id", TextField(db_collation="C", null=True)),
            ("connection_ids", ArrayField(base_field=TextField(db_collation="C"), null=True)),
            ("used_at", DateTimeField(null=True)),
            constraints=[
                CheckConstraint(
                    condition=Q(package_id__isnull=True, connection_ids__isnull=True)
                    | Q(decided_at__isnull=False),
                    name="pending_request_allowed_when_decided",
                ),
                CheckConstraint(
                    condition=Q(kind="collector", package_id__isnull=True)
                    | (~Q(kind="collector") & Q(connection_ids__isnull=True)),
                    name="pending_request_allowed_what_it_asked_for",
                ),
            ],
        ),
        OwnerFirst(),
    ]
