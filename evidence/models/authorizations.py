"""Sign-ins under way and the refresh tokens that come of them; every secret only as a keyed hash."""

from django.db import models
from typing_extensions import override

from evidence.models.grants import AccessToken, Package
from evidence.models.registrations import Registration


class RefreshFamily(models.Model):
    """Everything that one sign-in leads to: a chain of refresh tokens and their access tokens."""

    family_id = models.TextField(primary_key=True, db_collation="C")
    registration = models.ForeignKey(Registration, on_delete=models.CASCADE, related_name="+")
    package = models.ForeignKey(Package, on_delete=models.CASCADE, related_name="+")
    resource = models.TextField()
    scope = models.TextField()
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    unscoped = models.Manager["RefreshFamily"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return self.family_id


class RefreshToken(models.Model):
    """One link of a family; the last is the one without ``replaced_at``."""

    digest = models.BinaryField(primary_key=True)
    family = models.ForeignKey(RefreshFamily, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    replaced_at = models.DateTimeField(null=True)

    unscoped = models.Manager["RefreshToken"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(
                name="one_refresh_token_at_a_time",
                fields=["family"],
                condition=models.Q(replaced_at__isnull=True),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"refresh token of {self.family_id}"


class FamilyMember(models.Model):
    """An access token that ends with its family. Apart from the token, whose look-up stays narrow."""

    token = models.OneToOneField(
        AccessToken, primary_key=True, on_delete=models.CASCADE, related_name="+"
    )
    family = models.ForeignKey(RefreshFamily, on_delete=models.CASCADE, related_name="+")

    unscoped = models.Manager["FamilyMember"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"{self.token_id} of {self.family_id}"


class AuthorizationCode(models.Model):
    """What the owner's browser carries back to the client; kept past its use, to notice a second."""

    digest = models.BinaryField(primary_key=True)
    registration = models.ForeignKey(Registration, on_delete=models.CASCADE, related_name="+")
    package = models.ForeignKey(Package, on_delete=models.CASCADE, related_name="+")
    resource = models.TextField()
    scope = models.TextField()
    redirect_uri = models.TextField()
    code_challenge = models.TextField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    family = models.ForeignKey(RefreshFamily, null=True, on_delete=models.CASCADE, related_name="+")
    token = models.ForeignKey(AccessToken, null=True, on_delete=models.SET_NULL, related_name="+")

    unscoped = models.Manager["AuthorizationCode"]()

    class Meta:
        default_manager_name = "unscoped"

    @override
    def __str__(self) -> str:
        return f"code until {self.expires_at:%Y-%m-%d %H:%M:%S}"


class PendingRequest(models.Model):
    """A question that waits for the owner: a device, a command line, or a pushed request.

    ``handle`` is the hash of what the client polls or names it with; ``user_code`` that of what a
    person types. ``parameters`` is the request as a query string.
    """

    class Kind(models.TextChoices):
        DEVICE = "device", "Device"
        CONNECT = "connect", "Command line"
        PUSHED = "pushed", "Pushed"

    request_id = models.TextField(primary_key=True, db_collation="C")
    kind = models.TextField(choices=Kind.choices)
    handle = models.BinaryField(unique=True)
    user_code = models.BinaryField(unique=True, null=True)
    registration = models.ForeignKey(Registration, on_delete=models.CASCADE, related_name="+")
    resource = models.TextField()
    parameters = models.TextField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    polled_at = models.DateTimeField(null=True)
    interval_seconds = models.IntegerField(default=5)
    decided_at = models.DateTimeField(null=True)
    package = models.ForeignKey(Package, null=True, on_delete=models.CASCADE, related_name="+")
    """What the owner allowed; None with ``decided_at`` set is a no."""
    used_at = models.DateTimeField(null=True)

    unscoped = models.Manager["PendingRequest"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.CheckConstraint(
                name="pending_request_allowed_when_decided",
                condition=models.Q(package__isnull=True) | models.Q(decided_at__isnull=False),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} request {self.request_id}"
