"""What a change is said to show and hide is what the tokens then read, to the record and the field."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_terms import resolve_terms
from evidence.access.grants import GrantRequest, StreamRequest
from evidence.access.owner_scope import grant_scope, preview_scope
from evidence.models.grants import Grant
from evidence.models.sources import load_declarations
from owner.grants.preview import StreamDifference, compare_additions, compare_gates
from tests.owner.pages.browser import Browser
from tests.owner.pages.giving import review, what
from tests.world import NOW, PERSONAL, WORK, World

LIST = "/v1/streams/messages/records"
FIELDS = ("subject", "from_name", "from_email", "received_at", "size_bytes", "body_text")
DAYS = [
    dt.datetime(2025, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=each)
    for each in (0, 151, 370, 375, 396, 430)
]
KEYS = ("m0", "m1", "m2", "m3", "m4", "w2")

times = st.none() | st.tuples(st.integers(0, 4), st.integers(1, 5)).filter(lambda it: it[0] < it[1])
choices = st.fixed_dictionaries(
    {
        "fields": st.sets(st.sampled_from(FIELDS)),
        "time": times,
        "resources": st.none() | st.sets(st.sampled_from(KEYS), min_size=1),
        "connections": st.sets(st.sampled_from([PERSONAL, WORK]), min_size=1),
    }
)


def asked(choice: dict[str, Any]) -> GrantRequest:
    since, until = (
        (None, None) if choice["time"] is None else (DAYS[each] for each in choice["time"])
    )
    resources = choice["resources"]
    stream = StreamRequest(
        name="messages",
        fields=("id", *sorted(choice["fields"])),
        resources=None if resources is None else sorted(resources),
        since=since,
        until=until,
    )
    return GrantRequest(connection_ids=sorted(choice["connections"]), streams=[stream])


def within(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any] | None:
    """As much of ``new`` as ``old`` allows; None where that is nothing or no narrowing."""
    times = [each["time"] for each in (old, new) if each["time"] is not None]
    time = None if not times else (max(each[0] for each in times), min(each[1] for each in times))
    keys = [each["resources"] for each in (old, new) if each["resources"] is not None]
    left = {
        "fields": old["fields"] & new["fields"],
        "time": time,
        "resources": None if not keys else set.intersection(*keys),
        "connections": old["connections"] & new["connections"],
    }
    empty = not left["connections"] or left["resources"] == set()
    return None if empty or (time is not None and time[0] >= time[1]) else left


def preview(world: World, request: GrantRequest) -> Gate:
    """The gate of what is not yet issued, as the pages look through it."""
    source = world.grants["bob"][0].source
    assert source.current_declaration_id is not None
    document = load_declarations([source.current_declaration_id])[source.current_declaration_id]
    terms = [
        resolve_terms(
            each,
            streams=document.declaration.streams,
            connection_ids=frozenset(request.connection_ids),
        )
        for each in request.streams
    ]
    return Gate(preview_scope([(source.pk, terms)], owner_id=world.owner_id))


def held(world: World, grant: Grant) -> Gate:
    return Gate(grant_scope(grant, owner_id=world.owner_id))


def read(world: World, who: str) -> set[tuple[str, str]]:
    """Every record that a token is shown."""
    body = world.get(LIST, who, limit=100).body
    assert not body["has_more"]
    return {(each["connection_id"], each["id"]) for each in body["data"]}


def told(found: list[StreamDifference]) -> tuple[int, int]:
    return sum(each.more for each in found), sum(each.fewer for each in found)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=choices, second=choices, third=choices)
def test_preview_matches_what_the_token_reads(
    world: World, first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]
) -> None:
    previewed = preview(world, asked(first)).stream("messages")
    expected = {(each.connection.connection_id, each.record_key)
                for each in previewed.page(limit=100, descending=True)}  # fmt: skip
    world.grant("ann", asked(first))
    before = read(world, "ann")
    assert before == expected

    [grant] = world.grants["ann"]
    more = compare_additions([held(world, grant)], preview(world, asked(third)))
    world.grant("zoe", asked(third))
    assert told(more)[0] == len(read(world, "zoe") - before)
    assert {name for each in more for name in each.fields_more} == third["fields"] - first["fields"]

    smaller = within(first, second)
    if smaller is None:
        return
    request = asked(smaller)
    found = compare_gates([held(world, grant)], preview(world, request))
    narrow_grant(
        grant.pk, request.streams, connection_ids=request.connection_ids, expires_at=None, now=NOW
    )
    after = read(world, "ann")
    assert told(found) == (len(after - before), len(before - after))
    assert {name for each in found for name in each.fields_fewer} == first["fields"] - smaller[
        "fields"
    ]


def test_narrow_page_shows_what_it_hides(world: World, alice: Browser) -> None:
    form = alice.open(f"/connected/narrow?grant={world.grants['bob'][0].pk}").form
    whole = alice.press(form, "decision", "review")
    assert "Compared with now Nothing changes." in whole.text
    assert "nothing" not in whole.text.split("It will not see")[1].split("Compared")[0]
    form.untick("Work mail")
    form.untick("Body text")

    page = alice.press(form, "decision", "review")

    assert "Compared with now Messages: hides 2 records and the field Body text." in page.text
    before = read(world, "bob")
    alice.press(page.form, "decision", "allow")
    assert len(before - read(world, "bob")) == 2


@pytest.mark.parametrize("is_known", [True, False])
def test_give_access_shows_a_preview(world: World, alice: Browser, *, is_known: bool) -> None:
    form = what(alice, "Personal mail")
    if is_known:
        form.fill("new_client", "")
        form.fill("client", world.packages["bob"].client_id)
    form.tick("Messages")
    form.untick("From email")

    page = review(alice, form)

    assert "5 records , 1 June 2025 to 5 March 2026" in page.text
    assert "Messages: the field From email" in page.text
    assert "Dinner on Friday?" in page.text
    said = "Messages: shows 2 more records and the fields Labels, Seen and Size."
    assert (said in page.text) is is_known
