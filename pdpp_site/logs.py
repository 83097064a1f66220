"""What keeps personal data out of the log, wherever a line comes from."""

import logging
import traceback
from types import TracebackType
from typing import Any, TypeAlias

from typing_extensions import override

from pdpp_site.access_log import route

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class RouteOnly(logging.Filter):
    """Django names the path of a request that failed; only its route may stay."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        path = getattr(getattr(record, "request", None), "path", None)
        if isinstance(path, str) and isinstance(record.args, tuple):
            record.args = tuple(route(path) if each == path else each for each in record.args)
        return True


class Discreet(logging.Formatter):
    """Where it failed and how, but not with which words: those of a database quote values."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        # Another handler may have left its own, talkative text of the exception.
        record.exc_text = None
        try:
            return super().format(record)
        finally:
            record.exc_text = None

    @override
    def formatException(self, ei: ExceptionInfo) -> str:
        kind, error, frames = ei
        lines = traceback.format_tb(frames)
        causes = []
        while error is not None and (error := error.__cause__ or error.__context__) is not None:
            causes.append(f" (from {type(error).__name__})")
        return "".join([*lines, kind.__name__ if kind else "", *causes])


def configuration(*, level: str, debug: bool) -> dict[str, Any]:
    """Everything to standard error, one line each; bodies, queries and names are left out."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"route_only": {"()": "pdpp_site.logs.RouteOnly"}},
        "formatters": {
            "line": {
                "()": "logging.Formatter" if debug else "pdpp_site.logs.Discreet",
                "format": "{asctime} {levelname} {name}: {message}",
                "style": "{",
            }
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "filters": ["route_only"],
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": ["stderr"], "level": level, "propagate": False},
            # The access log has every request; what is left here are the failures.
            "django.request": {"level": "ERROR"},
            # They quote what agents send.
            "mcp": {"level": "ERROR"},
            "oauth2_provider": {"level": "ERROR"},
            "oauthlib": {"level": "ERROR"},
        },
    }
