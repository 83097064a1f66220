"""What the walk knows so far."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from evidence.operating.doctor.asking import Answer, Asking
from evidence.operating.doctor.findings import Side, wrong
from evidence.operating.doctor.hosts import Host
from evidence.operating.doctor.strangers import stranger

HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "pdpp doctor", "version": "1"},
    },
}


@dataclass(slots=True)
class State:
    """`url` is the address of the MCP endpoint as hosts are given it; steps fill in the rest."""

    url: str
    host: Host
    asking: Asking
    bearer: str | None
    challenge: dict[str, str] = field(default_factory=dict)
    challenged_as: str = ""
    resource: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    client_id: str = ""
    found: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def hello(self, bearer: str | None = None) -> Answer:
        """The first request of a host."""
        headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
        return self.asking.post(self.url, HELLO, **headers)


def own(answer: Answer) -> Answer:
    """The answer, if the server itself can have given it."""
    if (found := stranger(answer)) is not None:
        raise found
    return answer


def document(answer: Answer, *, what: str) -> dict[str, Any]:
    """The JSON object of a successful answer."""
    if own(answer).status == 404:
        raise wrong(
            "missing_document",
            Side.PROXY,
            seen=f"{answer.url}: {answer.in_words}",
            change=f"Forward {urlsplit(answer.url).path} to the server, where {what} is.",
        )
    found = answer.json
    if answer.status != 200 or found is None:
        raise wrong(
            "unreadable_document",
            Side.SERVER,
            seen=f"{what} cannot be read: {answer.in_words}",
            change="Look into the log of the server for this request.",
        )
    return found
