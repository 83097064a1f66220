"""The owner looks up why a call was refused, by client and by the id of the request."""

from tests.owner.pages.browser import Browser
from tests.world import World

PAGE = "/admin/evidence/connection/refused/"


def test_a_refusal_is_found_by_client_and_by_request(world: World, alice: Browser) -> None:
    request_id = world.get("/v1/streams/threads/records").error["request_id"]
    world.get("/v1/streams/messages/records", "charlie")

    everything = alice.open(PAGE)
    of_bob = alice.open(f"{PAGE}?client={world.packages['bob'].client_id}")
    form = next(each for each in everything.own_forms if each.method == "GET")
    form.fill("request_id", f" {request_id} ")
    by_request = alice.press(form)

    assert "2 refusals" in everything.text
    for page in (of_bob, by_request):
        assert "1 refusal " in page.text
        assert "Bob" in page.text
        assert "includes the streams messages; it does not include “threads”." in page.text
        assert request_id in page.text
    assert "No call was refused." in alice.open(f"{PAGE}?request_id=req_none").text


def test_it_is_linked_from_where_the_owner_looks_for_it(world: World, alice: Browser) -> None:
    world.get("/v1/streams/threads/records")
    client = world.packages["bob"].client_id
    for page in ("/connected", f"/admin/evidence/client/{client.replace('_', '_5F')}/change/"):
        links = [to for said, to in alice.open(page).links if said == "Refused calls"]
        assert any("1 refusal " in alice.open(to).text for to in links), page
    assert alice.open("/admin/").has_link(
        "What was refused Calls of agents and programs that got no answer, and which clause decided."
    )


def test_nobody_else_sees_it(world: World) -> None:
    assert "login" in Browser().open(PAGE).address
