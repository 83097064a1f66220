"""How much may be read through one grant in a minute, an hour or a day, and how much has been."""

from django.db import models
from typing_extensions import override

from evidence.models.grants import Grant


class Quota(models.Model):
    """One limit that the owner has set. ``used`` counts since the start of the period ``since``.

    A grant has none at first. Periods are those of the clock in UTC: a minute, an hour, a day.
    """

    class Measure(models.TextChoices):
        CALLS = "calls", "Calls"
        RECORDS = "records", "Records"
        BYTES = "bytes", "Bytes"

    class Period(models.TextChoices):
        MINUTE = "minute", "minute"
        HOUR = "hour", "hour"
        DAY = "day", "day"

    grant = models.ForeignKey(Grant, on_delete=models.CASCADE, related_name="+")
    measure = models.TextField(choices=Measure.choices)
    period = models.TextField(choices=Period.choices)
    most = models.BigIntegerField()
    used = models.BigIntegerField(default=0)
    since = models.DateTimeField()

    unscoped = models.Manager["Quota"]()

    class Meta:
        default_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(
                fields=["grant", "measure", "period"], name="quota_once_a_measure_and_period"
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
