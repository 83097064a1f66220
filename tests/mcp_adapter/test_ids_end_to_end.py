"""Section A through the real endpoint: self-contained ids."""

import re

import pytest

from evidence.record_ids import RecordRef, record_uri
from mcp_adapter.inprocess import InProcessRest
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import error_of, parsed_text, structured, text_of
from tests.scenarios import scenario
from tests.world import CHAT, PERSONAL, WORK, World

pytestmark = pytest.mark.django_db


@pytest.fixture
def rest_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """Record the REST calls."""
    calls: list[tuple[str, dict[str, str]]] = []
    get = InProcessRest.get

    def noting(self, path, params, authority, **extra):  # type: ignore[no-untyped-def]
        calls.append((path, dict(params)))
        return get(self, path, params, authority, **extra)

    monkeypatch.setattr(InProcessRest, "get", noting)
    return calls


@scenario("A1")
def test_both_channels_show_complete_ids_of_several_connections(world: World) -> None:
    result = real.call(world.tokens["dora@mcp"], "search", q="budget OR canal", max_bytes=20_000)

    results = structured(result)["results"]
    assert {item["connection_id"] for item in results} == {PERSONAL, WORK, CHAT}
    for item in results:
        assert item["id"] == f"{item['connection_id']}/{item['stream']}:{item['record_key']}"
        assert f'"{item["id"]}"' in text_of(result)


@scenario("A2")
def test_id_from_text_opens_otherwise_ambiguous_record(
    world: World, rest_calls: list[tuple[str, dict[str, str]]]
) -> None:
    bearer = world.tokens["dora@mcp"]
    text = text_of(real.call(bearer, "search", q="lease signed", connection_id=PERSONAL))
    (record_id, *_) = re.findall(r'"id":"([^"]+:m1)"', text)
    rest_calls.clear()

    document = structured(real.call(bearer, "fetch", id=record_id))

    assert document["id"] == record_id == f"{PERSONAL}/messages:m1"
    assert "deposit is 2,340 euros" in document["text"]
    assert {query["connection_id"] for _, query in rest_calls} == {PERSONAL}


@scenario("A2", "C5")
def test_connection_id_is_neither_added_nor_changed(
    world: World, rest_calls: list[tuple[str, dict[str, str]]]
) -> None:
    bearer = world.tokens["dora@mcp"]
    real.call(bearer, "search", q="lease")
    real.call(bearer, "fetch", id="messages:m1")
    real.call(bearer, "query_records", stream="transactions")
    real.call(bearer, "aggregate", stream="threads", metric="count")
    assert not any("connection_id" in query for _, query in rest_calls)
    rest_calls.clear()

    real.call(bearer, "fetch", id="cin_unheard_of/messages:m1")

    assert {query["connection_id"] for _, query in rest_calls} == {"cin_unheard_of"}


@scenario("A3")
def test_legacy_id_needs_connection_id_if_ambiguous(world: World) -> None:
    bearer = world.tokens["bob@mcp"]

    ambiguous = error_of(real.call(bearer, "fetch", id="messages:m1"))
    scoped = structured(real.call(bearer, "fetch", id="messages:m1", connection_id=WORK))

    assert ambiguous["code"] == "ambiguous_connection"
    assert ambiguous["retry_with"] == "connection_id"
    assert {item["connection_id"] for item in ambiguous["available_connections"]} == {
        PERSONAL,
        WORK,
    }
    assert scoped["title"] == "Budget review"
    assert scoped["metadata"]["connection_id"] == WORK


@scenario("A3")
def test_unambiguous_legacy_id_needs_no_connection_id(world: World) -> None:
    document = structured(real.call(world.tokens["bob@mcp"], "fetch", id="messages:m3"))

    assert document["metadata"]["connection_id"] == PERSONAL
    assert document["metadata"]["handle"] == f"{PERSONAL}/messages:m3"


@scenario("A4")
@pytest.mark.parametrize(
    "record_id",
    [f"{PERSONAL}/messages:m1", record_uri(RecordRef(PERSONAL, "messages", "m1")),
     f"pdpp://record/{PERSONAL}%2Fmessages%3Am1"],
)  # fmt: skip
def test_conflicting_connections_are_refused_before_reading(
    world: World, rest_calls: list[tuple[str, dict[str, str]]], record_id: str
) -> None:
    bearer = world.tokens["dora@mcp"]

    error = error_of(real.call(bearer, "fetch", id=record_id, connection_id=WORK))

    assert error["code"] == "conflicting_connection_id"
    assert rest_calls == []
    assert not real.call(bearer, "fetch", id=record_id, connection_id=PERSONAL).is_error


