"""Each tool call makes one REST call, so limits and ledger count what is shown."""

import re
from typing import Any

import pytest

from evidence import limits
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.page_cutter import json_size, wire_size
from mcp_adapter.inprocess import InProcessRest
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import parsed_text, structured, text_of
from tests.world import World

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

BOX, OTHER_BOX = "cin_" + "b" * 24, "cin_" + "c" * 24
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
    world.connect(OTHER_BOX, "mail", "Work", identities=["bea@example.org"])
    world.put(
        *(
            (BOX, "messages", {"id": key, "subject": subject, "body_text": body, "size_bytes": n,
                               "received_at": f"2026-02-{n % 28 + 1:02}T00:00:00Z"})
            for n, (key, subject, body) in enumerate(HOSTILE)
        )
    )  # fmt: skip
    both = GrantRequest(connection_ids=[BOX, OTHER_BOX], streams=[StreamRequest(name="messages")])
    world.grant("agent", both)
    return world.tokens["agent@mcp"]


@pytest.fixture
def rest_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the paths of REST calls."""
    paths: list[str] = []
    get = InProcessRest.get

    def noting(self: InProcessRest, path: str, *rest: Any, **extra: Any) -> Any:
        paths.append(path)
        return get(self, path, *rest, **extra)

    monkeypatch.setattr(InProcessRest, "get", noting)
    return paths


def call_once(bearer: str, rest_calls: list[str], tool: str, **arguments: Any) -> Any:
    """Return the result of a tool call, asserting one REST call and the budget."""
    rest_calls.clear()
    result = real.ask(bearer, lambda client: client.call_tool(tool, arguments))
    assert not result.is_error, text_of(result)
    assert len(rest_calls) == 1, rest_calls
    text, data = wire_size(text_of(result)), json_size(structured(result))
    max_bytes = arguments.get("max_bytes")
    default = limits.SEARCH_STRUCTURED_BYTES if tool == "search" else limits.STRUCTURED_BYTES
    assert data <= max(max_bytes or 0, default)
    assert text <= (max_bytes or limits.READ_BYTES)
    return result


@pytest.mark.parametrize("max_bytes", [None, 7_000, limits.MAX_BYTES_MOST])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("query_records", {"stream": "messages", "limit": 100}),
        ("query_records", {"stream": "messages", "changes_since": "beginning", "limit": 100}),
        ("search", {"q": "lease"}),
        ("search", {"q": "lease", "limit": 100}),
    ],
)
def test_each_page_is_one_rest_call(
    bearer: str, rest_calls: list[str], tool: str, arguments: dict[str, Any], max_bytes: int | None
) -> None:
    bounded = {**arguments, **({} if max_bytes is None else {"max_bytes": max_bytes})}
    ids: list[str] = []
    extra: dict[str, str] = {}
    while True:
        result = call_once(bearer, rest_calls, tool, **bounded, **extra)
        output = parsed_text(result)
        items = output.get("records", output.get("results"))
        assert items
        ids += [item["id"] for item in items]
        if not output["has_more"]:
            break
        name = "changes_since" if "changes_since" in arguments else "cursor"
        extra = {name: output[f"next_{name}"]}
        bounded = {key: value for key, value in bounded.items() if key not in extra}

    assert len(ids) == len(set(ids)) == len(HOSTILE)


@pytest.mark.slow
@pytest.mark.parametrize("max_bytes", [None, limits.MAX_BYTES_LEAST])
def test_each_document_and_window_is_one_rest_call(
    bearer: str, rest_calls: list[str], max_bytes: int | None
) -> None:
    bounded: dict[str, Any] = {} if max_bytes is None else {"max_bytes": max_bytes}
    page = call_once(
        bearer, rest_calls, "query_records", stream="messages", limit=100, max_bytes=50_000
    )
    bodies = {subject: body for _, subject, body in HOSTILE}
    for name in [entry["id"] for entry in parsed_text(page)["records"]]:
        document = structured(call_once(bearer, rest_calls, "fetch", id=name, **bounded))
        body = bodies[subject_record(bearer, name)]
        assert body.startswith(document["text"])
        assert document["text"]
        if not document["metadata"]["complete"] and document["text"] != body:
            step = document["metadata"]["next"]
            window = structured(
                call_once(bearer, rest_calls, step["tool"], **step["args"], **bounded)
            )
            start, end = window["window"]["start_chars"], window["window"]["end_chars"]
            assert start == len(document["text"]) < end
            assert window["window"]["text"] == body[start:end]
        around = {"id": name, "field_path": "body_text", "q": "lease"}
        matches = structured(
            call_once(bearer, rest_calls, "read_record_field", **around, **bounded)
        )
        assert "lease" in matches["window"]["text"]


def subject_record(bearer: str, name: str) -> str:
    """Return the complete subject of a record."""
    arguments = {"id": name, "field_path": "subject", "max_bytes": 50_000}
    result = real.ask(bearer, lambda client: client.call_tool("read_record_field", arguments))
    subject: str = structured(result)["window"]["text"]
    return subject


@pytest.mark.parametrize(
    ("title", "sender"),
    [
        (
            "The minutes of the quarterly assembly of owners of the house in Lindenstraße {}, part",
            "",
        ),
        (
            "Rechnung über die Wartung der Heizungsanlage im Vorderhaus, Lindenstraße {}, Anlage",
            "Haus",
        ),
        (
            "二〇二六年第三四半期の管理組合総会の議事録と会計報告および修繕計画のご案内第{}号",
            "管理組合",
        ),
    ],
)
def test_default_search_page_has_eight_hits_with_long_titles(
    world: World, bearer: str, title: str, sender: str
) -> None:
    body = (
        "Dear all, please find everything about the quokkas of our garden attached to this mail. "
    )
    world.put(
        *(
            (BOX, "messages", {"id": f"m_{n:030}", "subject": title.format(n) * 2,
                               "from_name": f"{sender} Administration of the House {n}",
                               "body_text": body * 3, "received_at": f"2026-03-{n:02}T10:30:00Z"})
            for n in range(1, 11)
        )
    )  # fmt: skip

    page = parsed_text(real.ask(bearer, lambda client: client.call_tool("search", {"q": "quokka"})))

    assert len(page["results"]) >= 8
    for hit in page["results"]:
        assert {"id", "title", "date", "actor", "match"} <= set(hit)
        assert len(hit["title"].encode()) >= 36


@pytest.mark.parametrize(("hits", "calls"), [(26, 1), (63, 2)])
def test_all_hits_of_a_word_take_few_calls(
    world: World, bearer: str, hits: int, calls: int
) -> None:
    world.put(
        *(
            (BOX, "messages", {"id": f"m_{n:030}", "subject": f"Letter {n} about the house, its garden",
                               "from_name": f"Neighbour {n}", "received_at": "2026-03-01T10:30:00Z",
                               "body_text": "A quokka was seen between the house and the garden."})
            for n in range(hits)
        )
    )  # fmt: skip
    step: dict[str, Any] = {"args": {"q": "quokka", "limit": 100, "max_bytes": 50_000}}
    found: list[str] = []
    made = 0
    while step:
        arguments = step["args"]
        page = parsed_text(
            real.ask(bearer, lambda client, a=arguments: client.call_tool("search", a))
        )
        found += [hit["id"] for hit in page["results"]]
        assert len(page.get("next_cursor", "")) < 260
        made, step = made + 1, page["next"].get("page", {})

    assert (len(set(found)), made) == (hits, calls)


@pytest.mark.parametrize("boxes", [[BOX], [BOX, OTHER_BOX]])
def test_structured_hit_costs_at_most_1000_bytes(
    world: World, bearer: str, boxes: list[str]
) -> None:
    """Also with keys of usual length, and hits that share neither connection nor author."""
    world.put(
        *(
            (boxes[n % len(boxes)], "messages",
             {"id": f"m_{n:032}", "subject": f"{n} " + "The house and garden " * 5,
              "from_name": "Administration of the House",
              "from_email": "bea@example.org" if n % 2 else "house@example.org",
              "body_text": f"Dear all, {'quokkas of our garden ' * 9}",
              "received_at": f"2026-03-{n:02}T10:30:00Z"})
            for n in range(1, 9)
        )
    )  # fmt: skip
    search = {"q": "quokkas garden", "max_bytes": 50_000}

    found = structured(real.ask(bearer, lambda client: client.call_tool("search", search)))

    hits = list(zip(found["results"], found["data"]["data"], strict=True))
    assert len(hits) == 8
    for entry, hit in hits:
        assert json_size(entry) + json_size(hit) <= 1_000
        assert len(entry["title"]) >= 40
        before, match, after = re.split("</?mark>", entry["snippet"])[:3]
        assert match in {"quokkas", "garden"}
        assert len(f"{before}{match}{after}") >= 32


def test_values_of_500_characters_are_never_cut(world: World, bearer: str) -> None:
    values = {f"v{n:031}": f"{n:03}" + "x" * 497 for n in range(12)}
    world.put(
        *((OTHER_BOX, "messages", {"id": key, "body_text": values[key], "subject": "Whole"})
          for key in values)
    )  # fmt: skip
    step: dict[str, Any] = {"args": {"stream": "messages", "limit": 12, "connection_id": OTHER_BOX}}
    shown: dict[str, str] = {}
    while step:
        arguments = step["args"]
        result = real.ask(bearer, lambda client, a=arguments: client.call_tool("query_records", a))
        records = structured(result)["data"]["data"]
        assert records
        for record in records:
            # A record costs at most its data and 250 bytes, with a key of usual length.
            assert json_size(record) - json_size(record["data"]) <= 250
        shown |= {record["id"]: record["data"]["body_text"] for record in records}
        for line in parsed_text(result)["records"]:
            assert line["data"]["body_text"] in shown.values()
            assert "cut" not in line
        step = parsed_text(result)["next"].get("page", {})

    assert shown == values
