"""What the way does to bodies: cut, compress, delay."""

from evidence.operating.doctor.findings import Side, doubtful
from evidence.operating.doctor.state import HELLO, State, own
from evidence.operating.doctor.strangers import body_limit

BODY_CHARS = 200_000
"""More than any call of a tool has, and less than the megabyte that the server takes."""


def large_bodies(state: State) -> str:
    """A body of ordinary size arrives; without a token it is refused only for that."""
    padded = {**HELLO, "params": {**HELLO["params"], "padding": "x" * BODY_CHARS}}
    answer = state.asking.post(state.url, padded)
    if answer.status == 413:
        raise body_limit(answer)
    own(answer)
    return f"A body of {BODY_CHARS // 1000} kB arrives"


def unaltered(state: State) -> str:
    """Answers come as they were asked for."""
    answer = own(state.hello())
    encoding = answer.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise doubtful(
            "compressed",
            Side.PROXY,
            seen=f"Answers are compressed ({encoding}) though nobody asked for it",
            change="Compress only what is asked for, and nothing under /mcp and /v1.",
        )
    if answer.status == 401 and answer.json is None:
        raise doubtful(
            "body_replaced",
            Side.PROXY,
            seen=f"The body of the refusal is not the server's: {answer.in_words}",
            change="Let the proxy pass bodies of errors through: hosts show their users what they say.",
        )
    return "Bodies come as the server wrote them"
