"""What went wrong, said once and typed: never a traceback."""

from collections.abc import Mapping
from typing import Any

from evidence.cli import exits


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
    return Failure("usage", message, exit_code=exits.USAGE, param=param, next_step=next_step)


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
    return Failure(code, message, exit_code=exits.of_answer(status, code), detail=detail)


def _typed(status: int, error: Mapping[str, Any]) -> Failure:
    code = str(error.get("code") or error.get("type") or f"http_{status}")
    known = {"code", "message", "param", "next_step"}
    return Failure(
        code,
        str(error.get("message") or f"The server answered {status}."),
        exit_code=exits.of_answer(status, code),
        param=_text(error.get("param")),
        next_step=_text(error.get("next_step")),
        detail={name: value for name, value in error.items() if name not in known},
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
