"""A word that comes out of records as a suggestion is a disclosed fact with its witnesses."""

from typing import Any

import pytest
from django.utils import timezone

from evidence.access.quotas import set_quotas
from evidence.ledger.disclosures import (
    DisclosureEntry,
    disclosures_to_clients,
    named_records,
    read_disclosures,
)
from evidence.write.record_erasure import delete_record
from tests.world import NOW, PERSONAL, World, mail


def told(world: World, holders: int, **more: Any) -> World:
    """So many mails that name an illness, the latest with the highest number."""
    world.put(
        *(
            (
                PERSONAL,
                "messages",
                mail(f"ill{number}", f"2026-06-{number + 1:02}T00:00:00Z",
                     body_text="The result says leukaemia, sadly.", **more),
            )
            for number in range(holders)
        )
    )  # fmt: skip
    return world


def last_row(world: World, who: str = "bob") -> DisclosureEntry:
    return next(iter(read_disclosures(disclosures_to_clients(world.packages[who].client_id))))


def keys(row: DisclosureEntry) -> list[str]:
    return sorted(each.record_key for each in named_records(row.record_digests).values())


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_a_suggested_word_names_a_record_that_has_it(embedded: World, mode: str) -> None:
    told(embedded, 1)

    answer = embedded.get("/v1/search", q="leukaemiaa", mode=mode)

    assert answer.body["meta"]["suggestions"] == {"leukaemiaa": ["leukaemia"]}
    row = last_row(embedded)
    assert "ill0" in keys(row)
    assert row.record_count >= 1
    [covered] = [each for each in row.covered if each.connection_id == PERSONAL]
    assert "body_text" in covered.fields


@pytest.mark.parametrize(
    ("holders", "witnesses"),
    [(4, ["ill0", "ill1", "ill2", "ill3"]), (5, ["ill4"]), (9, ["ill8"])],
)
def test_below_five_matching_records_all_are_named_and_from_five_on_one(
    world: World, holders: int, witnesses: list[str]
) -> None:
    told(world, holders)
    answer = world.get("/v1/search", q="leukaemiaa")
    assert (answer.ids, list(answer.body["meta"]["suggestions"])) == ([], ["leukaemiaa"])
    row = last_row(world)
    assert (keys(row), row.record_count) == (witnesses, len(witnesses))


def test_a_record_that_has_only_another_form_is_no_witness(world: World) -> None:
    told(world, 1)
    world.put(
        (PERSONAL, "messages", mail("plural", "2026-07-01T00:00:00Z", body_text="leukaemias"))
    )
    world.get("/v1/search", q="leukaemiia")
    assert "ill0" in keys(last_row(world))


def test_a_later_page_names_the_records_again(world: World) -> None:
    told(world, 6)
    query = {"q": "leukaemiaa zzzqqq", "limit": 2}
    first = world.get("/v1/search", **query)
    second = world.get("/v1/search", **query, cursor=first.body["next_cursor"])
    assert (first.ids, second.ids) == (["ill5", "ill4"], ["ill3", "ill2"])
    assert second.body["meta"]["suggestions"] == {"leukaemiaa": ["leukaemia"]}
    assert keys(last_row(world)) == ["ill2", "ill3", "ill5"]


def test_a_word_is_no_longer_suggested_once_no_record_has_it(world: World) -> None:
    told(world, 1)
    world.put(*((PERSONAL, "messages", mail(f"other{number}", "2026-06-01T00:00:00Z",
                                            subject="Zebra")) for number in range(2)))  # fmt: skip
    query = {"q": "leukaemiaa zebra", "limit": 2}
    first = world.get("/v1/search", **query)
    assert first.body["meta"]["suggestions"] == {"leukaemiaa": ["leukaemia"]}
    delete_record(PERSONAL, stream="messages", record_key="ill0", suppress=False, now=NOW)
    second = world.get("/v1/search", **query, cursor=first.body["next_cursor"])
    assert "suggestions" not in second.body["meta"]


def test_no_word_is_suggested_once_the_limit_of_records_is_used_up(world: World) -> None:
    told(world, 1)
    set_quotas(world.grants["bob"][0].pk, {("records", "day"): 1}, now=timezone.now())
    assert len(world.get("/v1/streams/messages/records", limit=1).ids) == 1

    refused = world.get("/v1/search", q="leukaemiaa")

    assert (refused.status, refused.error["code"]) == (429, "rate_limit_exceeded")
    assert "leukaemia" not in str(refused.body).replace("leukaemiaa", "")
