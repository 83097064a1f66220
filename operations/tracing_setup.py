"""Whether spans are told to a collector of OpenTelemetry, which ``PDPP_TELEMETRY`` names.

Without it none of its packages is loaded, and no request pays for it.
"""

from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from operations.tracing import NONE, Spans


def check() -> None:
    """Raises ``ImproperlyConfigured`` where spans are wanted and cannot be made."""
    if not settings.PDPP_TELEMETRY:
        return
    collector = urlsplit(settings.PDPP_TELEMETRY)
    if collector.scheme not in {"http", "https"} or not collector.hostname:
        raise ImproperlyConfigured(
            "PDPP_TELEMETRY is the address of a collector, such as http://127.0.0.1:4318."
        )
    try:
        import operations.otel_tracing  # noqa: F401 - only whether it can be
    except ModuleNotFoundError as error:
        raise ImproperlyConfigured(
            "PDPP_TELEMETRY is set, but the packages it needs are not installed: make telemetry"
        ) from error


def spans() -> Spans:
    """Those of this process, as the settings want them. Raises ``ImproperlyConfigured``."""
    check()
    if not settings.PDPP_TELEMETRY:
        return NONE
    from operations.otel_tracing import told_to

    return told_to(settings.PDPP_TELEMETRY)
