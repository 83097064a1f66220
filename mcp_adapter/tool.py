"""What a tool is: a name, what it says of itself, its arguments, and one function that runs it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mcp_adapter import arguments
from mcp_adapter.errors import from_rest
from mcp_adapter.json_text import dumps
from mcp_adapter.rest import NO_HEADERS, Params, Rest, RestAnswer

READ_ONLY: Mapping[str, bool] = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool: the checked arguments and the door to the records."""

    given: arguments.Given
    rest: Rest
    authority: object
    public_url: str

    def ask(
        self, path: str, params: Params = (), *, headers: Mapping[str, str] = NO_HEADERS
    ) -> RestAnswer:
        """The answer, whatever its status."""
        return self.rest.get(path, params, self.authority, headers=headers)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> RestAnswer:
        """The answer to a request that changes something, whatever its status."""
        return self.rest.send(method, path, body, self.authority)

    def get(self, path: str, params: Params = ()) -> dict[str, Any]:
        """The body of a successful answer; raises `ToolError` with the refusal unchanged."""
        return succeeded(self.ask(path, params))


def succeeded(answer: RestAnswer) -> dict[str, Any]:
    """The body of a success; raises `ToolError` for anything else."""
    if answer.status != 200 or isinstance(answer.body, bytes):
        raise from_rest(answer)
    return answer.body


@dataclass(frozen=True)
class Result:
    """Both channels of a success; `text` is one JSON object."""

    structured: dict[str, Any]
    text: str

    @cached_property
    def structured_json(self) -> str:
        """The structured output as it travels; what budgets count is what is sent."""
        return dumps(self.structured)

    @cached_property
    def text_json(self) -> str:
        """The text as it travels: itself a JSON string, quotes included."""
        return dumps(self.text)


@dataclass(frozen=True, slots=True)
class Tool:
    """`run` raises `ToolError` for what is refused; `hints` are those of a read-only tool."""

    name: str
    title: str
    description: str
    arguments: Sequence[arguments.Argument]
    run: Callable[[Call], Result]
    hints: Mapping[str, bool] = field(default_factory=lambda: READ_ONLY)

    def listing(self) -> dict[str, Any]:
        """The tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": arguments.input_schema(self.arguments),
            "annotations": dict(self.hints),
        }

    def __call__(
        self, raw: Mapping[str, Any], *, rest: Rest, authority: object, public_url: str
    ) -> Result:
        """Check the arguments, then run."""
        given = arguments.check(self.name, self.arguments, raw)
        return self.run(Call(given, rest, authority, public_url))
