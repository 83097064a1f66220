"""What keeps personal data out of the log, wherever a line comes from."""

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


BEARERS = re.compile(r"pdpp_(own|at|rt)_[\w-]+")
PARTS = ("method", "route", "status", "milliseconds")
"""What a line may say in fields of its own. Anything else that a library hangs on a line, a whole
request for one, stays out."""


class RouteOnly(logging.Filter):
    """Django names the path of a request that failed; only its route may stay."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        # Not above: it has the settings loaded, which this module is part of.
        from operations.route_names import route

        path = getattr(getattr(record, "request", None), "path", None)
        if isinstance(path, str) and isinstance(record.args, tuple):
            # Django escapes whatever is not plain ASCII before it comes here.
            said = (path, path.encode("unicode_escape").decode("ascii"))
            record.args = tuple(route(path) if each in said else each for each in record.args)
        return True


class Discreet(logging.Formatter):
    """Where it failed and how, but not with which words: those of a database quote values."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        # Another handler may have left its own, talkative text of the exception.
        record.exc_text = None
        try:
            return BEARERS.sub(r"pdpp_\1_…", self.written(record))
        finally:
            record.exc_text = None

    def written(self, record: logging.LogRecord) -> str:
        return super().format(record)

    @override
    def formatException(self, ei: ExceptionInfo) -> str:
        kind, error, frames = ei
        lines = traceback.format_tb(frames)
        causes = []
        while error is not None and (error := error.__cause__ or error.__context__) is not None:
            causes.append(f" (from {type(error).__name__})")
        return "".join([*lines, kind.__name__ if kind else "", *causes])


class DiscreetJson(Discreet):
    """The same as one JSON object a line: ``time``, ``level``, ``logger``, ``message``, ``PARTS``."""

    @override
    def written(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in PARTS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


OURS = ("evidence", "mcp_adapter", "pdpp", "pdpp_site")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATTERS = {
    "text": "operations.log_config.Discreet",
    "json": "operations.log_config.DiscreetJson",
}


def configuration(*, level: str, debug: bool, form: str = "text") -> dict[str, Any]:
    """Everything to standard error, one line each; bodies, queries and names are left out.

    What libraries say below a warning is left out as well: at DEBUG they quote what they handle.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"route_only": {"()": "operations.log_config.RouteOnly"}},
        "formatters": {
            "line": {
                "()": "logging.Formatter" if debug else FORMATTERS[form],
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
        **{name: {"level": level} for name in OURS},
        "django": {"handlers": ["stderr"], "level": level, "propagate": False},
        "uvicorn": {"level": _at_least(level, "INFO")},
        # The variables of a template may be a record's, and statements have values.
        "django.template": {"level": "WARNING"},
        "django.db.backends": {"level": "WARNING"},
        # The access log has every request; what is left here are the failures.
        "django.request": {"level": "ERROR"},
        # They quote what agents send.
        "mcp": {"level": "ERROR"},
        "oauth2_provider": {"level": "ERROR"},
        "oauthlib": {"level": "ERROR"},
        # Each attempt to reach a collector that is away would be a line.
        "opentelemetry": {"level": "ERROR"},
    }


def _at_least(level: str, lowest: str) -> str:
    numbers = logging.getLevelNamesMapping()
    return lowest if numbers.get(level, 0) < numbers[lowest] else level
