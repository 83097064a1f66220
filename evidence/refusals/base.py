"""What every refusal has."""

from typing import ClassVar, Self

from evidence.refusals.codes import Code


class Refusal(Exception):  # noqa: N818 it is a correct answer, not an error
    """The request was refused.

    `param` names the parameter at fault. `extra` members stand in the error body beside the code
    (`retry_with`, `next_step`, …); their values must be JSON.
    """

    code: ClassVar[Code] = Code.INTERNAL_ERROR
    clause: str = ""
    """What of a grant decided, for the owner alone: never in an answer."""
    caller: tuple[str, str, str] | None = None
    """Owner, client and token where a client's known bearer was not let in; never in an answer."""

    discloses: tuple[tuple[str, str, str], ...] = ()
    """(connection_id, stream, record_key) of the visible records that the refusal tells something
    of; the ledger names them."""

    def __init__(
        self, *, message: str | None = None, param: str | None = None, **extra: object
    ) -> None:
        self.message = message or self._sentence()
        self.param = param
        self.extra: dict[str, object] = extra
        super().__init__(self.message)

    def because(self, clause: str) -> Self:
        """The same refusal with what decided."""
        self.clause = clause
        return self

    def telling_of(self, *records: tuple[str, str, str]) -> Self:
        """The same refusal, which tells something of visible records."""
        self.discloses = records
        return self

    @classmethod
    def _sentence(cls) -> str:
        # `python -OO` strips docstrings; the code is then the best sentence there is.
        return (cls.__doc__ or cls.code).partition("\n")[0]
