"""How a command ends, in the numbers of sysexits.h."""

from typing import Final

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
