"""What went wrong, said once and typed: never a traceback."""

from collections.abc import Mapping
from typing import Any, Final

OK: Final = 0
INTERNAL: Final = 70
USAGE: Final = 64
REFUSED: Final = 65
NOT_FOUND: Final = 66
UNAVAILABLE: Final = 69
NOT_WRITTEN: Final = 73
TRY_LATER: Final = 75
PROTOCOL: Final = 76
NO_PERMISSION: Final = 77
NOT_CONNECTED: Final = 78
INTERRUPTED: Final = 130

MEANINGS: Final = {
    OK: "done",
    USAGE: "the command line is wrong, or no provider is named",
    REFUSED: "the server refused the request as it was put",
    NOT_FOUND: "there is no such thing, or nothing of it that the grant covers",
    UNAVAILABLE: "the server cannot be reached or does not work",
    INTERNAL: "a fault of this program",
    NOT_WRITTEN: "a file cannot be written, or an export is not complete",
    TRY_LATER: "not now: a limit, or nobody has approved yet",
    PROTOCOL: "the answer is not what the protocol says",
    NO_PERMISSION: "an owner's credential is in reach, or the grant forbids it",
    NOT_CONNECTED: "no usable credential: none yet, expired, or revoked",
    INTERRUPTED: "interrupted",
}

_OF_STATUS: Final = {
    401: NOT_CONNECTED,
    403: NO_PERMISSION,
    404: NOT_FOUND,
    408: TRY_LATER,
    410: NOT_FOUND,
    425: TRY_LATER,
    429: TRY_LATER,
}
_ENDED: Final = frozenset(
    {"grant_revoked", "grant_expired", "grant_invalid", "grant_consumed", "package_revoked"}
)


def of_answer(status: int, code: str) -> int:
    """The exit code of a refused request."""
    if code in _ENDED:
        return NOT_CONNECTED
    if status >= 500:
        return UNAVAILABLE
    return _OF_STATUS.get(status, REFUSED)


class Failure(Exception):  # noqa: N818 - named for what happened, as all refusals
    """Ends the command with an exit code. `detail` holds further members of the error."""

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
        """`{"error": {…}}`, as the server words errors."""
        told = {
            "code": self.code,
            "message": self.message,
            "param": self.param,
            "next_step": self.next_step,
        }
        return {
            "error": {name: value for name, value in told.items() if value is not None}
            | self.detail
            | {"exit_code": self.exit_code}
        }


def usage(message: str, *, param: str | None = None, next_step: str | None = None) -> Failure:
    """The command line cannot be meant like that."""
    return Failure("usage", message, exit_code=USAGE, param=param, next_step=next_step)


def from_answer(status: int, body: object) -> Failure:
    """The refusal in an answer, whichever of the known forms it has."""
    members = body if isinstance(body, dict) else {}
    error = members.get("error")
    if isinstance(error, dict):
        return _typed(status, error)
    code = error if isinstance(error, str) else f"http_{status}"
    told = members.get("error_description") or members.get("message")
    message = told if isinstance(told, str) else f"The server answered {status}."
    detail = {"request_id": members["request_id"]} if "request_id" in members else None
    return Failure(code, message, exit_code=of_answer(status, code), detail=detail)


def _typed(status: int, error: Mapping[str, Any]) -> Failure:
    code = str(error.get("code") or error.get("type") or f"http_{status}")
    known = {"code", "message", "param", "next_step"}
    return Failure(
        code,
        str(error.get("message") or f"The server answered {status}."),
        exit_code=of_answer(status, code),
        param=_text(error.get("param")),
        next_step=_text(error.get("next_step")),
        detail={name: value for name, value in error.items() if name not in known},
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
