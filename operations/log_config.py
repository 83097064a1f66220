"""Logging configuration that keeps personal data out of every line."""

import logging
import re
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TypeAlias

import orjson
from typing_extensions import override

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


BEARER_TOKEN = re.compile(r"pdpp_(own|at|rt)_[\w-]+")
EXTRA_FIELDS = ("method", "route", "status", "milliseconds")
"""Extra fields of a JSON line; other attributes of a log record, such as a request, are dropped."""


MAX_MESSAGE_CHARS = 2_000
STRANGERS_ADDRESS = re.compile(r"(?<=checking failed - ).*(?= does not match)", re.DOTALL)


class RouteNameFilter(logging.Filter):
    """Replaces the path of a failed request in Django's messages by its route name.

    Leaves out the Origin or Referer of a request that failed Django's CSRF check.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "django.security.csrf" and isinstance(record.args, tuple):
            record.args = tuple(STRANGERS_ADDRESS.sub("…", str(each)) for each in record.args)
        path = getattr(getattr(record, "request", None), "path", None)
        if isinstance(path, str) and isinstance(record.args, tuple):
            # Imported late: access_log needs the settings, which import this module.
            from operations.access_log import route_name

            # Django escapes non-ASCII characters of the path.
            spellings = (path, path.encode("unicode_escape").decode("ascii"))
            record.args = tuple(
                route_name(path) if value in spellings else value for value in record.args
            )
        return True


class PrivateFormatter(logging.Formatter):
    """Formats exceptions without their messages, which may quote records, and hides tokens.

    Messages are cut after MAX_MESSAGE_CHARS.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        # Another handler may have cached the exception with its message.
        record.exc_text = None
        try:
            return BEARER_TOKEN.sub(r"pdpp_\1_…", self.format_line(record))
        finally:
            record.exc_text = None

    def format_line(self, record: logging.LogRecord) -> str:
        return super().format(record)

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = _cut(record.message)
        return super().formatMessage(record)

    @override
    def formatException(self, ei: ExceptionInfo) -> str:
        kind, error, frames = ei
        lines = traceback.format_tb(frames)
        causes = []
        while error is not None and (error := error.__cause__ or error.__context__) is not None:
            causes.append(f" (from {type(error).__name__})")
        return "".join([*lines, kind.__name__ if kind else "", *causes])


class PrivateJsonFormatter(PrivateFormatter):
    """Formats a line as JSON: ``time``, ``level``, ``logger``, ``message``, ``EXTRA_FIELDS``."""

    @override
    def format_line(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _cut(record.getMessage()),
        }
        line |= {name: getattr(record, name) for name in EXTRA_FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def _cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_CHARS else f"{message[:MAX_MESSAGE_CHARS]}…"


OWN_LOGGERS = (
    "cli", "evidence", "importers", "mcp_adapter", "operations", "owner", "pdpp", "pdpp_site",
)  # fmt: skip
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATTERS = {
    "text": "operations.log_config.PrivateFormatter",
    "json": "operations.log_config.PrivateJsonFormatter",
}


def logging_settings(*, level: str, debug: bool, log_format: str = "text") -> dict[str, Any]:
    """Return the logging settings: one line per message on standard error, without personal data.

    Libraries log warnings only, because at DEBUG they quote the data that they handle.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"route_only": {"()": "operations.log_config.RouteNameFilter"}},
        "formatters": {
            "line": {
                "()": "logging.Formatter" if debug else FORMATTERS[log_format],
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
        "root": {"handlers": ["stderr"], "level": _at_least(level, "WARNING")},
        "loggers": _loggers(level),
    }


def _loggers(level: str) -> dict[str, Any]:
    return {
        **{name: {"level": level} for name in OWN_LOGGERS},
        "django": {"handlers": ["stderr"], "level": level, "propagate": False},
        "uvicorn": {"level": _at_least(level, "INFO")},
        # Template variables and SQL parameters may be personal data.
        "django.template": {"level": "WARNING"},
        "django.db.backends": {"level": "WARNING"},
        # The access log has every request.
        "django.request": {"level": "ERROR"},
        # These libraries quote requests.
        "mcp": {"level": "ERROR"},
        "oauth2_provider": {"level": "ERROR"},
        "oauthlib": {"level": "ERROR"},
    }


def _at_least(level: str, minimum: str) -> str:
    numbers = logging.getLevelNamesMapping()
    return minimum if numbers.get(level, 0) < numbers[minimum] else level