@scenario("A5")
def test_malformed_id_is_refused_before_reading(
    world: World, rest_calls: list[tuple[str, dict[str, str]]]
) -> None:
    bearer = world.tokens["dora@mcp"]

    for record_id in (
        "/messages:m1",
        "cin_a/:m1",
        "cin_a/messages:",
        "cin_a/b/messages:m1",
        "a/..:b",
    ):
        for tool, extra in (("fetch", {}), ("read_record_field", {"field_path": "body_text"})):
            assert error_of(real.call(bearer, tool, id=record_id, **extra))["code"] == "invalid_id"
    assert rest_calls == []


@scenario("A6")
def test_text_shows_each_hit_and_how_to_open_it(world: World) -> None:
    text = parsed_text(real.call(world.tokens["dora@mcp"], "search", q="deposit"))

    (hit, *_) = [item for item in text["results"] if item["id"].endswith("messages:m1")]
    assert hit["id"] == f"{PERSONAL}/messages:m1"
    assert hit["title"] == "Lease signed"
    assert "Personal mail (mail)" in {source["source"] for source in text["sources"]}
    assert hit["field"] == "body_text"
    assert "<mark>deposit</mark>" in hit["match"]
    step = text["next"]["fetch"]
    assert step["args"]["id"] == text["results"][0]["id"]
    assert not real.call(world.tokens["dora@mcp"], step["tool"], **step["args"]).is_error


@scenario("A7")
def test_structured_data_is_the_rest_envelope(world: World) -> None:
    result = real.call(world.tokens["dora@mcp"], "search", q="lease", limit=2)

    envelope = structured(result)["data"]
    own = world.get("/v1/search", who="dora", q="lease", limit=2, form="compact").body
    for body in (envelope, own):
        body.pop("next_cursor", None)
        body.pop("links", None)
    assert envelope == own


@scenario("A8", "B4", "B11")
def test_record_with_unusual_key_opens_by_its_shown_id(world: World) -> None:
    keys = ["2026/0042", "a\\b", "x..y@mail.example", "..", "ünï:☃"]
    texts = {f"hear xylophone {n}": key for n, key in enumerate(keys)}
    world.put(*((WORK, "messages", {"id": key, "body_text": text}) for text, key in texts.items()))
    bearer = world.tokens["dora@mcp"]
    hits = parsed_text(real.call(bearer, "search", q="xylophone", max_bytes=30_000))["results"]

    assert len(hits) == len(keys)
    for hit in hits:
        document = structured(real.call(bearer, "fetch", id=hit["id"]))
        window = structured(
            real.call(bearer, "read_record_field", id=hit["id"], field_path="body_text")
        )
        assert document["id"] == hit["id"]
        assert window["window"]["text"] == document["text"]
        assert window["record"]["record_id"] == texts[document["text"]]


@scenario("A9")
def test_connection_is_not_repeated_next_to_a_complete_id(world: World) -> None:
    long = "k" * 199
    world.put((WORK, "messages", {"id": long, "subject": "Zither", "body_text": "a zither"}))

    (hit,) = parsed_text(real.call(world.tokens["dora@mcp"], "search", q="zither"))["results"]

    assert "connection_id" not in hit
    assert hit["id"] == f"{WORK}/messages:{long}"


@scenario("A9")
@pytest.mark.parametrize("key", ["k" * 200, "/" * 200, "\\" * 200, '"/' * 100, "ü/" * 66])
def test_id_of_a_real_key_is_never_cut(world: World, key: str) -> None:
    world.put((WORK, "messages", {"id": key, "subject": "Zither", "body_text": "a zither"}))
    bearer = world.tokens["dora@mcp"]

    result = real.call(bearer, "search", q="zither")
    (hit,) = parsed_text(result)["results"]

    assert "id_cut" not in hit
    assert hit["id"] == structured(result)["results"][0]["id"]
    assert structured(real.call(bearer, "fetch", id=hit["id"]))["text"] == "a zither"


@scenario("B4")
def test_record_uri_is_accepted_instead_of_id(world: World) -> None:
    bearer = world.tokens["dora@mcp"]
    uri = record_uri(RecordRef(PERSONAL, "messages", "m1"))

    document = structured(real.call(bearer, "fetch", id=uri))
    window = structured(real.call(bearer, "read_record_field", id=uri, field_path="subject"))
    contents = [
        real.ask(bearer, lambda client: client.read_resource(uri), way=way, era=era).contents
        for way, era in real.SURFACES
    ]

    assert document["title"] == window["window"]["text"] == "Lease signed"
    assert all('"subject":"Lease signed"' in content.text for (content,) in contents)
