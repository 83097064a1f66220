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

    discloses: tuple[str, str] | None = None
    """Connection and key of the visible record that the refusal tells something of, where it does;
    the ledger names it."""

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

    def telling_of(self, connection_id: str, record_key: str) -> Self:
        """The same refusal, which tells something of a visible record."""
        self.discloses = connection_id, record_key
        return self

    @classmethod
    def _sentence(cls) -> str:
        # `python -OO` strips docstrings; the code is then the best sentence there is.
        return (cls.__doc__ or cls.code).partition("\n")[0]
