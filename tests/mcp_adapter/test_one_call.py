"""A tool call asks the resource server once: what it shows is what was read, counted and charged."""

from typing import Any

import pytest

from evidence import limits
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.json_text import size, wire_size
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import seen, structured, text_of
from tests.world import World

pytestmark = pytest.mark.django_db

BOX = "cin_" + "b" * 24
# What grows most between one form and the next: keys that no id carries, letters that nobody sees,
# characters that JSON escapes twice, a body of several times the most that a result may have.
HOSTILE = [
    ("k" * 200, "A long key", "lease"),
    ("/".join("abc" * 30) + "/..\\", "A key of separators", "lease"),
    ("日本" * 30, "\u202e\U000e0041\u3164" * 200, "lease \u200b" + "\u2066" * 2_000),
    ("quotes", '"\\"' * 300, 'lease "' + '\\"\t' * 3_000),
    ("family", "👩‍👩‍👧‍👦" * 100, "lease " + "👩‍👩‍👧‍👦" * 2_000),
    ("large", "A quarter of a megabyte", "lease " + "x y " * 65_000),
    *((f"plain{n}", f"Subject {n}", "the lease " * 30) for n in range(30)),
]


@pytest.fixture
def bearer(world: World) -> str:
    world.connect(BOX, "mail", "Letters of a whole long life, in one box")
    world.put(
        *(
            (BOX, "messages", {"id": key, "subject": subject, "body_text": body, "size_bytes": n,
                               "received_at": f"2026-02-{n % 28 + 1:02}T00:00:00Z"})
            for n, (key, subject, body) in enumerate(HOSTILE)
        )
    )  # fmt: skip
    both = GrantRequest(connection_ids=[BOX], streams=[StreamRequest(name="messages")])
    world.grant("agent", both)
    return world.tokens["agent@mcp"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that reach the resource server."""
    paths: list[str] = []
    get = InProcessRest.get

    def noting(self: InProcessRest, path: str, *rest: Any, **more: Any) -> Any:
        paths.append(path)
        return get(self, path, *rest, **more)

    monkeypatch.setattr(InProcessRest, "get", noting)
    return paths


def called(bearer: str, asked: list[str], tool: str, **arguments: Any) -> Any:
    """The result of one call, after making sure that it was one and kept its budget."""
    asked.clear()
    result = real.ask(bearer, lambda client: client.call_tool(tool, arguments))
    assert not result.is_error, text_of(result)
    assert len(asked) == 1, asked
    text, data = wire_size(text_of(result)), size(structured(result))
    most = arguments.get("max_bytes")
    if most is not None:
        assert text + data <= most
    else:
        assert data <= limits.STRUCTURED_BYTES
        assert text <= limits.READ_BYTES
    return result


@pytest.mark.parametrize("most", [None, 7_000, limits.MAX_BYTES_MOST])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("query_records", {"stream": "messages", "limit": 100}),
        ("query_records", {"stream": "messages", "changes_since": "beginning", "limit": 100}),
        ("search", {"q": "lease"}),
        ("search", {"q": "lease", "limit": 100}),
    ],
)
def test_every_page_to_the_end(
    bearer: str, asked: list[str], tool: str, arguments: dict[str, Any], most: int | None
) -> None:
    bounded = {**arguments, **({} if most is None else {"max_bytes": most})}
    met: list[str] = []
    more: dict[str, str] = {}
    while True:
        result = called(bearer, asked, tool, **bounded, **more)
        shown = seen(result)
        items = shown.get("records", shown.get("results"))
        assert items
        met += [item["id"] for item in items]
        if not shown["has_more"]:
            break
        name = "changes_since" if "changes_since" in arguments else "cursor"
        more = {name: shown[f"next_{name}"]}
        bounded = {key: value for key, value in bounded.items() if key not in more}

    assert len(met) == len(set(met)) == len(HOSTILE)


@pytest.mark.parametrize("most", [None, limits.MAX_BYTES_LEAST])
def test_every_document_and_every_window(bearer: str, asked: list[str], most: int | None) -> None:
    bounded: dict[str, Any] = {} if most is None else {"max_bytes": most}
    page = called(bearer, asked, "query_records", stream="messages", limit=100, max_bytes=50_000)
    bodies = {subject: body for _, subject, body in HOSTILE}
    for name in [each["id"] for each in seen(page)["records"]]:
        document = structured(called(bearer, asked, "fetch", id=name, **bounded))
        body = bodies[called_subject(bearer, name)]
        assert body.startswith(document["text"])
        assert document["text"]
        if not document["metadata"]["complete"] and document["text"] != body:
            step = document["metadata"]["next"]
            window = structured(called(bearer, asked, step["tool"], **step["args"], **bounded))
            start, end = window["window"]["start_chars"], window["window"]["end_chars"]
            assert start == len(document["text"]) < end
            assert window["window"]["text"] == body[start:end]
        around = {"id": name, "field_path": "body_text", "q": "lease"}
        found = structured(called(bearer, asked, "read_record_field", **around, **bounded))
        assert "lease" in found["window"]["text"]


def called_subject(bearer: str, name: str) -> str:
    """The subject of a record, whatever it takes."""
    arguments = {"id": name, "field_path": "subject", "max_bytes": 50_000}
    result = real.ask(bearer, lambda client: client.call_tool("read_record_field", arguments))
    subject: str = structured(result)["window"]["text"]
    return subject
