"""Quotas and tripwires of grants, alerts and refused calls."""

from django.db import models
from typing_extensions import override

from evidence.models.grants import Grant
from evidence.models.owners import Owned, OwnedKey, OwnedOne


class Quota(Owned):
    """One limit of a grant, set by the owner.

    ``used`` counts since ``since``, the start of a calendar minute, hour or day in UTC.
    """

    class Measure(models.TextChoices):
        CALLS = "calls", "Calls"
        RECORDS = "records", "Records"
        BYTES = "bytes", "Bytes"

    class Period(models.TextChoices):
        MINUTE = "minute", "minute"
        HOUR = "hour", "hour"
        DAY = "day", "day"

    grant = OwnedKey(Grant, cascade=True)
    measure = models.TextField(choices=Measure.choices)
    period = models.TextField(choices=Period.choices)
    most = models.BigIntegerField()
    used = models.BigIntegerField(default=0)
    since = models.DateTimeField()

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "grant", "measure", "period"],
                name="quota_once_a_measure_and_period",
            ),
            models.CheckConstraint(
                name="quota_measure_known",
                condition=models.Q(measure__in=["calls", "records", "bytes"]),
            ),
            models.CheckConstraint(
                name="quota_period_known", condition=models.Q(period__in=["minute", "hour", "day"])
            ),
            models.CheckConstraint(
                name="quota_allows_something", condition=models.Q(most__gte=1, used__gte=0)
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.most} {self.measure} per {self.period}"


class Tripwire(Owned):
    """Share of a stream, in percent, that pauses a grant when it was read; 0 means never."""

    grant = OwnedOne(Grant, primary_key=True, cascade=True)
    share = models.SmallIntegerField()

    class Meta(Owned.Meta):
        constraints = [
            models.CheckConstraint(
                name="tripwire_share_is_percent",
                condition=models.Q(share__gte=0, share__lte=100),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.share} %"


class Watch(Owned):
    """Number of records (``slack``) that a grant can read before distinct ones are counted again.

    ``slack`` never exceeds the distance to the tripwire's share, so the share is not reached before
    it is used up.
    """

    grant = OwnedKey(Grant, cascade=True)
    stream = models.TextField()
    slack = models.BigIntegerField()

    class Meta(Owned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "grant", "stream"], name="watch_once_a_grant_and_stream"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.stream}: {self.slack}"


class Alert(Owned):
    """An automatic pause: the grant read ``seen`` of ``total`` records within ``hours``."""

    grant = OwnedKey(Grant, cascade=True)
    stream = models.TextField()
    seen = models.BigIntegerField()
    total = models.BigIntegerField()
    hours = models.IntegerField()
    at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)

    class Meta(Owned.Meta):
        indexes = [
            models.Index(
                fields=["owner", "at"],
                name="alert_standing",
                condition=models.Q(acknowledged_at__isnull=True),
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.stream} at {self.at:%Y-%m-%d %H:%M}"


class RefusedCall(Owned):
    """One refused call, without any value that the client sent.

    ``param`` is a known parameter of the route, ``stream`` a declared stream, ``clause`` our
    description of the grant's clause.
    """

    at = models.DateTimeField()
    client_id = models.TextField()
    token_id = models.TextField()
    request_id = models.TextField()
    route = models.TextField()
    code = models.TextField()
    param = models.TextField()
    stream = models.TextField()
    clause = models.TextField()

    class Meta(Owned.Meta):
        indexes = [
            models.Index(fields=["owner", "client_id", "at"], name="refused_to_client"),
            models.Index(fields=["owner", "at"], name="refused_at"),
            models.Index(fields=["owner", "request_id"], name="refused_request"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.route}: {self.code}"
