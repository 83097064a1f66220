"""The owner looks up why a call was refused, by app and by the id of the request."""

import pytest

from owner.activity.refused_page import refusal_sentence
from tests.owner.pages.browser import Browser
from tests.world import World

PAGE = "/activity/refused"


def test_a_refusal_is_found_by_app_and_by_request(world: World, alice: Browser) -> None:
    request_id = world.get("/v1/streams/threads/records").error["request_id"]
    world.get("/v1/streams/messages/records", "charlie")

    everything = alice.open(PAGE)
    of_bob = alice.open(f"{PAGE}?client={world.packages['bob'].client_id}")
    [form] = [each for each in everything.forms if each.action.endswith(PAGE)]
    form.fill("request_id", f" {request_id} ")
    by_request = alice.press(form)

    assert "2 refusals" in everything.text
    for page in (of_bob, by_request):
        assert "1 refusal." in page.text
        assert (
            "Bob asked for a list of threads, but its access does not include threads." in page.text
        )
        assert "includes the streams messages; it does not include “threads”." in page.text
        assert request_id in page.text
        [search] = [each for each in page.forms if each.action.endswith("/search")]
        assert search.values("q") == [""]
    assert "No call was refused." in alice.open(f"{PAGE}?request_id=req_none").text


@pytest.mark.parametrize(
    ("route", "code", "stream", "param", "sentence"),
    [
        ("mcp search", "grant_paused", "", "", "asked for a search, but its access is paused."),
        ("rest records", "invalid_argument", "messages", "limit",
         "asked for a list of messages, but the call was not valid (limit)."),
        ("rest record", "not_found", "messages", "",
         "asked for a single record of messages, but its access does not include that record, or"
         " there is none."),
        ("rest records", "not_found", "", "",
         "asked for a list, but its access includes nothing of that name."),
        ("rest unheard of", "unheard_of", "", "", "asked for something, but the call was not valid."),
    ],
)  # fmt: skip
def test_each_reason_is_one_sentence(
    route: str, code: str, stream: str, param: str, sentence: str
) -> None:
    assert refusal_sentence(route, code, stream=stream, param=param) == sentence


def test_it_is_linked_from_where_the_owner_looks_for_it(world: World, alice: Browser) -> None:
    world.get("/v1/streams/threads/records")
    client = world.packages["bob"].client_id
    for page in ("/connected", "/connected",
                 f"/activity?client={client}"):  # fmt: skip
        links = [to for said, to in alice.open(page).links if said == "Refused calls"]
        assert any("1 refusal." in alice.open(to).text for to in links), page
