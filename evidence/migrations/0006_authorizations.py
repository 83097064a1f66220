"""Programs that register themselves, and their sign-ins."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.manager
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evidence", "0005_identities"),
    ]

    operations = [
        migrations.CreateModel(
            name="RefreshFamily",
            fields=[
                (
                    "family_id",
                    models.TextField(db_collation="C", primary_key=True, serialize=False),
                ),
                ("resource", models.TextField()),
                ("scope", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(null=True)),
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
            name="FamilyMember",
            fields=[
                (
                    "token",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="evidence.accesstoken",
                    ),
                ),
                (
                    "family",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.refreshfamily",
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
                (
                    "redirect_uris",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), size=None
                    ),
                ),
                (
                    "grant_types",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), size=None
                    ),
                ),
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
                "default_manager_name": "unscoped",
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
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
        migrations.AddField(
            model_name="refreshfamily",
            name="registration",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="evidence.registration",
            ),
        ),
        migrations.CreateModel(
            name="AuthorizationCode",
            fields=[
                ("digest", models.BinaryField(primary_key=True, serialize=False)),
                ("resource", models.TextField()),
                ("scope", models.TextField()),
                ("redirect_uri", models.TextField()),
                ("code_challenge", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "package",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.package",
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="evidence.accesstoken",
                    ),
                ),
                (
                    "family",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.refreshfamily",
                    ),
                ),
                (
                    "registration",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.registration",
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
            name="RefreshToken",
            fields=[
                ("digest", models.BinaryField(primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("replaced_at", models.DateTimeField(null=True)),
                (
                    "family",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.refreshfamily",
                    ),
                ),
            ],
            options={
                "default_manager_name": "unscoped",
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("replaced_at__isnull", True)),
                        fields=("family",),
                        name="one_refresh_token_at_a_time",
                    )
                ],
            },
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
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
                ("resource", models.TextField()),
                ("parameters", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("polled_at", models.DateTimeField(null=True)),
                ("interval_seconds", models.IntegerField(default=5)),
                ("decided_at", models.DateTimeField(null=True)),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "package",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.package",
                    ),
                ),
                (
                    "registration",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="evidence.registration",
                    ),
                ),
            ],
            options={
                "default_manager_name": "unscoped",
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
            managers=[
                ("unscoped", django.db.models.manager.Manager()),
            ],
        ),
    ]
