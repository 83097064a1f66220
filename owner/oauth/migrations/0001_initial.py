"""The tables of OAuth clients, their requests and their refresh tokens."""

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

UNSCOPED = [("unscoped", models.Manager())]
OPTIONS = {"default_manager_name": "unscoped"}


def refers(to: str, on_delete: Any, **options: Any) -> models.ForeignKey:
    return models.ForeignKey(to=to, on_delete=on_delete, related_name="+", **options)


def belongs(to: str, on_delete: Any, **options: Any) -> models.OneToOneField:
    return models.OneToOneField(to=to, on_delete=on_delete, related_name="+", **options)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("evidence", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Registration",
            fields=[
                (
                    "client_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                (
                    "source",
                    models.TextField(
                        choices=[
                            ("dynamic", "Registered itself"),
                            ("metadata_document", "Its own document"),
                            ("owner", "Registered by the owner"),
                        ]
                    ),
                ),
                ("name", models.TextField(blank=True)),
                ("redirect_uris", ArrayField(base_field=models.TextField())),
                ("grant_types", ArrayField(base_field=models.TextField())),
                (
                    "auth_method",
                    models.TextField(
                        choices=[
                            ("none", "No secret"),
                            ("client_secret_basic", "Secret in the header"),
                            ("client_secret_post", "Secret in the body"),
                        ]
                    ),
                ),
                ("secret_digest", models.BinaryField(null=True)),
                ("metadata", models.JSONField()),
                ("registered_from", models.BinaryField(null=True)),
                ("created_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                ("fresh_until", models.DateTimeField(null=True)),
            ],
            options={
                **OPTIONS,
                "indexes": [models.Index(fields=["created_at"], name="registration_by_age")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("auth_method", "none"), ("secret_digest__isnull", True)),
                            models.Q(
                                models.Q(("auth_method", "none"), _negated=True),
                                ("secret_digest__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="registration_secret_as_its_method_says",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="RefreshFamily",
            fields=[
                (
                    "family_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                (
                    "registration",
                    refers(settings.OAUTH2_PROVIDER_APPLICATION_MODEL, models.CASCADE),
                ),
                ("package", refers("evidence.package", models.CASCADE)),
                ("resource", models.TextField()),
                ("scope", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="RefreshToken",
            fields=[
                ("digest", models.BinaryField(primary_key=True, serialize=False)),
                ("family", refers("oauth.refreshfamily", models.CASCADE)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("replaced_at", models.DateTimeField(null=True)),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="FamilyMember",
            fields=[
                (
                    "token",
                    belongs(
                        settings.OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL,
                        models.CASCADE,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("family", refers("oauth.refreshfamily", models.CASCADE)),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="AuthorizationCode",
            fields=[
                ("digest", models.BinaryField(primary_key=True, serialize=False)),
                (
                    "registration",
                    refers(settings.OAUTH2_PROVIDER_APPLICATION_MODEL, models.CASCADE),
                ),
                ("package", refers("evidence.package", models.CASCADE)),
                ("resource", models.TextField()),
                ("scope", models.TextField()),
                ("redirect_uri", models.TextField()),
                ("code_challenge", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                ("family", refers("oauth.refreshfamily", models.CASCADE, null=True)),
                (
                    "token",
                    refers(settings.OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL, models.SET_NULL, null=True),
                ),
            ],
            options=OPTIONS,
            managers=UNSCOPED,
        ),
        migrations.CreateModel(
            name="PendingRequest",
            fields=[
                (
                    "request_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("device", "Device"),
                            ("connect", "Command line"),
                            ("pushed", "Pushed"),
                        ]
                    ),
                ),
                ("handle", models.BinaryField(unique=True)),
                ("user_code", models.BinaryField(null=True, unique=True)),
                (
                    "registration",
                    refers(settings.OAUTH2_PROVIDER_APPLICATION_MODEL, models.CASCADE),
                ),
                ("resource", models.TextField()),
                ("parameters", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("polled_at", models.DateTimeField(null=True)),
                ("interval_seconds", models.IntegerField(default=5)),
                ("decided_at", models.DateTimeField(null=True)),
                ("package", refers("evidence.package", models.CASCADE, null=True)),
                ("used_at", models.DateTimeField(null=True)),
            ],
            options={
                **OPTIONS,
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("package__isnull", True),
                            ("decided_at__isnull", False),
                            _connector="OR",
                        ),
                        name="pending_request_allowed_when_decided",
                    )
                ],
            },
            managers=UNSCOPED,
        ),
    ]
