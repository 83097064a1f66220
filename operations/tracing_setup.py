"""Create the tracer that PDPP_TELEMETRY configures; load OpenTelemetry only then."""

from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from operations.tracing import NULL_TRACER, Tracer


def check_settings() -> None:
    """Raise ``ImproperlyConfigured`` if PDPP_TELEMETRY is set but cannot work."""
    if not settings.PDPP_TELEMETRY:
        return
    collector = urlsplit(settings.PDPP_TELEMETRY)
    if collector.scheme not in {"http", "https"} or not collector.hostname:
        raise ImproperlyConfigured(
            "PDPP_TELEMETRY takes the URL of a collector, such as http://127.0.0.1:4318."
        )
    try:
        import operations.otel_tracing  # noqa: F401 - checks that it is installed
    except ModuleNotFoundError as error:
        raise ImproperlyConfigured(
            "PDPP_TELEMETRY needs packages that are not installed. Run: make telemetry"
        ) from error


def create_tracer() -> Tracer:
    """Return the tracer of this process. Raises ``ImproperlyConfigured``."""
    check_settings()
    if not settings.PDPP_TELEMETRY:
        return NULL_TRACER
    from operations.otel_tracing import connect_tracer

    return connect_tracer(settings.PDPP_TELEMETRY)
