"""Define CLI errors and exit codes (sysexits.h), and build them from error responses."""

from collections.abc import Mapping
from typing import Any, Final

OK: Final = 0
INTERNAL: Final = 70
USAGE: Final = 64
REFUSED: Final = 65
NOT_FOUND: Final = 66
UNAVAILABLE: Final = 69
NOT_WRITTEN: Final = 73
CONNECTOR_FAILED: Final = 74
TRY_LATER: Final = 75
PROTOCOL: Final = 76
NO_PERMISSION: Final = 77
NOT_CONNECTED: Final = 78
INTERRUPTED: Final = 130

EXIT_CODE_MEANINGS: Final = {
    OK: "success",
    USAGE: "wrong command line, or no server URL",
    REFUSED: "the server rejected the request",
    NOT_FOUND: "not found, or not covered by the grant",
    UNAVAILABLE: "the server is unreachable or failing",
    INTERNAL: "internal error of this program",
    NOT_WRITTEN: "a file cannot be written, or an export is incomplete",
    CONNECTOR_FAILED: "a connector failed",
    TRY_LATER: "try again later: rate limit, or approval pending",
    PROTOCOL: "the response does not follow the protocol",
    NO_PERMISSION: "an owner credential was found, or the grant does not allow the request",
    NOT_CONNECTED: "no valid credential: missing, expired or revoked",
    INTERRUPTED: "interrupted",
}

_EXIT_CODES_BY_STATUS: Final = {
    401: NOT_CONNECTED,
    403: NO_PERMISSION,
    404: NOT_FOUND,
    408: TRY_LATER,
    410: NOT_FOUND,
    425: TRY_LATER,
    429: TRY_LATER,
}
_ENDED_GRANT_CODES: Final = frozenset(
    {"grant_revoked", "grant_expired", "grant_invalid", "grant_consumed", "package_revoked"}
)


class CliError(Exception):
    """End the command with an exit code. `detail` holds additional members of the error."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        exit_code: int,
        param: str | None = None,
        next_step: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.exit_code = exit_code
        self.param = param
        self.next_step = next_step
        self.detail = dict(detail or {})

    @property
    def body(self) -> dict[str, Any]:
        """The error as `{"error": {…}}`, in the format of the server."""
        members = {
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "next_step": self.next_step,
        }
        return {
            "error": {name: value for name, value in members.items() if value is not None}
            | self.detail
            | {"exit_code": self.exit_code}
        }


def usage_error(
    message: str, *, param: str | None = None, next_step: str | None = None
) -> CliError:
    """Return an error about the command line."""
    return CliError("usage", message, exit_code=USAGE, param=param, next_step=next_step)


def error_from_response(status: int, body: object) -> CliError:
    """Return the error of a response, in the REST format or in that of OAuth."""
    members = body if isinstance(body, dict) else {}
    error = members.get("error")
    if isinstance(error, dict):
        return _from_rest_error(status, error)
    code = error if isinstance(error, str) else f"http_{status}"
    description = members.get("error_description") or members.get("message")
    message = description if isinstance(description, str) else f"The server returned {status}."
    detail = {"request_id": members["request_id"]} if "request_id" in members else None
    return CliError(code, message, exit_code=_exit_code(status, code), detail=detail)


def _from_rest_error(status: int, error: Mapping[str, Any]) -> CliError:
    code = str(error.get("code") or error.get("type") or f"http_{status}")
    known = {"code", "message", "param", "next_step"}
    return CliError(
        code,
        str(error.get("message") or f"The server returned {status}."),
        exit_code=_exit_code(status, code),
        param=_optional_text(error.get("param")),
        next_step=_optional_text(error.get("next_step")),
        detail={name: value for name, value in error.items() if name not in known},
    )


def _exit_code(status: int, code: str) -> int:
    if code in _ENDED_GRANT_CODES:
        return NOT_CONNECTED
    if status >= 500:
        return UNAVAILABLE
    return _EXIT_CODES_BY_STATUS.get(status, REFUSED)


def _optional_text(value: object) -> str | None:
    return value if isinstance(value, str) else None
