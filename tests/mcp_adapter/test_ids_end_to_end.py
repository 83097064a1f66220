"""Section A through the real endpoint: ids that are complete in themselves."""

import re

import pytest

from mcp_adapter.ids import RecordRef, record_uri
from mcp_adapter.inprocess import InProcessRest
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import refusal, seen, structured, text_of
from tests.scenarios import scenario
from tests.world import CHAT, PERSONAL, WORK, World

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """What reaches the resource server, noted on the way."""
    calls: list[tuple[str, dict[str, str]]] = []
    get = InProcessRest.get

    def noting(self, path, params, authority, **more):  # type: ignore[no-untyped-def]
        calls.append((path, dict(params)))
        return get(self, path, params, authority, **more)

    monkeypatch.setattr(InProcessRest, "get", noting)
    return calls


@scenario("A1")
def test_hits_of_several_connections_are_named_whole_in_both_channels(world: World) -> None:
    result = real.call(world.tokens["dora@mcp"], "search", q="budget OR canal", max_bytes=20_000)

    results = structured(result)["results"]
    assert {each["connection_id"] for each in results} == {PERSONAL, WORK, CHAT}
    for each in results:
        assert each["id"] == f"{each['connection_id']}/{each['stream']}:{each['record_key']}"
        assert f'"{each["id"]}"' in text_of(result)


@scenario("A2")
def test_an_id_read_off_the_text_alone_opens_where_the_bare_record_is_ambiguous(
    world: World, asked: list[tuple[str, dict[str, str]]]
) -> None:
    bearer = world.tokens["dora@mcp"]
    text = text_of(real.call(bearer, "search", q="lease signed", connection_id=PERSONAL))
    (shown, *_) = re.findall(r'"id":"([^"]+:m1)"', text)
    asked.clear()

    document = structured(real.call(bearer, "fetch", id=shown))

    assert document["id"] == shown == f"{PERSONAL}/messages:m1"
    assert "deposit is 2,340 euros" in document["text"]
    assert {query["connection_id"] for _, query in asked} == {PERSONAL}


@scenario("A2", "C5")
def test_no_connection_id_is_invented_or_rewritten_on_the_way(
    world: World, asked: list[tuple[str, dict[str, str]]]
) -> None:
    bearer = world.tokens["dora@mcp"]
    real.call(bearer, "search", q="lease")
    real.call(bearer, "fetch", id="messages:m1")
    real.call(bearer, "query_records", stream="transactions")
    real.call(bearer, "aggregate", stream="threads", metric="count")
    assert not any("connection_id" in query for _, query in asked)
    asked.clear()

    real.call(bearer, "fetch", id="cin_unheard_of/messages:m1")

    assert {query["connection_id"] for _, query in asked} == {"cin_unheard_of"}


@scenario("A3")
def test_a_legacy_id_is_scoped_by_the_argument_and_ambiguous_without(world: World) -> None:
    bearer = world.tokens["bob@mcp"]

    ambiguous = refusal(real.call(bearer, "fetch", id="messages:m1"))
    scoped = structured(real.call(bearer, "fetch", id="messages:m1", connection_id=WORK))

    assert ambiguous["code"] == "ambiguous_connection"
    assert ambiguous["retry_with"] == "connection_id"
    assert {each["connection_id"] for each in ambiguous["available_connections"]} == {
        PERSONAL,
        WORK,
    }
    assert scoped["title"] == "Budget review"
    assert scoped["metadata"]["connection_id"] == WORK


@scenario("A3")
def test_a_legacy_id_of_one_connection_alone_needs_nothing_beside_it(world: World) -> None:
    document = structured(real.call(world.tokens["bob@mcp"], "fetch", id="messages:m3"))

    assert document["metadata"]["connection_id"] == PERSONAL
    assert document["metadata"]["handle"] == f"{PERSONAL}/messages:m3"


@scenario("A4")
def test_two_connections_for_one_record_are_refused_before_anything_is_read(
    world: World, asked: list[tuple[str, dict[str, str]]]
) -> None:
    bearer = world.tokens["dora@mcp"]
    shown = f"{PERSONAL}/messages:m1"

    error = refusal(real.call(bearer, "fetch", id=shown, connection_id=WORK))

    assert error["code"] == "conflicting_connection_id"
    assert asked == []
    assert not real.call(bearer, "fetch", id=shown, connection_id=PERSONAL).is_error


@scenario("A5")
def test_a_malformed_id_is_refused_before_anything_is_read(
    world: World, asked: list[tuple[str, dict[str, str]]]
) -> None:
    bearer = world.tokens["dora@mcp"]

    for shown in ("/messages:m1", "cin_a/:m1", "cin_a/messages:", "cin_a/b/messages:m1", "a/..:b"):
        for tool, more in (("fetch", {}), ("read_record_field", {"field_path": "body_text"})):
            assert refusal(real.call(bearer, tool, id=shown, **more))["code"] == "invalid_id"
    assert asked == []


@scenario("A6")
def test_the_text_shows_what_is_known_of_each_hit_and_how_to_open_it(world: World) -> None:
    text = seen(real.call(world.tokens["dora@mcp"], "search", q="deposit"))

    (hit, *_) = [each for each in text["results"] if each["id"].endswith("messages:m1")]
    assert hit["id"] == f"{PERSONAL}/messages:m1"
    assert hit["title"] == "Lease signed"
    assert hit["source"] == "Personal mail (mail)"
    assert hit["field"] == "body_text"
    assert "<mark>deposit</mark>" in hit["match"]
    assert (
        "pass an id as shown, with connection_id only where it is shown separately" in text["next"]
    )


@scenario("A7")
def test_the_structured_data_is_the_envelope_of_the_resource_server(world: World) -> None:
    result = real.call(world.tokens["dora@mcp"], "search", q="lease", limit=2)

    envelope = structured(result)["data"]
    own = world.get("/v1/search", who="dora", q="lease", limit=2, max_bytes=7200).body
    for body in (envelope, own):
        body.pop("next_cursor", None)
        body.pop("links", None)
    assert envelope == own


@scenario("A8", "B4", "B11")
def test_a_key_of_any_shape_is_found_and_opened_by_what_is_shown(world: World) -> None:
    keys = ["2026/0042", "a\\b", "x..y@mail.example", "..", "ünï:☃"]
    texts = {f"hear xylophone {n}": key for n, key in enumerate(keys)}
    world.put(*((WORK, "messages", {"id": key, "body_text": text}) for text, key in texts.items()))
    bearer = world.tokens["dora@mcp"]
    hits = seen(real.call(bearer, "search", q="xylophone", max_bytes=30_000))["results"]

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
def test_the_connection_is_not_repeated_beside_an_id_that_holds_it(world: World) -> None:
    long = "k" * 199
    world.put((WORK, "messages", {"id": long, "subject": "Zither", "body_text": "a zither"}))

    (hit,) = seen(real.call(world.tokens["dora@mcp"], "search", q="zither"))["results"]

    assert "connection_id" not in hit
    assert hit["id"] == f"{WORK}/messages:{long}"


@scenario("B4")
def test_a_record_uri_is_accepted_wherever_an_id_is(world: World) -> None:
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
